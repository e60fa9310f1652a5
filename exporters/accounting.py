"""What the answer to a success accounts for. Pure.

Nothing counts as delivered that the answer does not account for (wire contract 6.0):

| answer | accounts for |
|---|---|
| no body, or an object that names no count, list or error (`{}`, an id) | all records, as taken |
| `accepted` + `rejected` = sent, each refusal placed once | all records, those as refused |
| anything else | nothing: it is not understood |

A refusal is placed by a whole `index` in range, or by the `record_id` of a record in the batch. A
count that is missing is 0. The name of the list that was sent (`records`) may hold the count in
place of `accepted`.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from exporters.answer_body import AnswerNotUnderstood
from exporters.answer_words import clean, refuse_counts, refuse_failures, refuse_outcome, shown
from spool.record import Batch
from spool.store import Refusal

CODE_LONGEST: Final = 64
MESSAGE_LONGEST: Final = 512
PARTIAL_SUCCESS: Final = "partialSuccess"
_COUNTS: Final = frozenset({"accepted", "rejected"})
_INT64: Final = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Sent:
    """The request that an answer is about."""

    records: int
    name: str = "records"
    """Of the list in the request."""
    record_ids: Callable[[], Sequence[str | None]] = list
    """Reads the `record_id` of each record, in the order of the batch."""
    order: Sequence[int] | None = None
    """Position in the request -> position in the batch, where they differ."""
    is_one_thing: bool = False
    """A stream, a billing drop or a device: the answer may describe it by any fields."""


@dataclass(frozen=True, slots=True)
class Accounted:
    """The records that were not taken; all others were."""

    refused: tuple[Refusal, ...] = ()
    unplaced: int = 0
    """How many more were refused: counted by a `partialSuccess`, which places none."""
    message: str = ""
    """Of that."""


def accounted(document: object, sent: Sent, *, is_repeat: bool = False) -> Accounted:
    """What the JSON *document* accounts for. Raises AnswerNotUnderstood.

    *is_repeat*: the status says that the records were taken before, and the document may call that
    an error.
    """
    if not isinstance(document, dict):
        raise AnswerNotUnderstood("it is JSON, and no object")
    members = {name: value for name, value in document.items() if value is not None or name in _COUNTS}
    if PARTIAL_SUCCESS in members and not is_repeat:
        return _of_partial_success(members, sent)
    is_counted = not sent.is_one_thing and (_COUNTS & members.keys() or isinstance(members.get(sent.name), int))
    if not is_repeat:
        refuse_failures({name: value for name, value in members.items() if not (is_counted and name in _COUNTS)})
    if is_counted:
        return _added_up(members, sent)
    if not is_repeat:
        (refuse_outcome if sent.is_one_thing else refuse_counts)(members)
    return Accounted()


def partial_success(count: int, message: str, sent: Sent) -> Accounted:
    """What a `partial_success` of OTLP accounts for. Raises AnswerNotUnderstood."""
    if not 0 <= count <= sent.records:
        raise AnswerNotUnderstood(f"it counts {count} rejected of {sent.records} records")
    return Accounted(unplaced=count, message=message)


def sent_in(batch: Batch, name: str = "records", order: Sequence[int] | None = None) -> Sent:
    """The records of *batch*, in a list called *name*."""
    return Sent(len(batch.records), name, lambda: [_record_id(record) for record in batch.records], order)


def _record_id(record: bytes) -> str | None:
    """Of an AI record; of an event its own id."""
    document = orjson.loads(record)
    found = document.get("record_id", (document.get("metadata") or {}).get("event_id"))
    return found if isinstance(found, str) else None


# ---- counts and places


def _added_up(members: Mapping[str, Any], sent: Sent) -> Accounted:
    accepted = _count(members.get("accepted", members.get(sent.name, 0)), "accepted")
    rejected = members.get("rejected")
    if rejected is None or (rejected == 0 and type(rejected) is int):
        rejected = []
    if not isinstance(rejected, list):
        raise AnswerNotUnderstood(f"its `rejected` is no list of refusals: {shown(rejected)}")
    if accepted + len(rejected) != sent.records:
        raise AnswerNotUnderstood(
            f"it names {accepted} accepted and {len(rejected)} rejected of {sent.records} records"
        )
    return Accounted(_placed(rejected, sent))


def _count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise AnswerNotUnderstood(f"its `{name}` is no count: {shown(value)}")
    return value


def _placed(rejected: Sequence[object], sent: Sent) -> tuple[Refusal, ...]:
    places = _Places(sent)
    found: dict[int, Refusal] = {}
    for entry in rejected:
        if not isinstance(entry, dict):
            raise AnswerNotUnderstood("a refusal in it is no object")
        index = places.of(entry)
        if index in found:
            raise AnswerNotUnderstood("it refuses a record twice")
        code = clean(entry.get("code"), CODE_LONGEST) or "rejected"
        found[index] = Refusal(index, code, clean(entry.get("message"), MESSAGE_LONGEST))
    return tuple(found[index] for index in sorted(found))


class _Places:
    """Finds the record that a refusal is about."""

    def __init__(self, sent: Sent) -> None:
        self._sent = sent
        self._by_id: dict[str, int] | None = None

    def of(self, entry: Mapping[str, Any]) -> int:
        """Position in the batch. Raises AnswerNotUnderstood where it names none, or two."""
        index, record_id = entry.get("index"), entry.get("record_id")
        if index is None and record_id is None:
            raise AnswerNotUnderstood("a refusal in it has neither `index` nor `record_id`")
        places = {self._at(index)} if index is not None else set()
        if record_id is not None:
            places.add(self._with_id(record_id))
        if len(places) > 1:
            raise AnswerNotUnderstood("`index` and `record_id` of a refusal name two records")
        return places.pop()

    def _at(self, index: object) -> int:
        if isinstance(index, bool) or not isinstance(index, int):
            raise AnswerNotUnderstood(f"an `index` in it is no whole number: {shown(index)}")
        if not 0 <= index < self._sent.records:
            raise AnswerNotUnderstood(f"an `index` in it is none of {self._sent.records} records: {shown(index)}")
        return index if self._sent.order is None else self._sent.order[index]

    def _with_id(self, record_id: object) -> int:
        if self._by_id is None:
            ids = self._sent.record_ids()
            once = {each for each, n in Counter(ids).items() if each is not None and n == 1}
            self._by_id = {each: at for at, each in enumerate(ids) if each in once}
        found = self._by_id.get(record_id) if isinstance(record_id, str) else None
        if found is None:
            raise AnswerNotUnderstood(f"a `record_id` in it is of no record that was sent: {shown(record_id)}")
        return found


def _of_partial_success(members: Mapping[str, Any], sent: Sent) -> Accounted:
    """Of OTLP's answer in JSON, where a 64-bit count may be a text."""
    partial = members[PARTIAL_SUCCESS]
    if not isinstance(partial, dict):
        raise AnswerNotUnderstood(f"its `{PARTIAL_SUCCESS}` is no object")
    if len(members) > 1 or partial.keys() - {"rejectedSpans", "errorMessage"}:
        raise AnswerNotUnderstood(f"it has other fields than OTLP's with `{PARTIAL_SUCCESS}`")
    count, message = partial.get("rejectedSpans"), partial.get("errorMessage")
    if isinstance(count, str) and _INT64.fullmatch(count):
        count = int(count)
    text = message if isinstance(message, str) else ""
    return partial_success(0 if count is None else _count(count, "rejectedSpans"), text, sent)
