"""A lesson (`gateway.ingest.parsing.lessons`) as a function of what varies in a span. Pure.

It computes the lesson's numbers, compares what the lesson compares, and writes record and row.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

from gateway.common.operations import decimal_string, money, rfc3339
from gateway.common.varying import REAL, ROUND
from gateway.counting.calls.models import fingerprint
from gateway.ingest.parsing.lesson_bounds import Bounds, conditions_of
from gateway.ingest.parsing.lessons import CallLesson, Lesson
from gateway.ingest.parsing.made_function import made
from spool.span_form import span_record_id

Read = tuple[bytes, bytes, int, str | None]
"""Record, row, tokens, and the session where it varies."""
Run = Callable[..., Read | Literal[True] | None]
"""`run(values, trace_id, span_id, parent, start_ns, end_ns, received_ms, received_at)` -> None
where a condition does not hold, True for a span that is no call."""

_SIGNS: Final = {"add": "+", "sub": "-", "mul": "*", "div": "//", "rem": "%"}
_BY_CONSTANT: Final = frozenset({"div", "rem"})
_OF_ONE: Final = _BY_CONSTANT | {ROUND}
_OPERATIONS: Final = _SIGNS.keys() | {ROUND}
_OF_NUMBERS: Final = frozenset({"number", "money", "amount", "time", "count"})
_SHOWN_BY: Final[dict[str, Callable[..., str]]] = {"money": money, "amount": decimal_string, "time": rfc3339}
_TESTS: Final = {"less": "<", "at_most": "<=", "equal": "=="}
_GIVEN: Final = {"start_ns": "start", "end_ns": "end", "received_ms": "received"}
_OF_SPAN: Final = {
    "trace_id": "trace_id.hex()",
    "span_id": "span_id.hex()",
    "parent_id": "parent.hex()",
    "received": "received_at",
}
_MOST: Final = (1 << 31) - 1
_IDS_BYTES: Final = 32
"""With which a row begins: those of trace, span and parent."""
_SIGNATURE: Final = "run(values, trace_id, span_id, parent, start, end, received, received_at)"


class Code(NamedTuple):
    lines: list[str]
    constants: dict[str, Any]

    def constant(self, value: object) -> str:
        """A name for *value*."""
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name


def run_of(lesson: Lesson, varying: Sequence[str]) -> Run:
    """The function of *lesson*, for spans whose profile gives *varying*."""
    code = Code([], {})
    if varying:
        code.lines.append(f"{', '.join(varying)}, = values")
    names = numbers_of(code, lesson)
    if lesson.call is None:
        code.lines.append("return True")
    else:
        _write(code, lesson.call, names, (("trace_id", "16s"), ("span_id", "8s"), ("parent", "8s")))
    return made(_SIGNATURE, code.lines, code.constants)


def numbers_of(code: Code, lesson: Lesson) -> list[str]:
    """Compute each number that is needed, and compare as soon as both sides are there; the names of
    the numbers.
    """
    nodes, results = lesson.nodes, _results(lesson)
    bounds, between = conditions_of(lesson, results)
    compared = {place for _, left, right, _ in between for place in (left, right)}
    needed = _needed(nodes, {*results, *bounds, *compared})
    names: list[str] = []
    for place, node in enumerate(nodes):
        names.append(_number(code, nodes, names, place) if place in needed else "")
        if place in bounds and node[0] != "const":
            code.lines.append(f"if not {_within(code, names[place], bounds[place])}: return None")
        for test, left, right, outcome in between:
            if max(left, right) == place:
                code.lines.append(f"if {'not ' * outcome}{names[left]} {_TESTS[test]} {names[right]}: return None")
    return names


def _results(lesson: Lesson) -> set[int]:
    """Places of the numbers that record and row hold."""
    if lesson.call is None:
        return set()
    record = {number for kind, number, _ in lesson.call.record if kind in _OF_NUMBERS}
    row = {number for kind, _, number, _ in lesson.call.patches if kind in _OF_NUMBERS}
    return {lesson.call.tokens, *record, *row}


def _needed(nodes: Sequence[tuple[str, int, int]], of: set[int]) -> set[int]:
    """The numbers *of*, and those that they are computed of."""
    needed = set(of)
    for place in range(len(nodes) - 1, -1, -1):
        kind, left, right = nodes[place]
        if place in needed and kind in _OPERATIONS:
            needed |= {left} if kind in _OF_ONE else {left, right}
    return needed


def _number(code: Code, nodes: Sequence[tuple[str, int, int]], names: Sequence[str], place: int) -> str:
    """The name of the number at *place*, computed where it is none that is given."""
    kind, left, right = nodes[place]
    if kind in _GIVEN:
        return _GIVEN[kind]
    if kind in {"count", REAL}:
        return f"{kind}{left}"
    if kind == ROUND:
        code.lines.append(f"v{place} = round({names[left]})")
        return f"v{place}"
    if kind == "const":
        return code.constant(left)
    if kind in {"add", "sub"} and nodes[right] == ("const", 0, 0):
        return names[left]
    second = code.constant(right) if kind in _BY_CONSTANT else names[right]
    code.lines.append(f"v{place} = {names[left]} {_SIGNS[kind]} {second}")
    return f"v{place}"


def _within(code: Code, name: str, bounds: Bounds) -> str:
    low = "" if bounds.low is None else f"{code.constant(bounds.low)} <= "
    high = "" if bounds.high is None else f" <= {code.constant(bounds.high)}"
    return f"{low}{name}{high}"


def _write(code: Code, call: CallLesson, names: Sequence[str], ids: Sequence[tuple[str, str]]) -> None:
    """*ids*: the fields with which the row begins, and their formats."""
    texts = [text_of(code, piece, names) for piece in call.record]
    code.lines.append(f"record = f'{''.join(texts)}'.encode()")
    fields, layout = zip(*ids, *row_fields(code, call, names), strict=True)
    pack = code.constant(struct.Struct("<" + "".join(layout)).pack)
    session = "None" if call.used[-1] is None else f"hole{call.used[-1]}"
    code.lines.append(f"return record, {pack}({', '.join(fields)}), {names[call.tokens]}, {session}")


def text_of(code: Code, piece: tuple[str, int, bytes], names: Sequence[str]) -> str:
    """A piece of the record as part of an f-string."""
    kind, number, text = piece
    match kind:
        case "text":
            shown = code.constant(text.decode())
        case "number":
            shown = names[number]
        case "money" | "amount" | "time":
            shown = f"{code.constant(_SHOWN_BY[kind])}({names[number]})"
        case "hole":
            shown = f"hole{number}"
        case "record_id":
            shown = f"{code.constant(span_record_id)}(trace_id, span_id)"
        case _:
            shown = _OF_SPAN[kind]
    return f"{{{shown}}}"


def row_fields(code: Code, call: CallLesson, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each field of the row behind its ids, and its format; what repeats between two of them is one
    field.
    """
    at = _IDS_BYTES
    for kind, offset, number, changed in sorted(call.patches, key=lambda patch: patch[1]):
        if offset > at:
            yield code.constant(call.row[at:offset]), f"{offset - at}s"
        at = offset + (4 if kind == "count" else 8)
        match kind:
            case "number":
                yield names[number], "q"
            case "count":
                yield f"{names[number]} if {names[number]} < {_MOST} else {_MOST}", "i"
            case _:
                yield f"{code.constant(fingerprint)}(hole{number}) ^ {code.constant(changed)}", "Q"
    if at < len(call.row):
        yield code.constant(call.row[at:]), f"{len(call.row) - at}s"
