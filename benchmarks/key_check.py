"""What asking for a request's key costs, with a real store of 1, 100 and 10 000 keys: `python
-m benchmarks.key_check`.

Each check is of another key, and looks at the file again, as the first request in a turn of the
event loop does (those behind it in one turn share the look: `shared`). CPU time of this thread, the
median of several rounds. That a check writes nothing is looked at too: neither the files of the
database nor its `data_version` move, whoever asks.
"""

import asyncio
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median

from multidict import CIMultiDict, CIMultiDictProxy

from gateway.access.home import KeyRows
from gateway.access.key import GATEWAY_PREFIX, keyed_hash, mint
from gateway.access.limits import RateLimits
from gateway.access.store import KeyStore
from gateway.common.contract.errors import Unauthenticated
from gateway.common.contract.scopes import SEND_AI_TELEMETRY, Managed
from gateway.common.storage.database import Database
from gateway.common.wall_clock import wall_ms
from gateway.serve.authenticator import Headers, KeyAuthenticator, sender_of
from gateway.serve.otlp import INGEST_SCOPE
from gateway.serve.quotas import Quotas
from gateway.stores.sqlite.keys import SqliteKeys

SIZES = (1, 100, 10_000)
CHECKS = 5_000
ROUNDS = 9
PEPPER = bytes(32)
GRANT = Managed(frozenset({SEND_AI_TELEMETRY}))
LABELS = {"team": "alpha", "project": "p", "environment": "prod", "cost_center": "4711"}
LIMITS = RateLimits(requests_per_minute=10**9, bytes_per_minute=10**12)


def main() -> None:
    print("microseconds a check: medians of", ROUNDS, "rounds of", CHECKS)
    print(f"{'keys':>8} {'looked':>8} {'shared':>8} {'wrong':>8} {'+labels':>8} {'+quota':>8}   written")
    for n in SIZES:
        with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
            measure(n, Path(folder) / "control.db", runner)


def measure(n: int, path: Path, runner: asyncio.Runner) -> None:
    """A line of figures.

    Outside of the loop each check looks at the file; inside they share a look.
    """
    database = runner.run(Database.open(path))
    home = runner.run(SqliteKeys.open(database))
    keys = runner.run(
        KeyStore.open(
            home,
            prefix=GATEWAY_PREFIX,
            pepper=PEPPER,
            now_ms=wall_ms,
            random_bytes=secrets.token_bytes,
        )
    )
    right = runner.run(filled(keys, home, n))
    wrong = [*map(shown, (mint(GATEWAY_PREFIX, secrets.token_bytes).secret.reveal() for _ in range(100)))]
    gate, quotas = KeyAuthenticator(keys), Quotas(time.monotonic)

    def labelled(headers: Headers) -> None:
        sender_of(gate.admit(headers, INGEST_SCOPE), headers, "192.0.2.1")

    def charged(headers: Headers) -> None:
        charge = quotas.charge(gate.admit(headers, INGEST_SCOPE), 1000)
        assert charge is not None  # noqa: S101 - it has limits
        charge.take_body(1000)

    def refused(headers: Headers) -> None:
        try:
            gate.admit(headers, INGEST_SCOPE)
        except Unauthenticated:
            return
        raise AssertionError("let in with a wrong key")

    def admitted(headers: Headers) -> None:
        gate.admit(headers, INGEST_SCOPE)

    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as watch:
        before = version(watch), files_of(path)
        looked, shared = timed(admitted, right), runner.run(in_one_turn(admitted, right))
        checked = [timed(refused, wrong), timed(labelled, right), timed(charged, right)]
        unwritten = (version(watch), files_of(path)) == before
    figures = "".join(f" {us:8.2f}" for us in (looked, shared, *checked))
    print(f"{n:>8}{figures}   {'nothing' if unwritten else 'SOMETHING'}")
    runner.run(keys.close())
    runner.run(database.close())


async def filled(keys: KeyStore, home: SqliteKeys, n: int) -> list[Headers]:
    """The headers of requests under *n* keys; the first is made as every key is, the
    others in one transaction.
    """
    first = await keys.create("key 0", GRANT, by="ops@example.com", labels=LABELS, limits=LIMITS)
    found = [first.secret.reveal()]

    def fill(kept: KeyRows) -> None:
        for i in range(1, n):
            key_id, secret = mint(GATEWAY_PREFIX, secrets.token_bytes)
            found.append(secret.reveal())
            key = replace(first.key, key_id=key_id, name=f"key {i}")
            kept.insert(key, keyed_hash(PEPPER, secret.reveal()))

    await home.commit(fill)
    return [*map(shown, found)]


def shown(secret: str) -> Headers:
    """The headers of an SDK's request."""
    sent = {
        "Host": "127.0.0.1:4318",
        "User-Agent": "OTel-OTLP-Exporter-Python/1.30.0",
        "Accept-Encoding": "gzip, deflate",
        "Content-Type": "application/x-protobuf",
        "Content-Length": "1000",
        "Authorization": secret,
    }
    return CIMultiDictProxy(CIMultiDict(sent))


async def in_one_turn(check: Callable[[Headers], None], requests: Sequence[Headers]) -> float:
    return timed(check, requests)


def timed(check: Callable[[Headers], None], requests: Sequence[Headers]) -> float:
    """Microseconds of one *check*."""
    rounds: list[float] = []
    for _ in range(ROUNDS):
        begun_ns = time.thread_time_ns()
        for i in range(CHECKS):
            check(requests[i % len(requests)])
        rounds.append((time.thread_time_ns() - begun_ns) / CHECKS / 1000)
    return median(rounds)


def version(watch: sqlite3.Connection) -> int:
    """Moves with every commit of another connection."""
    (found,) = watch.execute("PRAGMA data_version").fetchone()
    return int(found)


def files_of(path: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of the database and its log."""
    return sorted(
        (x.name, x.stat().st_size, x.stat().st_mtime_ns) for x in path.parent.iterdir() if "shm" not in x.name
    )


if __name__ == "__main__":
    main()
