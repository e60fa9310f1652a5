"""Many large messages at once, each on a connection of its own; prints the answers as JSON."""

import asyncio
import json
import sys
from collections import Counter

from grpc import aio

from tests.support.grpc_calls import called
from tests.support.otlp_bytes import field

UNKNOWN_FIELD = 99


async def main(target: str, senders: int, n_bytes: int) -> dict[str, int]:
    """Answers by their code."""
    body = field(UNKNOWN_FIELD, bytes(n_bytes))
    alone = [("grpc.use_local_subchannel_pool", 1)]
    channels = [aio.insecure_channel(target, options=alone) for _ in range(senders)]
    answers = await asyncio.gather(*(called(channel, body, timeout_s=90) for channel in channels))
    return Counter("OK" if isinstance(answer, bytes) else answer.code.name for answer in answers)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
