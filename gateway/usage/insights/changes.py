"""Bodies that create and change insights, and the transitions of a status. Pure; the same on the
gateway and on the local service.

A body is checked whole by its model here. An error names the field and what is valid, and quotes
nothing that was sent.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from gateway.common.body import Body, FieldFault
from gateway.usage.insights.finding import STATUSES, Status

TITLE_MAX_CHARS: Final = 500
WORD_MAX_CHARS: Final = 100
COMMENT_MAX_CHARS: Final = 10_000
MAX_MADE: Final = 10_000
"""Manual insights that are kept; none is evicted, so the next one is refused."""
MAX_COMMENTS: Final = 1_000
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
    """A request about insights that is refused; `code` is its type in the response."""

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
    """A found insight follows the figures: an operator changes its status only."""

    status = 409
    code = "insight_found"

    def __init__(self, field: str) -> None:
        super().__init__(
            f"{field}: of an insight that was found only status can be changed, the rest follows the figures"
        )


class TooMany(InsightError):
    status = 409
    code = "too_many"


class _InsightBody(Body):
    """A refusal names the first fault; its code contains the field."""

    @classmethod
    def refusal(cls, faults: Sequence[FieldFault]) -> Exception:
        field, text, is_missing = faults[0]
        if not field:
            return InvalidInsight("body", f"only {', '.join(cls.model_fields)} can be given")
        needed = text.removeprefix(f"{field}: ")
        return InvalidInsight(field, needed, code=f"missing_{field}" if is_missing else None)


class NewInsight(_InsightBody):
    """A manual insight."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "title": "Two teams use two models for one task",
                "category": "models",
                "effort": "low",
                "cost_impact": "12.50",
            }
        }
    )

    title: Title
    category: Word
    effort: Word
    status: StatusWord = "new"
    cost_impact: CostImpact = None


class InsightChange(_InsightBody):
    """Absent fields stay. Of a found insight only the status can change."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "example": {"status": "in_progress"}})

    status: StatusWord = "new"
    title: Title = ""
    category: Word = ""
    effort: Word = ""
    cost_impact: CostImpact = None


class CommentBody(_InsightBody):
    """The body of a new or changed comment."""

    model_config = ConfigDict(json_schema_extra={"example": {"text": "Sampling was switched off for this service."}})

    text: CommentText


def checked_change(content: Mapping[str, object]) -> dict[str, object]:
    """The fields to change, with their new values. Raises InvalidInsight."""
    change = InsightChange.checked(content).model_dump(exclude_unset=True)
    if not change:
        raise InvalidInsight("body", f"one of {', '.join(InsightChange.model_fields)} is needed")
    return change


def status_when_found(status: Status, *, was_standing: bool) -> Status:
    """A cause that returns is new again; a status that an operator set stays while the cause
    persists.
    """
    return "new" if status == "addressed" and not was_standing else status


def status_when_gone(status: Status) -> Status:
    """`on_hold` and `ignored` stay."""
    return "addressed" if status in ("new", "in_progress") else status
