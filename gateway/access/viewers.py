"""Viewers' tokens: named credentials of the page and of the reads of the API, each with a limit or
none.

They are kept beside the keys, hashed with the same pepper, and are followed as keys are: one that
was revoked, here or in another process, is refused from the next request on.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypedDict

from exporters.secret import Secret
from gateway.access.faults import Faults
from gateway.access.home import KeptViewer, KeyHome, ViewerToken
from gateway.access.key import RandomBytes, display_form, id_number, keyed_hash, matches, mint, parse
from gateway.access.limits import valid_reach
from gateway.access.record import valid_name
from gateway.common.contract.json_types import Time
from gateway.common.contract.reach import EVERYTHING, Reach, reach_json
from gateway.common.lists.conventions import Filterable, ListShape, Sort, envelope, read_request
from gateway.common.lists.memory import page_of
from spool.clock import rfc3339_ms

VIEWER_PREFIX: Final = "tgv"
MAX_TOKENS: Final = 1_000
_NO_HASH: Final = bytes(32)
VIEWER_LIST: Final = ListShape(
    root="viewer_tokens",
    sort_keys=("created_at", "name"),
    default_sort=Sort("name", "asc"),
    filters=(Filterable("name", (), is_open=True),),
)


class SeenJson(TypedDict, total=False):
    team: list[str]
    """It sees the calls of these teams only; absent for no limit."""
    project: list[str]
    """The same of projects."""


class ViewerJson(TypedDict):
    id: str
    name: str
    limits: SeenJson
    """Empty for one that sees everything."""
    display: str
    """The token's beginning and end."""
    created_by: str
    created_at: Time


class CreatedViewer(NamedTuple):
    token: ViewerToken
    secret: Secret
    """Shown once."""


class ViewerTokens:
    """Those at *home*, which is closed by its owner. Every method raises DatabaseUnavailable."""

    def __init__(self, home: KeyHome, *, pepper: bytes, now_ms: Callable[[], int], random_bytes: RandomBytes) -> None:
        self._home = home
        self._pepper = pepper
        self._now_ms = now_ms
        self._random_bytes = random_bytes
        self._generation = -1
        self._tokens: dict[str, KeptViewer] = {}

    async def create(self, name: str, reach: Reach, *, by: str) -> CreatedViewer:
        """Raises InvalidKey, NameTaken."""
        token_id, secret = mint(VIEWER_PREFIX, self._random_bytes)
        token = valid_token(ViewerToken(token_id, name, reach, display_form(secret), by, self._now_ms()))
        kept = KeptViewer(token, keyed_hash(self._pepper, secret.reveal()))
        await self._home.commit(lambda rows: rows.insert_viewer(kept, most=MAX_TOKENS))
        return CreatedViewer(token, secret)

    async def list(self) -> list[ViewerToken]:
        """By name."""
        return await self._home.read(lambda rows: [kept.token for kept in rows.viewers()])

    async def revoke(self, token_id: str) -> None:
        """Refused from the next request on, with the sessions that it opened. Raises NoSuchKey."""
        await self._home.commit(lambda rows: rows.delete_viewer(token_id))

    def find(self, text: str) -> ViewerToken | None:
        """The token whose secret is *text*; None where there is none."""
        token_id = parse(VIEWER_PREFIX, text)
        if token_id is None:
            return None
        self._refresh()
        kept = self._tokens.get(token_id)
        is_right = matches(self._pepper, text, kept.secret_hash if kept else _NO_HASH)
        return kept.token if kept is not None and is_right else None

    def of_id(self, token_id: str) -> ViewerToken | None:
        """None for one that was revoked."""
        self._refresh()
        kept = self._tokens.get(token_id)
        return None if kept is None else kept.token

    def _refresh(self) -> None:
        now = self._home.now(self._generation)
        self._generation = now.generation
        if now.viewers is not None:
            self._tokens = {kept.token.token_id: kept for kept in now.viewers}


def valid_token(token: ViewerToken) -> ViewerToken:
    """*token* with each field in its one form. Raises InvalidKey with every fault."""
    faults = Faults()
    valid = replace(
        token,
        name=faults.checked(valid_name, token.name, ""),
        reach=faults.checked(valid_reach, token.reach, EVERYTHING),
    )
    faults.refuse()
    return valid


def viewer_page(tokens: Sequence[ViewerToken], query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The page of *tokens* that *query* asks for. Raises BadListRequest."""
    request = read_request(VIEWER_LIST, query)
    page = page_of(
        request,
        tokens,
        field_of=lambda token, name: token.created_at_ms if name == "created_at" else token.name,
        id_of=lambda token: id_number(token.token_id),
        item_of=viewer_json,
    )
    return envelope(VIEWER_LIST, request, page)


def viewer_json(token: ViewerToken) -> ViewerJson:
    return {
        "id": token.token_id,
        "name": token.name,
        "limits": reach_json(token.reach),  # type: ignore[typeddict-item]  # names of dimensions
        "display": token.display,
        "created_by": token.created_by,
        "created_at": rfc3339_ms(token.created_at_ms),
    }
