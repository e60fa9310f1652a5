"""The operations on viewers' tokens: several, named, each limited or not.

A secret is in one answer only, the one to its creation.
"""

from typing import Annotated, Any, Final, TypedDict

from pydantic import Field

from gateway.access.record import NAME_MAX_CHARS, NAME_MIN_CHARS
from gateway.access.requests import KeyBody, Person, SeenLimits
from gateway.access.viewers import VIEWER_LIST, ViewerJson, viewer_json, viewer_page
from gateway.common.contract.reach import reach_of
from gateway.operate.keys import KeyRequests
from gateway.operate.operation import Listed, Note, Operation, OperationAnswer, OperationCall
from gateway.operate.role import Role


class NewViewerToken(KeyBody):
    """A token for one who reads. Without limits it sees everything that a viewer sees."""

    name: Annotated[
        str,
        Field(
            description=f"a text of {NAME_MIN_CHARS} to {NAME_MAX_CHARS} characters",
            json_schema_extra={"minLength": NAME_MIN_CHARS, "maxLength": NAME_MAX_CHARS},
        ),
    ]
    limits: SeenLimits = None
    by: Person = None


class CreatedViewerToken(ViewerJson):
    secret: str
    """Shown once."""


class RevokedViewerToken(TypedDict):
    revoked: str
    """Its id."""


async def listed(store: KeyRequests, call: OperationCall[None]) -> dict[str, Any]:
    """Raises BadListRequest."""
    return viewer_page(await store.viewers.list(), call.query)


async def create(store: KeyRequests, call: OperationCall[NewViewerToken]) -> CreatedViewerToken:
    """Raises InvalidKey, NameTaken."""
    by = store.operators.person(call.body.by, call.by)
    made = await store.viewers.create(call.body.name, reach_of(call.body.limits or {}), by=by)
    return {**viewer_json(made.token), "secret": made.secret.reveal()}


async def revoke(store: KeyRequests, call: OperationCall[None]) -> RevokedViewerToken:
    """Raises NoSuchKey."""
    await store.viewers.revoke(call.path["id"])
    return {"revoked": call.path["id"]}


# ---- the table

VIEWER_TOKENS: Final = "/v2/viewer-tokens"
_TAG: Final = "Keys"


def _noted(what: str) -> Note:
    return Note("viewer token changed", what, "token_id")


LIST: Final = Operation(
    method="GET", path=VIEWER_TOKENS, id="listViewerTokens", least_role=Role.OPERATOR, tag=_TAG,
    summary="Named tokens of viewers", handler=listed, answer=Listed(VIEWER_LIST, ViewerJson),
)  # fmt: skip
CREATE: Final = Operation(
    method="POST", path=VIEWER_TOKENS, id="createViewerToken", tag=_TAG,
    summary="Make a viewer's token, limited to teams and projects or not",
    handler=create, body=NewViewerToken, note=_noted("create"), errors=(409, 503),
    answer=OperationAnswer("The token is made, and its secret is shown, once.", CreatedViewerToken, 201),
)  # fmt: skip
REVOKE: Final = Operation(
    method="DELETE", path=VIEWER_TOKENS + "/{id}", id="revokeViewerToken", tag=_TAG,
    summary="Refuse it from the next request on, with the sessions that it opened",
    handler=revoke, note=_noted("revoke"), answer=OperationAnswer("The token is revoked.", RevokedViewerToken),
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[KeyRequests, Any], ...]] = (LIST, CREATE, REVOKE)
