"""`--help` of every command, and completion for the shells that click has."""

from collections.abc import Iterator

import click
import pytest
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from gateway.cli.main import main


def contexts(context: click.Context) -> Iterator[click.Context]:
    """Of each command that is no group."""
    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    for name, below in command.commands.items():
        yield from contexts(click.Context(below, info_name=name, parent=context, terminal_width=80))


COMMANDS = list(contexts(click.Context(main, info_name="telemetry-gateway", terminal_width=80)))


@pytest.mark.parametrize("context", COMMANDS, ids=lambda context: context.command_path)
def test_help_of_each_command_states_what_it_does_and_each_option(context: click.Context) -> None:
    command = context.command
    assert command.help, "what it does"
    assert command.get_short_help_str(200).endswith(".")
    undescribed = [option.opts for option in command.params if isinstance(option, click.Option) and not option.help]
    assert undescribed == []
    lines = context.get_help().splitlines()
    assert [line for line in lines if len(line) > 80 and "telemetry-gateway " not in line] == []


@pytest.mark.parametrize("shell", [BashComplete, ZshComplete, FishComplete])
def test_each_shell_completes_commands_options_and_choices(shell: type[ShellComplete]) -> None:
    complete = shell(main, {}, "telemetry-gateway", "_TELEMETRY_GATEWAY_COMPLETE")
    assert "_TELEMETRY_GATEWAY_COMPLETE" in complete.source_vars()["complete_var"]

    def found(*words: str) -> list[str]:
        return [each.value for each in complete.get_completions(list(words[:-1]), words[-1])]

    assert {"backup", "restore", "top", "tap"} <= set(found(""))
    assert found("dead") == []
    assert "dead-letters" in found("spool", "dead")
    assert "--passphrase-file" in found("backup", "--pass")
    assert found("tap", "--outcome", "k") == ["kept"]
