"""Removes a user from what the gateway holds: its sums and the records in its spool.

The sums of the user become those of "forgotten", so that every total stays exact.
"""

import hmac
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.tally import MAX_NAME_CHARS
from spool.forgetting import Forgotten
from spool.store import DeadLetterStore

MAX_RECORD_CHARS: Final = 256
"""Texts of a record are cut there."""


class Removed(NamedTuple):
    """What named the user; with a dry run, what names it."""

    usage_rows: int
    spool: Forgotten
    delivered: int = 0
    """Records in the embedded local service."""
    filters: int = 0
    """Of budgets and views."""


class Forget(Protocol):
    async def __call__(self, users: Collection[str], *, dry_run: bool) -> int:
        """How many records or filters name one of *users*; without *dry_run*, none from then on."""


class UserForgetter:
    """The sums and the spool of a running gateway, or of the files of a stopped one."""

    def __init__(
        self,
        spool: DeadLetterStore,
        queries: UsageQueries,
        secret_file: Path,
        delivered: Forget | None = None,
        named_in: Sequence[Forget] = (),
    ) -> None:
        """*secret_file* keys the hashes of users, where they are hashed. *delivered*: the records
        of an embedded local service. *named_in*: filters of budgets and views.
        """
        self._named_in = named_in
        self._delivered = delivered
        self._spool = spool
        self._queries = queries
        self._secret_file = secret_file

    async def forget(self, user: str, *, dry_run: bool) -> Removed:
        """Remove *user*, in the clear and hashed. Raises SpoolError, DatabaseUnavailable; what was
        removed by then stays so.
        """
        names = self._names_of(user)
        await self._queries.refresh(at_once=True)  # else a sum that is not stored yet brings the name back
        in_records = {name[:MAX_RECORD_CHARS] for name in names}
        spool = await self._spool.forget_user(in_records, dry_run=dry_run)
        delivered = 0 if self._delivered is None else await self._delivered(in_records, dry_run=dry_run)
        cut = {name[:MAX_NAME_CHARS] for name in names}
        rows = await self._queries.sums.forget_users(cut, dry_run=dry_run)
        filters = sum([await forget(cut, dry_run=dry_run) for forget in self._named_in])
        return Removed(rows, spool, delivered, filters)

    def _names_of(self, user: str) -> set[str]:
        if not self._secret_file.exists():
            return {user}
        secret = self._secret_file.read_bytes()
        return {user, hmac.digest(secret, user.encode("utf-8", "replace"), "sha256")[:16].hex()}
