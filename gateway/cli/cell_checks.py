"""What keeps a gateway of a cell from starting or from answering senders, by what its database
says.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gateway.app.cell.databases import schema_of
from gateway.app.cell.home import INSTANCE_FILE, derive
from gateway.app.cell.secrets import missing, refuse_others
from gateway.app.cell.seen_turn import SeenTurn
from gateway.app.cell.stores import CONNECTIONS
from gateway.cli.cell_facts import CellFacts, facts_of
from gateway.common.contract.errors import CannotStart
from gateway.common.plural import plural
from gateway.common.release import release
from gateway.config.model import Config, refuse_open_intake
from gateway.operate.findings.finding import Found
from gateway.stores.postgres.cell import Member, Owner
from spool.postgres.durability import unsafe_settings

OLDEST: Final = 13
SKEW_MAX_S: Final = 5.0
BESIDE_POOLS: Final = 1
"""Connections of each gateway beside its two pools: the one that hears of changed keys."""
OF_OWNER: Final = CONNECTIONS + 2
"""Connections of the owner beside those of each gateway: its pool, its spool, a long question."""
_COUNTED: Final = re.compile(r"\s*(?:ANY|FIRST)?\s*(\d+)\s*\(", re.IGNORECASE)

Looked = tuple[list[Found], list[Found]]
"""What `run` refuses, and what it would do besides."""


async def look_at_cell(config: Config, copy: Path) -> Looked:
    """*copy*: a folder that has the secrets of the data directory; those that are made of
    `store.secret` are made there. Raises CannotStart for the address of the database,
    DatabaseUnavailable.
    """
    faults = list(_derived(config, copy))
    facts = await asyncio.to_thread(facts_of, config.store)
    others = [each for each in facts.members if each.id != _own_id(config.data_dir)]
    faults += [*database_faults(config, facts), *secret_faults(config.data_dir, copy, others)]
    if reason := refuse_open_intake(config, enabled_keys=facts.enabled_keys):
        faults.append(Found("open intake", reason))
    return faults, [
        *database_notes(config, facts, others),
        *missing_secrets(copy, others),
        *cell_notes(facts),
        *restored_notes(config.data_dir, facts.owner),
    ]


def _derived(config: Config, copy: Path) -> Iterator[Found]:
    try:
        derive(config.model_copy(update={"data_dir": copy}))
    except CannotStart as error:
        yield Found("secrets", str(error).replace(str(copy), str(config.data_dir)))


def _own_id(data_dir: Path) -> str | None:
    """None before the first start."""
    path = data_dir / INSTANCE_FILE
    return path.read_text("ascii", "replace").strip() if path.exists() else None


def database_faults(config: Config, facts: CellFacts) -> Iterator[Found]:
    """For which a gateway would not start, or no sender would get an answer."""
    major, store = facts.version // 10_000, config.store
    if major < OLDEST:
        yield Found("database", f"Postgres {major} is older than {OLDEST}", f"upgrade it to {OLDEST} or newer")
    for text in unsafe_settings(facts.settings, store.durability):
        what, _, remedy = text.rpartition("; ")
        yield Found("database", what, remedy)
    if not facts.may_make_tables:
        name = schema_of(store)
        remedy = f"as its administrator: CREATE SCHEMA {name} AUTHORIZATION the role of store.dsn (or ALTER SCHEMA … OWNER TO it)"
        yield Found("database", f"the role may not make the schema {name}, or tables in it", remedy)
    if not facts.timeout_is_off:
        text = "a statement_timeout holds although the session switched it off: a commit that it cancels is not durable"
        remedy = (
            "connect to Postgres itself: a pooler between must keep the settings of a session (not in transaction mode)"
        )
        yield Found("database", text, remedy)
    if facts.moved_to is not None:
        remedy = "start the gateway there (store.type: sqlite), or name another cell with store.cell"
        yield Found("cell", f"what the cell {store.cell} held was moved to {facts.moved_to}", remedy)
    yield from standby_faults(facts)


def standby_faults(facts: CellFacts) -> Iterator[Found]:
    """Whether those standbys are connected that a commit waits for."""
    names = facts.settings["synchronous_standby_names"]
    needed, there = standbys_needed(names), facts.standbys
    if there.synchronous < needed and not there.hidden:
        text = (
            f"{there.synchronous} of {plural(needed, 'synchronous standby is', 'synchronous standbys are')} connected"
            f" (synchronous_standby_names: {names}): no commit is answered, and senders get 503"
        )
        yield Found("database", text, "start the standbys, or correct synchronous_standby_names")


def standbys_needed(names: str) -> int:
    """How many have to have a commit before it is answered, by `synchronous_standby_names`."""
    counted = _COUNTED.match(names)
    return int(counted[1]) if counted else int(bool(names.strip()))


def secret_faults(data_dir: Path, copy: Path, others: Sequence[Member]) -> Iterator[Found]:
    """Secrets in the *copy* of *data_dir* that differ from those of a gateway that is alive."""
    try:
        refuse_others(copy, others)
    except CannotStart as error:
        what, _, remedy = str(error).replace(str(copy), str(data_dir)).rpartition("; ")
        yield Found("secrets", what, remedy)


def missing_secrets(copy: Path, others: Sequence[Member]) -> Iterator[Found]:
    """Secrets that a gateway that is alive has, and that `run` would make again here."""
    for member in others:
        names = missing(copy, member.secrets)
        if member.is_alive and names:
            text = f"{', '.join(names)} are missing here, and the gateway on {member.name} has them: `run` would make others"
            yield Found("secrets", text, "set the same store.secret on all gateways of the cell, or copy the files")
            return


def database_notes(config: Config, facts: CellFacts, others: Sequence[Member]) -> Iterator[Found]:
    """What does not keep a gateway from starting."""
    if abs(facts.clock_ahead_s) > SKEW_MAX_S:
        side = "ahead of" if facts.clock_ahead_s > 0 else "behind"
        yield Found("clock", f"this machine's is {abs(facts.clock_ahead_s):.0f} s {side} the database's")
    gateways = 1 + sum(each.is_alive for each in others)
    needed, free = connections_of(config, gateways), facts.connections.most - facts.connections.others
    if free < needed:
        text = (
            f"{plural(gateways, 'gateway needs', 'gateways need')} up to {needed}, and the database leaves {max(0, free)}:"
            f" at most {facts.connections.most}, of which other programs have {facts.connections.others}"
        )
        yield Found("connections", text)
    if (
        standbys_needed(facts.settings["synchronous_standby_names"]) > facts.standbys.synchronous
        and facts.standbys.hidden
    ):
        text = "the role may not see whether the synchronous standbys are connected"
        yield Found("database", text, "GRANT pg_monitor TO the role of store.dsn; nothing else needs it")


def connections_of(config: Config, gateways: int) -> int:
    """The most that *gateways* have, one of which is the owner."""
    return gateways * (2 * config.store.connections + BESIDE_POOLS) + OF_OWNER


def restored_notes(data_dir: Path, owner: Owner) -> Iterator[Found]:
    """Whether the database is as it was before a moment that the gateway in *data_dir* saw."""
    seen_turn = SeenTurn(data_dir).of(owner.cell_id)
    if owner.turn < seen_turn:
        text = f"the database was restored to an earlier moment (turn {owner.turn}; this gateway saw {seen_turn}): this gateway counts and delivers nothing"
        yield Found("cell", text, "run `telemetry-gateway store restored` once (docs/cell.md)")


def cell_notes(facts: CellFacts) -> Iterator[Found]:
    """Of the gateways of the cell, as the database has them."""
    alive = facts.alive
    is_owned = facts.owner.is_alive and facts.owner.member in {each.id for each in alive}
    if alive and not is_owned and facts.moved_to is None:
        names = ", ".join(each.name for each in alive)
        text = f"no gateway owns it, and {plural(len(alive), 'gateway is', 'gateways are')} alive ({names}): nothing is counted"
        yield Found("cell", text)
    releases = sorted({each.release for each in alive} | ({release()} if alive else set()))
    if len(releases) > 1:
        text = f"gateways of different releases: {', '.join(releases)} (this one is {release()})"
        yield Found("cell", text, "upgrade all gateways of the cell to one release, one after the other")
