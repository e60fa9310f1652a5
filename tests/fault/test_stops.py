"""SIGTERM while the upstream refuses, hangs or asks to slow down (C07): nothing is lost, and what
was under way comes again as it was.

CI stops each way twice; STOP_TEST_STOPS=17 makes it fifty-one.
"""

import asyncio
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from benchmarks.bodies import Shape, Template
from exporters.pump import BatchLimits
from tests.support.gateway_process import GatewayProcess, Upstream, broken_identities
from tests.support.kill_load import Load
from tests.support.polling import HANGS_S
from tests.support.tcp_proxy import TcpProxy
from tests.support.upstream import Reply, Seen, running_upstream

STOPS = int(os.environ.get("STOP_TEST_STOPS", "2"))
SHAPE = Shape(spans=20, attributes=15)
REQUESTS = 3
ENDED_WITHIN_S = 45.0
"""Less than the 60 s after which a send that hangs ends by itself; `STOP_GRACE_S` is 5."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


async def until_tried(gateway: GatewayProcess, *, hangs: bool, tried: int, seen: Sequence[Seen]) -> None:
    """Return when a batch met the upstream: a send is under way, or
    the lane states that one failed.
    """
    async with asyncio.timeout(HANGS_S):
        while True:
            if hangs and len(seen) > tried:
                return
            status = await asyncio.to_thread(gateway.status)
            if not hangs and status["lanes"]["ai_telemetry"]["state"] == "retrying":
                return
            await asyncio.sleep(0.02)


def keys_of(seen: Sequence[Seen]) -> set[str]:
    return {each.headers["Idempotency-Key"] for each in seen}


def record_ids(seen: Sequence[Seen]) -> Iterator[str]:
    for each in seen:
        for record in orjson.loads(each.body)["records"]:
            yield record["record_id"]


def assert_repeats_are_the_same(seen: Sequence[Seen]) -> None:
    by_batch: dict[str, set[bytes]] = defaultdict(set)
    by_key: dict[str, set[bytes]] = defaultdict(set)
    for each in seen:
        by_batch[orjson.loads(each.body)["batch_id"]].add(each.body)
        by_key[each.headers["Idempotency-Key"]].add(each.body)
    assert all(len(bodies) == 1 for bodies in (*by_batch.values(), *by_key.values())), "a repeat has other bytes"


@pytest.mark.parametrize("way", ["cut", "hangs", "503"])
async def test_c07_a_stop_loses_nothing_and_repeats_only_what_was_under_way_under_the_same_keys(
    tmp_path: Path, way: str
) -> None:
    never = asyncio.Event()
    longest_s = 0.0
    async with running_upstream() as upstream, TcpProxy(lambda: urlsplit(upstream.base_url).port) as proxy:
        base_url = f"http://127.0.0.1:{proxy.port}"
        gateway = GatewayProcess(tmp_path, upstream=Upstream(base_url, "key"), settle="0s")
        load = Load(Template(SHAPE), lambda: gateway.intake_url)
        upstream.respond = lambda seen: (
            Reply(202) if "insights" in seen.path else Reply(503) if way == "503" else Reply(202, until=never)
        )
        if way == "cut":
            await proxy.cut()
        hung: list[Seen] = []
        try:
            for _ in range(STOPS):
                before = len(upstream.seen)
                await asyncio.to_thread(gateway.start)
                for _ in range(REQUESTS):
                    await load.send_one()
                await until_tried(gateway, hangs=way == "hangs", tried=before, seen=upstream.seen)
                began_s = time.monotonic()
                assert await asyncio.to_thread(gateway.stop) == 0
                longest_s = max(longest_s, time.monotonic() - began_s)
                this_time = [seen for seen in upstream.seen[before:] if seen.method == "POST"]
                assert len(keys_of(this_time)) <= BatchLimits().in_flight or way != "hangs"
                hung += this_time
            proxy.mend()
            never.set()
            upstream.respond = lambda seen: Reply(202)
            before = len(upstream.seen)
            await asyncio.to_thread(gateway.start)
            status = await asyncio.to_thread(gateway.wait_until_delivered, at_least=len(load.acked) * SHAPE.spans)
        finally:
            never.set()
            gateway.kill()
    taken = [seen for seen in upstream.seen[before:] if seen.method == "POST"]
    sys.stderr.write(f"{STOPS} stops, {way}: {len(load.acked)} requests, longest stop {longest_s:.1f} s\n")
    ids = list(record_ids(taken))
    assert len(ids) == len(set(ids)) == len(load.acked) * SHAPE.spans == STOPS * REQUESTS * SHAPE.spans
    assert status["lanes"]["ai_telemetry"]["delivered"] == len(ids)
    assert broken_identities(status) == []
    assert_repeats_are_the_same([*hung, *taken])
    assert longest_s < ENDED_WITHIN_S
    if way == "hangs":
        assert keys_of(hung) <= keys_of(taken), "what hung came again under other keys"
