"""Texts of others on a terminal, and tables of them."""

import sys
from typing import TextIO

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

WIDEST = 1 << 20
"""Columns of a terminal; no table has so many."""


def plain(text: str) -> str:
    """*text* as it is shown, in a table of rich's: nothing in it is
    obeyed, by the terminal or by rich.
    """
    return harmless(text).replace("[", "\\[")


def harmless(text: str) -> str:
    """The same for text that is printed as it is."""
    return "".join(c if c.isprintable() else "�" for c in text)


def print_table(table: Table, to: TextIO | None = None) -> None:
    """*table* on stdout, or on *to*; nothing in it is cut.

    It fits a terminal where its columns can be wrapped at blanks to do so; else, and where there is
    no terminal, a row is one line.
    """
    to = to or sys.stdout
    console = Console(file=to)
    needed = Measurement.get(console, console.options.update(max_width=WIDEST), table)
    if not to.isatty() or needed.minimum > console.width:
        console.width = needed.maximum
    console.print(table)
