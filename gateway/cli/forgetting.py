"""`forget-user`: counts first, asks, then removes."""

import json
from typing import Any

import click

from gateway.cli.requests import USERS, ask
from gateway.common.plural import plural
from gateway.config.model import Config
from gateway.operate import users


async def forget(config: Config, user: str, *, dry_run: bool, is_agreed: bool, as_json: bool) -> int:
    """0 when nothing that the gateway holds names *user* any more; 1 when some records have to
    wait. Raises Abort where the operator declines.
    """
    found = await _ask(config, user, dry_run=True)
    if not dry_run and any(
        found[name] for name in ("usage_rows", "records", "dead_letters", "delivered_records", "filters")
    ):
        if not is_agreed:
            click.echo(text_of(found))
            click.confirm("Remove the user from these? This cannot be undone.", abort=True)
        found = await _ask(config, user, dry_run=False)
    click.echo(json.dumps(found) if as_json else "\n".join((text_of(found), *notes_of(found))))
    return 1 if found["waiting"] else 0


async def _ask(config: Config, user: str, *, dry_run: bool) -> dict[str, Any]:
    return await ask(config, USERS, users.FORGET, body={"user": user, "dry_run": dry_run})


def text_of(found: dict[str, Any]) -> str:
    verb = "named the user" if not found["dry_run"] else "would be changed"
    parts = (
        plural(found["records"], "record", "records"),
        plural(found["dead_letters"], "dead letter", "dead letters"),
        plural(found["delivered_records"], "record of the local service", "records of the local service"),
        plural(found["usage_rows"], "row of sums", "rows of sums"),
        plural(found["filters"], "filter of a budget or view", "filters of budgets and views"),
    )
    return f"{', '.join(parts)}: {verb}"


def notes_of(found: dict[str, Any]) -> list[str]:
    """What is left, and what is beyond reach."""
    notes = []
    if found["waiting"]:
        waiting = plural(found["waiting"], "record has to wait", "records have to wait")
        notes.append(f"{waiting}: being settled, or in a batch on its way; run this again once they are delivered")
    return [*notes, "Not reached:", *(f"- {each}" for each in found["beyond_reach"])]
