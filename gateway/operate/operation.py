"""An admin operation: where it is, who may call it, what it takes and answers, and the handler.

One table of these per subject (`keys.py`, `devices.py`, `dead_letters.py`, `insights.py`,
...). Three things follow from each row: the route of the admin listener (`server.py`), the
call of a command on the files of a stopped gateway (`gateway/cli/requests.py`), and its
description (`openapi/document.py`).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, cast
from urllib.parse import quote

from gateway.access.operators import OPERATOR
from gateway.common.body import Body
from gateway.common.contract.reach import Reach
from gateway.common.lists.conventions import ListShape
from gateway.operate.role import Role

Json = dict[str, Any]
Method = Literal["GET", "POST", "PATCH", "DELETE"]
Opened = Literal["everywhere", "loopback"] | None
"""Where a route needs no credential."""
S = TypeVar("S")
B = TypeVar("B", bound=Body | None)

NAMED: Final[Json] = {"type": "string", "minLength": 1}
"""Schema of a path parameter, unless the operation has its own."""


def always() -> bool:
    """Of a call that no credential made: a command's on the files, a tool's."""
    return True


@dataclass(frozen=True, slots=True)
class OperationCall(Generic[B]):
    """One request to an operation."""

    body: B
    path: Mapping[str, str] = field(default_factory=dict)
    """Parameter of the path -> its decoded value."""
    query: Sequence[tuple[str, str]] = ()
    by: str = OPERATOR
    """Name of the inbound key; with the admin token or a session, the operator."""
    is_admitted: Callable[[], bool] = always
    """Whether the credential still admits: for what takes long, before its effect."""


class OperationAnswer(NamedTuple):
    """The success of an operation, as it is described."""

    text: str
    kind: Any = None
    """Type of the body, a TypedDict or a union of some; or a JSON Schema. None: no body."""
    status: int = 200


class Listed(NamedTuple):
    """The answer of a list."""

    shape: ListShape
    item: type
    """Type of one item, a TypedDict."""


class Note(NamedTuple):
    """The log line of a change that is made over HTTP; it holds the id and who asked."""

    event: str
    what: str
    id_name: str
    """Of the id: in the line, and in the answer where the path has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[S, B]):
    """JSON in and out, on a store *S*."""

    method: Method
    path: str
    """A template such as `/v2/keys/{id}`."""
    id: str
    """`operationId` of the description."""
    summary: str
    text: str = ""
    tag: str
    scope: str | None = None
    """Lets an inbound key in beside the admin token."""
    open: Opened = None
    least_role: Role | None = None
    """Below it a credential is refused; None: a viewer reads, an operator changes."""

    handler: Callable[[S, OperationCall[B]], Awaitable[Mapping[str, Any] | None]]
    """Returns the answer's JSON object; None for an answer without a body."""
    body: type[B] | None = None
    is_body_needed: bool = True
    answer: OperationAnswer | Listed
    errors: tuple[int, ...] = (503,)
    """Statuses of errors beside those that follow from the rest of the row."""
    conflict: str | None = None
    """Component of the 409, where it is more than an error."""
    parameters: Mapping[str, Json] = field(default_factory=dict)
    """Parameter of the path -> its schema, where that is not `NAMED`."""
    query: Sequence[Json] = ()
    """Parameters of the query that no list describes, as OpenAPI has them."""
    note: Note | None = None
    limited: Callable[[S, Reach], Any] | None = None
    """The part of the store that a caller sees whose credential is limited, and the handler works
    on then; None: such a caller is refused."""

    @property
    def honours_limits(self) -> bool:
        return self.limited is not None

    @property
    def role(self) -> Role:
        """The least role that may call it."""
        if self.least_role is not None:
            return self.least_role
        return Role.VIEWER if self.method == "GET" else Role.OPERATOR

    @property
    def only_reads(self) -> bool:
        return self.method == "GET"

    @property
    def status(self) -> int:
        return self.answer.status if isinstance(self.answer, OperationAnswer) else 200

    def url(self, path: Mapping[str, str]) -> str:
        """The path with its parameters written in."""
        return self.path.format(**{name: quote(value, safe="") for name, value in path.items()})

    def call(
        self,
        *,
        path: Mapping[str, str] | None = None,
        query: Sequence[tuple[str, str]] = (),
        fields: Mapping[str, Any] | None = None,
        by: str = OPERATOR,
        is_admitted: Callable[[], bool] = always,
    ) -> OperationCall[B]:
        """A request with its body checked.

        Raises what the body's model raises: BadPayload, InvalidKey, ...
        """
        model = cast("type[Body] | None", self.body)
        body = cast("B", None if model is None else model.checked(fields or {}))
        return OperationCall(body, path or {}, query, by, is_admitted)


AnyOperation = Operation[Any, Any]
