"""Long computations in a thread, so that the event loop gets the interpreter in between.

Not a second core: the interpreter's lock is handed over every `SWITCH_S`
(`gateway.cli.running`), and a single call into C keeps it for as long as it takes. What runs
here is pure, or touches only what no one else uses meanwhile.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

T = TypeVar("T")

HERE_BYTES: Final = 8 * 1024
"""A body up to this size is read at once, on the event loop; the worst bytes take 20 ms."""
LET_GO_AT_ONCE: Final = 1_000


async def in_thread(work: Callable[[], T], *, is_long: bool) -> T:
    """What *work* returns or raises; done at once, in this turn of the
    loop, unless it *is_long*.
    """
    return await asyncio.to_thread(work) if is_long else work()


def clear_in_steps(*lists: list[Any]) -> None:
    """Empty *lists*, some at a time: a hundred thousand records that end at once keep the
    interpreter for a tenth of a second.
    """
    for items in lists:
        while items:
            del items[-LET_GO_AT_ONCE:]


@contextmanager
def gc_paused(*, is_long: bool) -> Iterator[None]:
    """Without the garbage collector while something *is_long*: it would walk all that
    lives meanwhile, in one piece.

    Reference counts free nearly everything all the same.
    """
    if not is_long:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
