"""Keys as the admin API and the commands have them: what may be asked, and what is answered.

`operate` answers one request on a `KeyStore`: the running gateway's, or the one on the files of a stopped gateway, so that a
command gives the same either way. A secret is in one answer only, the one to its creation.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from gateway.contract.errors import NotFound
from gateway.contract.scopes import granted
from gateway.keys.errors import OpenIntakeInUse
from gateway.keys.listing import key_page
from gateway.keys.record import KeyId, KeyRecord
from gateway.keys.requests import change_of, deletion, new_key, only_by
from gateway.keys.store import Created, KeyStore
from spool.clock import rfc3339_ms

INBOUND_PATH: Final = "/v2/keys"
SERVICE_PATH: Final = "/v2/service/keys"
"""Of the embedded local service."""


class Sender(Protocol):
    """Who posted without a key."""

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


Recent = Callable[[], Sequence[Sender]]
"""The senders of the last hour on open intake."""


class SendersWouldBeRefused(OpenIntakeInUse):
    """Holds those that the first key would refuse."""

    def __init__(self, senders: Sequence[Sender]) -> None:
        who = "1 sender" if len(senders) == 1 else f"{len(senders)} senders"
        super().__init__(
            f"confirmed: {who} posted without a key in the last hour and will be refused from the first key on; say true to go on"
        )
        self.senders = [sender_json(sender) for sender in senders]


class Store(NamedTuple):
    """What requests are answered from."""

    keys: KeyStore
    recent: Recent = list
    """Nobody, where no gateway runs."""


async def operate(
    store: Store,
    method: str,
    below: str,
    *,
    query: Sequence[tuple[str, str]] = (),
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The answer to one request; *below*: its path below the list's, such as `` or `/{id}/disable`. Raises NotFound, BadListRequest, KeyRefused, DatabaseUnavailable."""
    fields = body or {}
    match method, below.split("/")[1:]:
        case "GET", []:
            return key_page(await store.keys.list(), query)
        case "POST", []:
            return created_json(await create(store, fields))
        case "DELETE", [key_id]:
            await store.keys.delete(KeyId(key_id), typed_name=deletion(fields))
            return {"deleted": key_id}
        case _, [key_id, *verb]:
            return shown(await found_or_changed(store.keys, KeyId(key_id), (method, *verb), fields))
        case _:
            raise nothing_there()


async def found_or_changed(keys: KeyStore, which: KeyId, what: tuple[str, ...], fields: Mapping[str, Any]) -> KeyRecord:
    match what:
        case ("GET",):
            return await keys.show(which)
        case ("PATCH",):
            change = change_of(fields)
            return await keys.revise(which, change.apply, by=change.by)
        case "POST", "disable":
            return await keys.disable(which, by=only_by(fields))
        case "POST", "enable":
            return await keys.enable(which, by=only_by(fields))
        case _:
            raise nothing_there()


def nothing_there() -> NotFound:
    return NotFound("there is nothing at this path")


async def create(store: Store, fields: Mapping[str, Any]) -> Created:
    asked, keys = new_key(fields), store.keys
    senders = [] if asked.is_confirmed or keys.ever_created() else store.recent()
    if senders:
        raise SendersWouldBeRefused(senders)
    rest: dict[str, Any] = {"by": asked.by, "description": asked.description}
    rest |= {"labels": asked.labels, "limits": asked.limits}
    if asked.legacy_secret is not None:
        return await keys.adopt(asked.legacy_secret, asked.grant, **rest)
    return await keys.create(asked.name, asked.grant, **rest)


def shown(key: KeyRecord) -> dict[str, Any]:
    """The key, with every scope that it grants now."""
    return {**key.as_json(), "granted": sorted(granted(key.grant))}


def created_json(created: Created) -> dict[str, Any]:
    """With the secret, unless whoever asked brought it along."""
    key = created.key
    return shown(key) if key.is_legacy else {**shown(key), "secret": created.secret.reveal()}


def sender_json(sender: Sender) -> dict[str, Any]:
    return {
        "peer": sender.peer,
        "product": sender.product or None,
        "paths": list(sender.paths),
        "last_seen": rfc3339_ms(sender.last_seen_ms),
        "requests": sender.requests,
    }
