"""What became of a user's name in the spool, once an operator asked to forget it."""

from typing import NamedTuple


class Forgotten(NamedTuple):
    """Records that named the user."""

    records: int = 0
    """Pending and delivered ones, whose name was removed."""
    dead_letters: int = 0
    """Refused ones, whose name was removed."""
    waiting: int = 0
    """Those that stay as they are for now: they settle, or are in a frozen batch, whose bytes never
    change.
    """

    def __add__(self, other: object) -> "Forgotten":
        if not isinstance(other, Forgotten):
            return NotImplemented
        return Forgotten(
            self.records + other.records, self.dead_letters + other.dead_letters, self.waiting + other.waiting
        )
