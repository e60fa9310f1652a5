"""What an answer says beside its counts of records: whether it names a failure, or counts by other
names than the contract's. Pure.

Which names and texts speak of a failure is a list of words. One too many holds a lane and loses
nothing; one too few would count records as delivered.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from exporters.answer_body import AnswerNotUnderstood

SHOWN_LONGEST: Final = 80
"""Of a text of the answer, in a reason."""

_FAILURE: Final = re.compile(
    r"abort|cancel|denied|deny|discard|dropped|error|exception|fail|forbid|ignor|invalid|n't|partial|quarantin|refus|reject"
    r"|skip|unable|unauthori|unavail|unknown|unsupport|(?<![a-z])(?:not|none|nothing|never)(?![a-z])|\bno\s"
)
"""Words by which a name or a text speaks of records that were not taken."""
_ASSENT: Final = frozenset({"accepted", "acknowledged", "ok", "success", "successful", "succeeded"})
"""Names whose `false` is a failure."""
OUTCOMES: Final = frozenset({"code", "detail", "message", "outcome", "result", "state", "status"})
"""Members by which an answer about one thing says what became of the request."""
_GOOD_CODE: Final = re.compile(r"0*|2\d\d|ok|success|accepted|created")
_ID: Final = re.compile(r"(?:.*[_.-])?(?:id|uuid)")
_MEASURE: Final = re.compile(
    r"(?:.*_)?(?:at|date|duration|elapsed|interval|latency|ms|ns|s|sec|seconds|time|timestamp|took|ts|ttl|version)"
)
"""Names of times, durations and versions."""
_NUMBER: Final = re.compile(r"[-+]?[\d.,]+%?")
_DOCUMENT: Final = re.compile(r"\s*[<\[{]")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def clean(value: object, longest: int) -> str:
    """*value* as one printable line of at most *longest* characters; empty when it is no text."""
    if not isinstance(value, str):
        return ""
    return "".join(sign if sign.isprintable() else " " for sign in value[:longest]).strip()


def refuse_failures(members: Mapping[str, Any]) -> None:
    """Raises AnswerNotUnderstood where a member, at any depth, is named as a failure, and there was
    one.
    """
    for name, value in _members(members):
        words = _words(name)
        if (_FAILURE.search(words) and value not in _NOTHING) or (words in _ASSENT and value in _NO):
            raise AnswerNotUnderstood(f"it names a failure: {shown(name)}{_said(value)}")


def refuse_counts(members: Mapping[str, Any]) -> None:
    """Raises AnswerNotUnderstood where a member, at any depth, is a count, a list, or a text about
    a failure.
    """
    for name, value in _members(members):
        _refuse_text(name, value)
        if _is_count(_words(name), value):
            raise AnswerNotUnderstood(f"it has a count or a list, and no `accepted`: {shown(name)}")


def refuse_outcome(members: Mapping[str, Any]) -> None:
    """Raises AnswerNotUnderstood where one of the `OUTCOMES` is a text about a failure."""
    for name in OUTCOMES & members.keys():
        _refuse_text(name, members[name])


def _refuse_text(name: str, value: object) -> None:
    if _is_failure(_words(name), value):
        raise AnswerNotUnderstood(f"it speaks of a failure: {shown(name)}{_said(value)}")


def _is_count(words: str, value: object) -> bool:
    """Whether it is a list, a denial, or a number that is no id, time or status."""
    if value is None or value is True or isinstance(value, dict) or _ID.fullmatch(words):
        return False
    if _FAILURE.search(words):
        return value not in _NOTHING
    if isinstance(value, list) or value is False:
        return True
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return _DOCUMENT.match(value) is not None
    return not _MEASURE.fullmatch(words) and not (_of_status(words) and _GOOD_CODE.fullmatch(str(value)))


_NO: Final[Sequence[object]] = (False, 0)
_NOTHING: Final[Sequence[object]] = (None, "", [], {}, *_NO)
"""Values of a member named as a failure by which there was none."""


def _is_failure(words: str, value: object) -> bool:
    if not isinstance(value, str) or _ID.fullmatch(words):
        return False
    if words.endswith("code"):
        return _GOOD_CODE.fullmatch(value.lower()) is None
    return _FAILURE.search(value.lower()) is not None


def _of_status(words: str) -> bool:
    return words.endswith(("code", "status"))


def _members(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Name and value of each member, at any depth outside lists."""
    left = [document]
    while left:
        for name, value in left.pop().items():
            yield name, value
            if isinstance(value, dict):
                left.append(value)


def _words(name: str) -> str:
    """`rejectedCount` as `rejected_count`."""
    return _CAMEL.sub("_", name).lower()


def _said(value: object) -> str:
    """The words of a failure: its `message`, or the text itself."""
    text = value.get("message") or value.get("type") or value.get("code") if isinstance(value, dict) else value
    shown = clean(text, SHOWN_LONGEST)
    return f": {shown}" if shown else ""


def shown(value: object) -> str:
    match value:
        case list():
            return "a list"
        case dict():
            return "an object"
        case str():
            return clean(value, SHOWN_LONGEST)
        case _:
            return repr(value)[:SHOWN_LONGEST]
