"""`spool dead-letters` and `spool replay`."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click
from rich.table import Table

from gateway.cli.printing import plain, print_table
from gateway.cli.progress import waiting
from gateway.cli.requests import DEAD_LETTERS, ask
from gateway.common.lists.conventions import MAX_LIMIT
from gateway.common.plural import plural
from gateway.config.model import Config
from gateway.operate import dead_letters

LIST_LIMIT = 50
ASKS_ABOVE = 1000
"""Delivered records that go again without a question."""


class Choice(NamedTuple):
    """The options that choose dead letters."""

    lane: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    limit: int | None = None

    def query(self) -> list[tuple[str, str]]:
        pairs = [("lane", lane) for lane in self.lane] + [("reason", reason) for reason in self.reason]
        return pairs + [(name, value) for name, value in (("since", self.since), ("until", self.until)) if value]

    def body(self, ids: Sequence[int]) -> dict[str, Any]:
        found: dict[str, Any] = {name: list(value) for name, value in (("lane", self.lane), ("reason", self.reason))}
        found |= {"since": self.since, "until": self.until, "limit": self.limit, "id": list(ids)}
        return {name: value for name, value in found.items() if value}


async def print_list(config: Config, choice: Choice, *, as_json: bool) -> int:
    answer = await listed(config, choice.query(), choice.limit or LIST_LIMIT)
    if as_json:
        click.echo(json.dumps(answer))
    else:
        print_letters(answer)
    return 0


async def listed(config: Config, query: Sequence[tuple[str, str]], most: int) -> dict[str, Any]:
    """The first *most*; several pages become one answer without cursors."""
    answer = await ask(config, DEAD_LETTERS, dead_letters.LIST, query=[*query, ("limit", str(min(most, MAX_LIMIT)))])
    letters, pagination = answer["dead_letters"], answer["pagination"]
    cursor = pagination["cursor"]["next_cursor"]
    while cursor is not None and len(letters) < most:
        page = await ask(config, DEAD_LETTERS, dead_letters.LIST, query=[*query, ("cursor", cursor)])
        letters += page["dead_letters"][: most - len(letters)]
        cursor = page["pagination"]["cursor"]["next_cursor"]
        pagination.pop("cursor", None)
        pagination |= {"item_count": len(letters), "page_count": math.ceil(pagination["total_count"] / most)}
    return answer


def print_letters(answer: Mapping[str, Any]) -> None:
    """Print dead letters as a table."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("id", "lane", "reason"):
        table.add_column(name, no_wrap=True)
    table.add_column("refused at", no_wrap=True)
    table.add_column("message")
    for letter in answer["dead_letters"]:
        # A message of the upstream may hold terminal sequences.
        cells = (str(letter["id"]), letter["lane"], letter["reason"], letter["buried_at"], letter["message"])
        table.add_row(*(plain(cell) for cell in cells))
    print_table(table)
    total, shown = answer["pagination"]["total_count"], answer["pagination"]["item_count"]
    click.echo(f"{shown} of {total} dead letters")


async def print_letter(config: Config, id_: int, *, as_json: bool) -> int:
    """One dead letter with its record and the upstream's reason."""
    answer = await ask(config, DEAD_LETTERS, dead_letters.SHOW, path={"id": str(id_)})
    click.echo(json.dumps(answer) if as_json else json.dumps(answer, indent=2))
    return 0


async def replay(config: Config, choice: Choice, ids: Sequence[int], *, as_json: bool) -> int:
    """0 when every chosen dead letter is pending again, and some of *ids* exist."""
    with waiting("Putting back"):
        answer = await ask(config, DEAD_LETTERS, dead_letters.REPLAY, body=choice.body(ids))
    if as_json:
        click.echo(json.dumps(answer))
    else:
        print_counts(answer["replayed"], "dead letter is pending again", "dead letters are pending again")
        if answer["skipped"]:
            click.echo(
                f"{answer['skipped']} stay: their lane is no longer set up, the spool could not read them, or they would"
                " overwrite newer totals",
                err=True,
            )
    return 1 if are_all_missing(answer["missing"], ids) or answer["skipped"] else 0


async def drop(config: Config, choice: Choice, ids: Sequence[int], *, is_sure: bool, as_json: bool) -> int:
    """0 when some of *ids* exist, or none were named."""
    if not is_sure:
        await confirm(config, choice, ids)
    chosen = choice.body(ids)
    is_all = not chosen.keys() - {"limit"}
    with waiting("Dropping"):
        answer = await ask(config, DEAD_LETTERS, dead_letters.DROP, body={**chosen, "all": True} if is_all else chosen)
    if as_json:
        click.echo(json.dumps(answer))
    else:
        dropped = plural(answer["dropped"], "dead letter is dropped", "dead letters are dropped")
        click.echo(f"{dropped} for good; the count dead_lettered stays")
    return 1 if are_all_missing(answer["missing"], ids) else 0


def are_all_missing(missing: Sequence[int], ids: Sequence[int]) -> bool:
    """Report the *missing*; whether they are all of *ids*."""
    if missing:
        listed_ids = ", ".join(map(str, missing))
        click.echo(f"no dead letter has the id {listed_ids}: it may have been replayed, dropped, or expired", err=True)
    return bool(ids) and set(ids) <= set(missing)


async def confirm(config: Config, choice: Choice, ids: Sequence[int]) -> None:
    """Ask before anything is deleted. Raises Abort."""
    if ids:
        count = len(ids)
    else:
        answer = await ask(config, DEAD_LETTERS, dead_letters.LIST, query=[*choice.query(), ("limit", "1")])
        count = answer["pagination"]["total_count"]
    count = min(count, choice.limit or count)
    click.confirm(
        f"Drop {plural(count, 'dead letter', 'dead letters')}? Dropped records cannot be sent again.",
        abort=True,
        err=True,
    )


async def replay_delivered(config: Config, lanes: Sequence[str], since: str, *, is_sure: bool, as_json: bool) -> int:
    """Asks before more than ASKS_ABOVE records are sent, unless *is_sure*. Raises Abort."""
    body = {"since": since, "lane": list(lanes)}
    if not is_sure:
        counted = await ask(config, DEAD_LETTERS, dead_letters.RESEND, body={**body, "dry_run": True})
        records = sum(counted["would_replay"].values())
        if records > ASKS_ABOVE:
            text = (
                f"Send {records} delivered records again? An upstream that does not know their ids counts them twice."
            )
            click.confirm(text, abort=True, err=True)
    with waiting("Putting back"):
        answer = await ask(config, DEAD_LETTERS, dead_letters.RESEND, body=body)
    if as_json:
        click.echo(json.dumps(answer))
    else:
        print_counts(answer["replayed"], "delivered record is sent again", "delivered records are sent again")
    return 0


async def count_delivered(config: Config, lanes: Sequence[str], since: str, *, as_json: bool) -> int:
    """What `replay_delivered` would send again."""
    body = {"since": since, "lane": list(lanes), "dry_run": True}
    answer = await ask(config, DEAD_LETTERS, dead_letters.RESEND, body=body)
    if as_json:
        click.echo(json.dumps(answer))
    else:
        one, many = "delivered record would be sent again", "delivered records would be sent again"
        print_counts(answer["would_replay"], one, many)
    return 0


def print_counts(counts: Mapping[str, int], one: str, many: str) -> None:
    for lane, n in counts.items():
        click.echo(f"{lane}: {plural(n, one, many)}")
    if not counts:
        click.echo(plural(0, one, many))
