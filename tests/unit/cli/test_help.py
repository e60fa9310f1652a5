"""`--help` of every command, and completion for the shells that click has."""

from collections.abc import Iterator

import click
import pytest
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete
from click.testing import CliRunner

from gateway.cli.completion import SHELLS
from gateway.cli.groups import SECTIONS
from gateway.cli.main import main


def contexts(context: click.Context) -> Iterator[click.Context]:
    """Of each command that is no group."""
    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    for name, below in command.commands.items():
        yield from contexts(click.Context(below, info_name=name, parent=context, terminal_width=80))


def groups(context: click.Context) -> Iterator[click.Context]:
    command = context.command
    if isinstance(command, click.Group):
        yield context
        for name, below in command.commands.items():
            yield from groups(click.Context(below, info_name=name, parent=context, terminal_width=80))


GROUPS = list(groups(click.Context(main, info_name="telemetry-gateway", terminal_width=80)))
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


@pytest.mark.parametrize("context", GROUPS, ids=lambda context: context.command_path)
def test_no_summary_is_cut_on_80_columns(context: click.Context) -> None:
    _, *lines = context.get_help().splitlines()  # the first is the usage
    assert [line for line in lines if line.endswith("...") or len(line) > 80] == []


def test_each_command_is_in_one_section_of_the_help() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert len(set(listed)) == len(listed)
    assert main.commands.keys() - set(listed) == set()
    titles = [line for line in GROUPS[0].get_help().splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles[1:] == [f"{title}:" for title in SECTIONS]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("usgae", "`telemetry-gateway usage`"),
        ("Doctor", "`telemetry-gateway doctor`"),
        ("spool verfy", "`telemetry-gateway spool verify`"),
        ("verfy", "`telemetry-gateway spool verify`"),
        ("spool keys", "`telemetry-gateway keys`"),
        ("replay", "`telemetry-gateway spool replay` or `telemetry-gateway spool dead-letters replay`"),
        ("usage --grup-by team", "--group-by"),
    ],
)
def test_what_was_mistyped_is_answered_with_what_was_meant(typed: str, meant: str) -> None:
    result = CliRunner().invoke(main, typed.split(), prog_name="telemetry-gateway")
    assert result.exit_code == 2
    assert f"did you mean {meant}" in result.output.replace("Did", "did").replace("'", "")


def test_a_command_that_is_like_no_other_is_answered_without_a_suggestion() -> None:
    result = CliRunner().invoke(main, ["xyzzy"], prog_name="telemetry-gateway")
    assert result.exit_code == 2
    assert result.output.endswith("no command is named 'xyzzy'\n")


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_prints_the_script_of_each_shell(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell], prog_name="telemetry-gateway")
    assert result.exit_code == 0
    assert f"_TELEMETRY_GATEWAY_COMPLETE={shell}_complete" in result.output
