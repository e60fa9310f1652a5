"""`keys import`: keys that another gateway made, a line each. No secret is printed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from gateway.cli.asking import person
from gateway.cli.keys import KeyPlace, create_or_ask
from gateway.operate import keys

FIELDS: Final = ("name", "description", "scopes", "managed", "labels", "limits", "secret")
STATUSES: Final = {"Enabled": keys.ENABLE, "Disabled": keys.DISABLE}


async def import_keys(place: KeyPlace, lines: Sequence[str], *, by: str | None, is_sure: bool, as_json: bool) -> int:
    """Take the key of each line, with the status that it states; the exit code."""
    asker = person(by)
    imported = []
    for number, line in list(keys_in(lines)):
        body = {name: line[name] for name in FIELDS if line.get(name) is not None}
        try:
            key = await create_or_ask(place, {**body, "by": asker}, is_sure=is_sure)
            if key["status"] != (status := line.get("status", key["status"])):
                key = await place.ask(STATUSES[status], key["id"], body={"by": asker})
        except click.ClickException as error:
            raise click.ClickException(f"line {number}: {error.message}") from error
        imported.append(key)
        if not as_json:
            click.echo(f"key {key['name']} ({key['id']}) is imported, {key['status'].lower()}")
    if as_json:
        click.echo(json.dumps({"keys": imported}))
    return 0


def keys_in(lines: Sequence[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Line number and key of each line that is not empty. Raises ClickException, which quotes
    nothing.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            key = json.loads(line)
        except ValueError:
            raise click.ClickException(f"line {number}: it is no JSON") from None
        if not isinstance(key, dict) or not all(isinstance(key.get(name), str) for name in ("name", "secret")):
            raise click.ClickException(f"line {number}: an object with name and secret is needed")
        if key.get("status", "Enabled") not in STATUSES:
            raise click.ClickException(f"line {number}: status: one of {', '.join(STATUSES)} is needed")
        yield number, key
