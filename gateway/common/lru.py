"""Bounded memory in the order of use. Pure."""

from itertools import islice
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def forget_oldest(memory: dict[K, V], most: int) -> None:
    """Forget the first of *memory* when there are more than *most*: a tenth at once.

    One at a time would be quadratic: a dict finds its first item behind the places of all
    that were deleted before it.
    """
    if len(memory) > most:
        for key in list(islice(memory, len(memory) - most + most // 10)):
            del memory[key]
