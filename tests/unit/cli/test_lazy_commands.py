"""Commands are imported when they are asked for, and the gateway when one of them runs."""

import subprocess
import sys
from typing import get_args

import click
import pytest

from gateway.cli import requests
from gateway.cli.budgets import BUDGET, budgets
from gateway.cli.devices import CHANGES
from gateway.cli.groups import Commands
from gateway.cli.senders import senders
from gateway.cli.views import VIEW, views
from gateway.fleet.senders.listing import WARNINGS
from gateway.usage.budgets.budget import Period
from gateway.usage.sums.timespan import Interval

HEAVY = ("aiohttp", "pydantic", "sqlite3", "gateway.config.model", "gateway.operate", "gateway.products")
IMPORTED = """
import sys
from gateway.cli.main import main
main(sys.argv[1:], standalone_mode=False)
print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [("--version",), ("keys", "list", "--help"), ("budgets", "create", "--help")])
def test_help_and_version_import_nothing_of_the_gateway(arguments: tuple[str, ...]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTED, *arguments], capture_output=True, text=True, timeout=300, check=True
    )
    imported = set(ended.stderr.split())
    assert "gateway.cli.main" in imported
    assert not imported.intersection(HEAVY)


def test_a_command_of_another_module_is_imported_once_when_it_is_asked_for() -> None:
    commands = Commands({"devices": "gateway.cli.devices:devices", "absent": "gateway.cli.devices:absent"})
    assert [*commands] == ["devices", "absent"]
    assert commands["devices"].name == "devices"
    assert commands["devices"] is commands["devices"]
    assert commands.get("none") is None
    with pytest.raises(AttributeError):
        commands["absent"]


def test_what_commands_ask_for_are_operations_of_the_registry() -> None:
    verbs = ("list", "create", "read", "change", "delete")
    asked = {*CHANGES.values(), *(resource.operation_id(verb) for resource in (BUDGET, VIEW) for verb in verbs)}
    assert asked <= requests.OPERATIONS.keys()


def choices_of(command: click.Command, option: str) -> set[str]:
    (found,) = (each.type for each in command.params if option in each.opts)
    assert isinstance(found, click.Choice)
    return set(found.choices)


def test_choices_of_options_are_those_of_the_bodies_and_lists_that_they_become() -> None:
    assert isinstance(budgets, click.Group)
    assert isinstance(views, click.Group)
    assert choices_of(budgets.commands["create"], "--period") == set(get_args(Period))
    assert choices_of(views.commands["create"], "--interval") == {*get_args(Interval), "none"}
    assert choices_of(senders, "--warning") == set(WARNINGS)
