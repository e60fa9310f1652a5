"""The operations on keys: the senders' keys, and those of the embedded local service.

A secret is in one answer only, the one to its creation.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, NamedTuple, NotRequired, Protocol, TypedDict

from exporters.secret import Secret
from gateway.access.errors import LegacyKeyExists, OpenIntakeInUse
from gateway.access.labels import NO_LABELS
from gateway.access.limits import NO_LIMITS
from gateway.access.listing import KEY_LIST, key_page
from gateway.access.operators import ANYONE, Operators
from gateway.access.record import LEGACY_NAME, KeyId, KeyJson, KeyRecord
from gateway.access.requests import By, KeyChange, KeyDeletion, NewKey
from gateway.access.store import Created, KeyStore
from gateway.access.viewers import ViewerTokens
from gateway.common.contract.json_types import Schema, Time
from gateway.common.contract.reach import EVERYTHING
from gateway.common.contract.scopes import Grant, granted
from gateway.common.plural import plural
from gateway.operate.operation import Listed, Note, Operation, OperationAnswer, OperationCall
from gateway.operate.role import Role
from spool.clock import rfc3339_ms


class ShownKey(KeyJson):
    granted: list[str]
    """Every scope that it grants now."""


class CreatedKey(ShownKey):
    secret: NotRequired[str]
    """Shown once. Absent where the request held it."""


class DeletedKey(TypedDict):
    deleted: str
    """Its id."""


class OpenSenderJson(TypedDict):
    """A sender that posted without a key in the last hour."""

    peer: str
    product: str | None
    paths: list[str]
    last_seen: Time
    requests: Annotated[int, Schema(minimum=1)]


class OpenSender(Protocol):
    """A sender that posted without a key."""

    @property
    def peer(self) -> str: ...

    @property
    def product(self) -> str: ...

    @property
    def paths(self) -> Sequence[str]: ...

    @property
    def last_seen_ms(self) -> int: ...

    @property
    def requests(self) -> int: ...


RecentSenders = Callable[[], Sequence[OpenSender]]
"""Those of the last hour on open intake."""


class SendersWouldBeRefused(OpenIntakeInUse):
    """The first key would refuse senders; the answer lists them beside the error."""

    def __init__(self, senders: Sequence[OpenSender]) -> None:
        count = plural(len(senders), "sender", "senders")
        super().__init__(
            f"confirmed: {count} posted without a key in the last hour and will be refused from the first key on;"
            " true is needed to go on"
        )
        self.beside = {"senders": [sender_json(sender) for sender in senders]}


class KeyRequests(NamedTuple):
    """What the operations work on."""

    keys: KeyStore
    recent: RecentSenders = list
    """None while no gateway runs."""
    operators: Operators = ANYONE

    @property
    def viewers(self) -> ViewerTokens:
        """The tokens of viewers, which are kept beside the keys."""
        return self.keys.viewer_tokens()


KeyOperation = Operation[KeyRequests, Any]


async def listed(store: KeyRequests, call: OperationCall[None]) -> dict[str, Any]:
    """Raises BadListRequest."""
    return key_page(await store.keys.list(), call.query)


async def create(store: KeyRequests, call: OperationCall[NewKey]) -> CreatedKey | ShownKey:
    """The key with its secret, unless the request brought one along.

    Raises SendersWouldBeRefused.
    """
    new, keys = call.body, store.keys
    senders = [] if new.confirmed or keys.ever_created() else store.recent()
    if senders:
        raise SendersWouldBeRefused(senders)
    assert new.grant is not None  # noqa: S101 a new key has a grant (`faults_without_grant`)
    rest: dict[str, Any] = {"by": person_of(store, call), "description": new.description or ""}
    rest |= {"labels": new.labels_on(NO_LABELS), "limits": new.limits_on(NO_LIMITS)}
    rest["reach"] = new.reach_on(EVERYTHING)
    if new.legacy_secret is not None:
        return shown(await _imported(keys, new.legacy_secret, new.grant, rest, replaces=new.replace))
    if new.taken_secret is not None:
        return shown(await keys.take(new.taken_secret, new.name or LEGACY_NAME, new.grant, **rest))
    created: Created = await keys.create(new.name or LEGACY_NAME, new.grant, **rest)
    return {**shown(created.key), "secret": created.secret.reveal()}


async def _imported(keys: KeyStore, secret: Secret, grant: Grant, rest: dict[str, Any], *, replaces: bool) -> KeyRecord:
    """Gateways of a cell that start together import the same key: one of them finds it made."""
    if replaces and (key := await keys.replace_legacy(secret, grant, by=rest["by"])) is not None:
        return key
    try:
        return (await keys.adopt(secret, grant, **rest)).key
    except LegacyKeyExists:
        if replaces and (key := await keys.replace_legacy(secret, grant, by=rest["by"])) is not None:
            return key
        raise


async def show(store: KeyRequests, call: OperationCall[None]) -> ShownKey:
    return shown(await store.keys.show(id_of(call)))


async def edit(store: KeyRequests, call: OperationCall[KeyChange]) -> ShownKey:
    return shown(await store.keys.revise(id_of(call), call.body.apply, by=person_of(store, call)))


async def disable(store: KeyRequests, call: OperationCall[By]) -> ShownKey:
    return shown(await store.keys.disable(id_of(call), by=person_of(store, call)))


async def enable(store: KeyRequests, call: OperationCall[By]) -> ShownKey:
    return shown(await store.keys.enable(id_of(call), by=person_of(store, call)))


async def delete(store: KeyRequests, call: OperationCall[KeyDeletion]) -> DeletedKey:
    person_of(store, call)
    await store.keys.delete(id_of(call), typed_name=call.body.name)
    return {"deleted": call.path["id"]}


def person_of(store: KeyRequests, call: OperationCall[Any]) -> str:
    """Whose change it is. Raises InvalidKey."""
    return store.operators.person(call.body.by, call.by)


def id_of(call: OperationCall[Any]) -> KeyId:
    return KeyId(call.path["id"])


def shown(key: KeyRecord) -> ShownKey:
    """The key, with every scope that it grants now."""
    return {**key.as_json(), "granted": sorted(granted(key.grant))}


def sender_json(sender: OpenSender) -> OpenSenderJson:
    return {
        "peer": sender.peer,
        "product": sender.product or None,
        "paths": list(sender.paths),
        "last_seen": rfc3339_ms(sender.last_seen_ms),
        "requests": sender.requests,
    }


# ---- the table

KEYS: Final = "/v2/keys"
SERVICE_KEYS: Final = "/v2/service/keys"
"""Of the embedded local service."""

_TAG: Final = "Keys"
_ONE: Final = KEYS + "/{id}"
_AS_IT_IS_NOW: Final = OperationAnswer("The key as it is now.", ShownKey)


def _noted(what: str) -> Note:
    return Note("key changed", what, "key_id")


LIST: Final = Operation(
    method="GET", path=KEYS, id="listKeys", least_role=Role.OPERATOR, summary="Keys", tag=_TAG,
    handler=listed, answer=Listed(KEY_LIST, KeyJson),
)  # fmt: skip
CREATE: Final = Operation(
    method="POST", path=KEYS, id="createKey", summary="Make a key; the first one ends open intake", tag=_TAG,
    handler=create, body=NewKey, note=_noted("create"), errors=(409, 503), conflict="KeyConflict",
    answer=OperationAnswer("The key is made, and its secret is shown, once.", CreatedKey, 201),
)  # fmt: skip
SHOW: Final = Operation(
    method="GET", path=_ONE, id="readKey", least_role=Role.OPERATOR, summary="One key, with every scope that it grants now", tag=_TAG,
    handler=show, answer=_AS_IT_IS_NOW,
)  # fmt: skip
EDIT: Final = Operation(
    method="PATCH", path=_ONE, id="editKey", tag=_TAG,
    summary="Change what is given; of labels and limits null takes one away",
    handler=edit, body=KeyChange, note=_noted("edit"), errors=(409, 503), answer=_AS_IT_IS_NOW,
)  # fmt: skip
DELETE: Final = Operation(
    method="DELETE", path=_ONE, id="deleteKey", summary="Remove it for good; access is revoked at once", tag=_TAG,
    handler=delete, body=KeyDeletion, note=_noted("delete"), answer=OperationAnswer("The key is gone.", DeletedKey),
)  # fmt: skip
DISABLE: Final = Operation(
    method="POST", path=_ONE + "/disable", id="disableKey", tag=_TAG, summary="Refuse it from the next request on",
    handler=disable, body=By, is_body_needed=False, note=_noted("disable"), answer=_AS_IT_IS_NOW,
)  # fmt: skip
ENABLE: Final = Operation(
    method="POST", path=_ONE + "/enable", id="enableKey", tag=_TAG, summary="Accept it again",
    handler=enable, body=By, is_body_needed=False, note=_noted("enable"), answer=_AS_IT_IS_NOW,
)  # fmt: skip

OPERATIONS: Final[tuple[KeyOperation, ...]] = (LIST, CREATE, SHOW, EDIT, DELETE, DISABLE, ENABLE)


def of_service(operation: KeyOperation) -> KeyOperation:
    """The same operation on the keys of the embedded local service."""
    return replace(
        operation,
        path=SERVICE_KEYS + operation.path.removeprefix(KEYS),
        id=f"{operation.id}OfService",
        summary=f"{operation.summary} (local service)",
        text="Only where the local service is embedded; its keys are not those of senders.",
    )
