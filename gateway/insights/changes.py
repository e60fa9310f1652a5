"""What may be written about insights, and what a status becomes. Pure; the same on the gateway and on the local service.

A body is checked whole by its model here. An error names the field and what is valid, and quotes nothing that was sent.
"""

from collections.abc import Mapping
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.insights.finding import STATUSES, Status

TITLE_MAX_CHARS: Final = 500
WORD_MAX_CHARS: Final = 100
COMMENT_MAX_CHARS: Final = 10_000
MOST_MADE: Final = 10_000
"""Insights made by hand that are kept; they are never forgotten, so the next one is refused."""
MOST_COMMENTS: Final = 1_000
"""Of one insight."""

_NOT_BLANK = r"\S"
_DECIMAL = r"^-?[0-9]{1,30}(\.[0-9]{1,12})?$"

# The descriptions are also the errors' words: "<field>: <description> is needed".
Title = Annotated[
    str,
    Field(
        min_length=1,
        max_length=TITLE_MAX_CHARS,
        pattern=_NOT_BLANK,
        description=f"text of 1 to {TITLE_MAX_CHARS} characters",
    ),
]
Word = Annotated[
    str,
    Field(
        min_length=1,
        max_length=WORD_MAX_CHARS,
        pattern=_NOT_BLANK,
        description=f"text of 1 to {WORD_MAX_CHARS} characters",
    ),
]
CostImpact = Annotated[
    Annotated[str, Field(pattern=_DECIMAL)] | None,
    Field(description='a decimal number as text such as "12.50", or null where it is unknown,'),
]
StatusWord = Annotated[Status, Field(description=f"one of {', '.join(STATUSES)}")]
CommentText = Annotated[
    str,
    Field(
        min_length=1,
        max_length=COMMENT_MAX_CHARS,
        pattern=_NOT_BLANK,
        description=f"text of 1 to {COMMENT_MAX_CHARS} characters",
    ),
]


class InsightError(Exception):
    """A request about insights that cannot be granted; `code` is its type in an answer."""

    status = 400
    code = "invalid_request"


class InvalidInsight(InsightError):
    """A field breaks a rule."""

    def __init__(self, field: str, needed: str, *, code: str | None = None) -> None:
        super().__init__(f"{field}: {needed}")
        self.code = code or f"invalid_{field}"


class NoSuchInsight(InsightError):
    status = 404
    code = "insight_unknown"

    def __init__(self) -> None:
        super().__init__("no insight has this id")


class NoSuchComment(InsightError):
    status = 404
    code = "comment_unknown"

    def __init__(self) -> None:
        super().__init__("no comment of this insight has this id")


class FoundInsight(InsightError):
    """What was found follows the figures: by hand only its status changes."""

    status = 409
    code = "insight_found"

    def __init__(self, field: str) -> None:
        super().__init__(
            f"{field}: of an insight that was found only status can be changed, the rest follows the figures"
        )


class TooMany(InsightError):
    status = 409
    code = "too_many"


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class NewInsight(_Body):
    """An insight made by hand."""

    title: Title
    category: Word
    effort: Word
    status: StatusWord = "new"
    cost_impact: CostImpact = None


class InsightChange(_Body):
    """Fields that are not given stay as they are."""

    status: StatusWord = "new"
    title: Title = ""
    category: Word = ""
    effort: Word = ""
    cost_impact: CostImpact = None


class CommentBody(_Body):
    """Of a new comment, or of one that is changed."""

    text: CommentText


B = TypeVar("B", bound=_Body)


def checked(body: type[B], content: Mapping[str, object]) -> B:
    """*content* as a *body*. Raises InvalidInsight with the first fault."""
    try:
        return body.model_validate(content)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise _named(body, str(fault["loc"][0]), fault["type"]) from None


def checked_change(content: Mapping[str, object]) -> dict[str, object]:
    """The fields to change, with their new values. Raises InvalidInsight."""
    change = checked(InsightChange, content).model_dump(exclude_unset=True)
    if not change:
        raise InvalidInsight("body", f"one of {', '.join(InsightChange.model_fields)} is needed")
    return change


def _named(body: type[_Body], field: str, fault: str) -> InvalidInsight:
    if field not in body.model_fields:
        return InvalidInsight("body", f"only {', '.join(body.model_fields)} can be given")
    missing = f"missing_{field}" if fault == "missing" else None
    return InvalidInsight(field, f"{body.model_fields[field].description} is needed", code=missing)


def status_when_found(status: Status, *, was_standing: bool) -> Status:
    """A cause that comes back after it was gone is new again. What a person set stays while the cause does."""
    return "new" if status == "addressed" and not was_standing else status


def status_when_gone(status: Status) -> Status:
    """What a person set aside stays aside."""
    return "addressed" if status in ("new", "in_progress") else status
