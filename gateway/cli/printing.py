"""Texts of others on a terminal, tables of them, money and colours."""

import os
import sys
from collections.abc import Mapping
from textwrap import wrap
from typing import TextIO

import click
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from gateway.common.printable import harmless

WIDEST = 1 << 20
"""Columns of a terminal; no table has so many."""


def plain(text: str) -> str:
    """*text* as it is shown, in a table of rich's: nothing in it is
    obeyed, by the terminal or by rich.
    """
    return harmless(text).replace("[", "\\[")


def amount_text(amount: str) -> str:
    """A decimal with every digit, in groups of three before the point."""
    whole, point, places = amount.partition(".")
    sign, digits = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    return f"{sign}{int(digits):,}{point}{places}" if digits.isdecimal() else amount


def costs_text(costs: Mapping[str, str]) -> str:
    """`0.00001 USD + 3.5 EUR`: currency -> amount with every digit; empty for none."""
    return " + ".join(f"{amount_text(amount)} {harmless(currency)}" for currency, amount in costs.items())


def coloured(text: str, colour: str) -> str:
    """*text* for `click.echo`, which takes colours away where there is no terminal; plain with
    NO_COLOR (no-color.org).
    """
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour, bold=True)


STATE_COLOURS = {"ok": "green", "off": "bright_black", "behind": "yellow", "retrying": "yellow", "held": "red"}
"""Of a lane; rich and click know these names."""


def print_table(table: Table, to: TextIO | None = None) -> None:
    """*table* on stdout, or on *to*; nothing in it is cut.

    On a terminal it fits: its columns are wrapped at blanks, or, where that is not enough, each row
    is a block with a line for each column. Where there is no terminal, a row is one line.
    """
    to = to or sys.stdout
    console = Console(file=to)
    needed = Measurement.get(console, console.options.update(max_width=WIDEST), table)
    if not to.isatty():
        console.width = needed.maximum
    elif needed.minimum > console.width:
        print_blocks(table, to, console.width)
        return
    console.print(table)


def print_blocks(table: Table, to: TextIO, columns: int) -> None:
    """Each row as lines of a column's name and its value, which is broken at blanks alone: what is
    one word can be copied.
    """
    names = [_text(column.header) for column in table.columns]
    width = max(map(len, names))
    if table.title:
        click.echo(_text(table.title), file=to)
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        for name, cell in zip(names, cells, strict=True):
            if text := _text(cell):
                lines = wrap(text, columns - width - 2, break_long_words=False, break_on_hyphens=False)
                click.echo(f"{name:{width}}  " + f"\n{'':{width}}  ".join(lines), file=to)
        click.echo(file=to)


def _text(cell: object) -> str:
    """A cell or a header without its markup."""
    return Text.from_markup(cell).plain if isinstance(cell, str) else str(cell)
