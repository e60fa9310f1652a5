"""What a sender of the exporter runs does: half of its calls, and the rest when a line comes in."""

import sys
from collections.abc import Callable

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer


def send_in_halves(provider: TracerProvider, send_one: Callable[[Tracer, int], None]) -> None:
    """`send_one(tracer, n)` for each n from 1 to the number of calls on the command line."""
    calls = int(sys.argv[1])
    tracer = provider.get_tracer("sender")
    for n in range(1, calls // 2 + 1):
        send_one(tracer, n)
    provider.force_flush()
    _say("half")
    sys.stdin.readline()
    for n in range(calls // 2 + 1, calls + 1):
        send_one(tracer, n)
    provider.shutdown()
    _say("done")


def _say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()
