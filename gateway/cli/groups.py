"""Groups of commands: listed in sections, and with suggestions for what was mistyped."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, Final

import click

from gateway.common.suggestions import nearest

SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Run": ("run", "demo", "healthcheck", "service"),
    "Look": ("status", "open", "top", "tap", "usage", "budgets", "views", "allocation", "recommendations", "senders"),
    "Keys and devices": ("connect", "sources", "keys", "viewer-tokens", "devices"),
    "Data": ("spool", "export", "billing", "reconcile", "backup", "restore", "store", "forget-user"),
    "Help": ("doctor", "check", "normalise", "completion"),
}
"""Title -> commands of `telemetry-gateway`, in the order of `--help`."""
OTHER: Final = "Commands"
"""Title of the commands that are in no section."""


class Commands(MutableMapping[str, click.Command]):
    """The commands of a group by name. A command of another module is stated as `module:attribute`,
    and imported when it is asked for.
    """

    def __init__(self, elsewhere: Mapping[str, str]) -> None:
        self._commands: dict[str, click.Command | str] = dict(elsewhere)

    def __getitem__(self, name: str) -> click.Command:
        command = self._commands[name]
        if isinstance(command, str):
            module, _, attribute = command.partition(":")
            command = self._commands[name] = getattr(import_module(module), attribute)
        return command

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._commands[name] = command

    def __delitem__(self, name: str) -> None:
        del self._commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)


class Group(click.Group):
    """A group whose subgroups are alike: a command that does not exist is answered with the nearest
    one, also of another group.
    """

    group_class: type[click.Group] | type[type] | None = type

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's. Raises UsageError."""
        typed = args[0]
        if self.get_command(ctx, typed) is None and not typed.startswith("-"):
            ctx.fail(f"no command is named {typed!r}{suggestion(ctx, self, typed)}")
        return super().resolve_command(ctx, args)


class SectionedGroup(Group):
    """The group `telemetry-gateway`: its `--help` has a list for each of `SECTIONS`."""

    group_class: type[click.Group] | type[type] | None = Group

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.commands))
        for title, names in sections(self.commands):
            with formatter.section(title):
                limit = formatter.width - 6 - width
                formatter.write_dl([(f"{n:{width}}", self.commands[n].get_short_help_str(limit)) for n in names])


def sections(commands: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Title and names of each section that has *commands*; those in no section come last."""
    placed = {name for names in SECTIONS.values() for name in names}
    for title, names in (*SECTIONS.items(), (OTHER, sorted(commands.keys() - placed))):
        if found := [name for name in names if name in commands]:
            yield title, found


def suggestion(ctx: click.Context, group: click.Group, typed: str) -> str:
    """`; did you mean …?` with a command of *group*, else one of any group; empty without one."""
    near = nearest(typed, group.commands)
    if near is not None:
        return f"; did you mean `{ctx.command_path} {near}`?"
    root = ctx.find_root()
    paths = dict(command_paths(root.command, root.command_path))
    near = nearest(typed, paths.values())
    found = [path for path, name in paths.items() if name == near]
    return f"; did you mean {' or '.join(f'`{path}`' for path in found)}?" if found else ""


def command_paths(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    """Each command below *command*: how it is typed, and its name."""
    for name, below in command.commands.items() if isinstance(command, click.Group) else ():
        yield f"{path} {name}", name
        yield from command_paths(below, f"{path} {name}")
