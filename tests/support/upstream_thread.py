"""`tests.support.upstream` for tests without an event loop of their own."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.upstream import Respond, Upstream, running_upstream


@contextmanager
def upstream_in_thread(respond: Respond) -> Iterator[Upstream]:
    """An upstream that answers by *respond*, called in its thread. Its faults fail the test at the
    end of the block.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="upstream", daemon=True)
    thread.start()
    running = running_upstream()
    try:
        upstream = asyncio.run_coroutine_threadsafe(anext(running.gen), loop).result(30)
        upstream.respond = respond
        try:
            yield upstream
        finally:
            asyncio.run_coroutine_threadsafe(running.__aexit__(None, None, None), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
