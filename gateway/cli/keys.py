"""The commands on keys: ask and print. A secret goes to stdout once, and nowhere else."""

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

import click
from rich.table import Table

from gateway.access.limits import NO_LIMITS
from gateway.access.record import LEGACY_NAME
from gateway.cli.asking import person
from gateway.cli.options import NO_LIMIT, RefusedByGateway
from gateway.cli.printing import plain, print_table
from gateway.cli.requests import KEYS, SERVICE_KEYS, ask
from gateway.common.contract.reach import NAMED, is_limiting, reach_of, reach_text
from gateway.common.contract.scopes import CATALOGUE, OPENS_NOTHING_TEXT, USE_CASES, quoted, scope_name, use_case_name
from gateway.common.contract.tags import PREFIX
from gateway.common.lists.conventions import MAX_LIMIT
from gateway.common.plural import plural
from gateway.common.suggestions import nearest
from gateway.config.model import Config
from gateway.operate import keys
from gateway.operate.keys import KeyOperation

LIMITS: Final = tuple(NO_LIMITS.as_json())
FILTERS: Final = ("status", "mode", "managed", "scope")


class KeyPlace(NamedTuple):
    """Whose keys a command is about."""

    config: Config
    of_service: bool
    """The local service's, in place of the senders'."""

    async def ask(
        self,
        operation: KeyOperation,
        key_id: str = "",
        *,
        query: Sequence[tuple[str, str]] = (),
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Its answer, on the chosen keys. Only a new key makes the files."""
        subject, chosen = (SERVICE_KEYS, keys.of_service(operation)) if self.of_service else (KEYS, operation)
        path, makes_files = {"id": key_id}, operation is keys.CREATE
        return await ask(self.config, subject, chosen, path=path, query=query, body=body, makes_files=makes_files)


# ---- create


async def create_key(place: KeyPlace, asked: Mapping[str, Any], *, is_sure: bool, as_json: bool) -> int:
    """Create a key and print its secret, the only time; the exit code."""
    body = {"by": person(asked["by"]), "labels": dict(asked["labels"]), **grant_fields(asked), **limit_fields(asked)}
    body |= {name: asked[name] for name in ("name", "description", "secret", "replace") if asked.get(name) is not None}
    key = await create_or_ask(place, body, is_sure=is_sure)
    note_unused(place, key)
    if as_json:
        click.echo(json.dumps(key))
    elif "secret" in key:
        click.echo(f"key {key['name']} ({key['id']}) is made; its secret is shown only now:", err=True)
        click.echo(key["secret"])
    else:
        click.echo(f"key {key['name']} ({key['id']}) is imported")
    return 0


def note_unused(place: KeyPlace, key: Mapping[str, Any]) -> None:
    """Print which scopes of a senders' *key* open nothing."""
    for scope in CATALOGUE:
        if not place.of_service and scope.opens_nothing and scope.name in key.get("scopes", ()):
            click.echo(f"{scope.name} {OPENS_NOTHING_TEXT}", err=True)


async def import_missing(place: KeyPlace, asked: Mapping[str, Any], *, is_sure: bool, as_json: bool) -> int:
    """`create_key` of a legacy key, unless there is one; the exit code."""
    try:
        return await create_key(place, asked, is_sure=is_sure, as_json=as_json)
    except click.ClickException:
        found = (await place.ask(keys.LIST, query=[("name", LEGACY_NAME)]))["keys"]
        if not found:
            raise
    click.echo(json.dumps(found[0]) if as_json else f"key {LEGACY_NAME} ({found[0]['id']}) is there already")
    return 0


async def create_or_ask(place: KeyPlace, body: Mapping[str, Any], *, is_sure: bool) -> dict[str, Any]:
    """The first key ends open intake: list the senders that it would refuse and ask.

    Raises Abort.
    """
    try:
        return await place.ask(keys.CREATE, body={**body, "confirmed": is_sure})
    except RefusedByGateway as refused:
        senders = refused.answer.get("senders")
        if senders is None:
            raise
    print_senders(senders)
    click.confirm("Make the key all the same? (--yes skips this question)", abort=True, err=True)
    return await place.ask(keys.CREATE, body={**body, "confirmed": True})


def print_senders(senders: Sequence[Mapping[str, Any]]) -> None:
    """Print who sent without a key in the last hour."""
    click.echo(
        "From the first key on, senders without one are refused.\nThese posted without one in the last hour:", err=True
    )
    table = Table(box=None, padding=(0, 2, 0, 2))
    for name in ("address", "product", "requests", "last seen", "paths"):
        table.add_column(name, no_wrap=name != "paths")
    for sender in senders:
        cells = (sender["peer"], sender["product"] or "", str(sender["requests"]), sender["last_seen"])
        table.add_row(*map(plain, cells), plain(" ".join(sender["paths"])))
    print_table(table, sys.stderr)


# ---- list and show


async def print_keys(place: KeyPlace, asked: Mapping[str, Any], *, as_json: bool) -> int:
    """Print keys, as a table or as JSON; the exit code."""
    query = [(name, canonical(name, value)) for name in FILTERS for value in asked[name]]
    query += [(name, str(asked[name])) for name in ("sort_key", "limit", "cursor") if asked[name] is not None]
    query += [("sort_order", "desc")] if asked["desc"] else []
    answer = await place.ask(keys.LIST, query=query)
    if as_json:
        click.echo(json.dumps(answer))
        return 0
    found = list(answer["keys"])
    while (cursor := answer["pagination"]["cursor"]["next_cursor"]) is not None:
        answer = await place.ask(keys.LIST, query=[("cursor", cursor)])
        found += answer["keys"]
    print_found(found)
    return 0


def canonical(name: str, value: str) -> str:
    """A filter's value in its stored form."""
    match name:
        case "managed":
            return use_case_name(value)
        case "scope":
            return scope_name(value)
        case "status":
            return value.capitalize()
        case _:
            return value.lower()


def print_found(found: Sequence[Mapping[str, Any]]) -> None:
    """Print keys as a table."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("name", "status", "scopes", "id", "last accessed", "last modified", "updated by", "created by"):
        table.add_column(name, no_wrap=name in ("name", "status", "id"))
    for key in found:
        kind = f"of {', '.join(key['managed'])}" if "managed" in key else "fixed"
        kind += f", {seen}" if (seen := limit_text(key["limits"])) else ""
        cells = (
            key["name"],
            key["status"],
            f"{key['scope_count']} {kind}",
            key["id"],
            minute(key["last_accessed"]),
            minute(key["last_modified"]),
        )
        table.add_row(*map(plain, (*cells, key["updated_by"], key["created_by"])))
    print_table(table)
    click.echo(plural(len(found), "key", "keys"))


def limit_text(limits: Mapping[str, Any]) -> str:
    """What a key or token sees; empty for everything."""
    return reach_text(reach_of({name: names for name, names in limits.items() if is_limiting(name)}))


def minute(time: str) -> str:
    """`2026-01-05 10:00Z`; a text that is no time as it is."""
    return f"{time[:10]} {time[11:16]}Z" if time.endswith("Z") else time


async def print_key(place: KeyPlace, named: str, *, as_json: bool) -> int:
    key = await place.ask(keys.SHOW, await id_of(place, named))
    click.echo(json.dumps(key) if as_json else json.dumps(key, indent=2, ensure_ascii=False))
    return 0


async def id_of(place: KeyPlace, named: str) -> str:
    """The id of the key with this name or id. Raises ClickException with the nearest name."""
    for filter_name in ("name", "id"):
        for key in (await place.ask(keys.LIST, query=[(filter_name, named)]))["keys"]:
            return str(key["id"])
    every = (await place.ask(keys.LIST, query=[("limit", str(MAX_LIMIT))]))["keys"]
    names = {key["name"].lower(): key["name"] for key in every}
    near = nearest(named, names)
    hint = "" if near is None else f"; did you mean {names[near]!r}?"
    raise click.ClickException(f"no key has the name or id {quoted(named)}{hint}")


# ---- change


async def edit_key(place: KeyPlace, named: str, asked: Mapping[str, Any], *, as_json: bool) -> int:
    """Change what is given of a key; the exit code."""
    labels: dict[str, str | None] = {**dict.fromkeys(asked["gone_labels"]), **dict(asked["labels"])}
    key_id = await id_of(place, named)
    body: dict[str, Any] = {**grant_fields(asked), **limit_fields(asked), **({"labels": labels} if labels else {})}
    if asked["sees_all"]:
        had = (await place.ask(keys.SHOW, key_id))["limits"]
        body["limits"] = {**dict.fromkeys(filter(is_limiting, had)), **limit_fields(asked).get("limits", {})}
    body |= {name: asked[name] for name in ("name", "description") if asked[name] is not None}
    if not body:
        raise click.UsageError("nothing is changed: see --help for what can be")
    key = await place.ask(keys.EDIT, key_id, body={**body, "by": person(asked["by"])})
    note_unused(place, key)
    if as_json:
        click.echo(json.dumps(key))
    else:
        click.echo(f"key {key['name']} ({key['id']}) is changed")
    return 0


def grant_fields(asked: Mapping[str, Any]) -> dict[str, list[str]]:
    return {name: list(asked[name]) for name in ("scopes", "managed") if asked[name]}


def limit_fields(asked: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    given = {name: asked[name] for name in LIMITS if asked[name] is not None}
    limits: dict[str, Any] = {name: None if value == NO_LIMIT else value for name, value in given.items()}
    limits |= seen_fields({name: asked.get(f"seen_{name}", ()) for name in NAMED}, asked.get("seen_tags", ()))
    return {"limits": limits} if limits else {}


def seen_fields(named: Mapping[str, Sequence[str]], tags: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """What a key or token sees, as a body has it."""
    found = {name: list(names) for name, names in named.items() if names}
    for name, value in tags:
        found.setdefault(f"{PREFIX}{name}", []).append(value)
    return found


async def turn_key(
    place: KeyPlace, named: str, verb: Literal["disable", "enable"], by: str | None, *, as_json: bool
) -> int:
    """Enable or disable a key; the exit code."""
    operation = keys.DISABLE if verb == "disable" else keys.ENABLE
    key = await place.ask(operation, await id_of(place, named), body={"by": person(by)})
    if as_json:
        click.echo(json.dumps(key))
    else:
        click.echo(f"key {key['name']} ({key['id']}) is {verb}d")
    return 0


async def delete_key(place: KeyPlace, named: str, confirm: str | None, by: str | None, *, as_json: bool) -> int:
    """0 when it is deleted; the name is typed here or given, never assumed."""
    key_id = await id_of(place, named)
    if confirm is None:
        click.echo("Every sender with this key is refused at once. This cannot be undone.", err=True)
        confirm = click.prompt("Type the key's exact name to delete it", err=True)
    answer = await place.ask(keys.DELETE, key_id, body={"name": confirm, "by": person(by)})
    click.echo(json.dumps(answer) if as_json else f"key {key_id} is deleted")
    return 0


# ---- the catalogue


def print_scopes(*, as_json: bool) -> None:
    """Print the catalogue of scopes, as a table or as JSON."""
    if as_json:
        use_cases = [{"managed": name, "name": shown, "scopes": granted_by(name)} for name, shown in USE_CASES.items()]
        rows = [
            {
                "scope": s.name,
                "category": s.category,
                "write_only": s.write_only,
                "managed": s.use_case,
                "opens_nothing": s.opens_nothing,
            }
            for s in CATALOGUE
        ]
        click.echo(json.dumps({"managed": use_cases, "scopes": rows}))
        return
    click.echo("Managed use cases (--managed); what they grant follows the catalogue:")
    for name, shown in USE_CASES.items():
        click.echo(f"  {name}  {shown}: {', '.join(granted_by(name))}")
    for category, rows_of in groupby(CATALOGUE, key=lambda scope: scope.category):
        click.echo(f"\n{category} (--scope)")
        for scope in rows_of:
            marks = ["write-only"] * scope.write_only + [OPENS_NOTHING_TEXT] * scope.opens_nothing
            click.echo("  ".join(["", scope.name, *filter(None, [", ".join(marks)])]))


def granted_by(use_case: str) -> list[str]:
    return [scope.name for scope in CATALOGUE if scope.use_case == use_case]
