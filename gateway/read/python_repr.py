"""The repr of Python values, as libraries put answers and usage into texts. Pure, linear in its
length, and nothing of it is evaluated.

1. A dict is an object, a list, tuple or set a list.
2. An object (`Usage(input_tokens=5)`) is an object of its named arguments; its class and its
   unnamed arguments are dropped.
3. An enumeration (`<Role.USER: 'user'>`) is its value; anything else between angle brackets, and
   any other word, is null.
4. Escapes in texts stay as they are: names and ids have none.
"""

import re
from typing import Any, Final

from gateway.read.loose_json import Json

MAX_DEPTH: Final = 24
_MAX_TOKENS: Final = 2048
_LEAST_TOKENS: Final = 256
_CHARS_A_TOKEN: Final = 8
_MAX_DIGITS: Final = 40

_TOKEN = re.compile(
    r"""\s*+(?:
    (?P<text>[bru]{0,2}(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"))
    | (?P<number>-?\d[\d_]*+(?:\.\d*+)?(?:[eE][+-]?\d++)?)
    | (?P<name>[A-Za-z_][\w.]*+)\s*+(?P<after>[(=]?)
    | (?P<angle><(?:[^<>'"]|'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")*+>)
    | (?P<mark>[{}\[\](),:])
    )""",
    re.VERBOSE | re.DOTALL,
)
_ENUM_VALUE = re.compile(r"""<[\w.]+:\s*['"]([^'"]*)['"]>""")
_WORDS: Final[dict[str, Json]] = {"True": True, "False": False, "None": None}
_CLOSES = frozenset("}])")


class _Frame:
    """One container while it is read."""

    __slots__ = ("items", "key", "named")

    def __init__(self, *, is_object: bool) -> None:
        self.named: dict[str, Json] | None = {} if is_object else None
        self.items: list[Json] = []
        self.key: str | None = None

    def add(self, value: Json) -> None:
        if self.named is None:
            self.items.append(value)
        elif self.key is not None:
            self.named[self.key] = value
            self.key = None
        elif isinstance(value, str):
            self.items = [value]  # a dict's key, until its colon

    def value(self) -> Json:
        return self.items if self.named is None else self.named


def loads(text: str) -> Json:
    """The value. Raises ValueError for what is no repr, is too deep, or has too many tokens."""
    tokens = min(_MAX_TOKENS, _LEAST_TOKENS + len(text) // _CHARS_A_TOKEN)
    stack = [_Frame(is_object=False)]
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        tokens -= 1
        if match is None or tokens < 0:
            raise ValueError("no repr of a Python value")
        at = match.end()
        _take(stack, match)
    if len(stack) != 1 or len(stack[0].items) != 1:
        raise ValueError("no repr of one Python value")
    return stack[0].items[0]


def _take(stack: list[_Frame], match: re.Match[str]) -> None:
    """One token."""
    kind, frame = match.lastgroup, stack[-1]
    if kind == "after":
        _take_name(stack, match["name"], match["after"])
    elif kind == "text":
        frame.add(match["text"].lstrip("bru")[1:-1])
    elif kind == "number":
        frame.add(_number(match["number"]))
    elif kind == "angle":
        found = _ENUM_VALUE.fullmatch(match["angle"])
        frame.add(None if found is None else found[1])
    else:
        _take_mark(stack, match["mark"])


def _take_name(stack: list[_Frame], name: str, after: str) -> None:
    if after == "(":
        _open(stack, is_object=True)
    elif after == "=":
        stack[-1].key = name
    else:
        stack[-1].add(_WORDS.get(name))


def _take_mark(stack: list[_Frame], mark: str) -> None:
    frame = stack[-1]
    if mark in _CLOSES:
        if len(stack) == 1:
            raise ValueError("closed more than opened")
        stack.pop()
        stack[-1].add(frame.value())
    elif mark == ":":
        if frame.named is not None and frame.items:
            frame.key = str(frame.items.pop())
    elif mark != ",":
        _open(stack, is_object=mark == "{")


def _open(stack: list[_Frame], *, is_object: bool) -> None:
    if len(stack) > MAX_DEPTH:
        raise ValueError("too deep")
    stack.append(_Frame(is_object=is_object))


def _number(text: str) -> Any:
    if len(text) > _MAX_DIGITS:
        return None
    return int(text) if text.lstrip("-").isdecimal() else float(text.replace("_", ""))
