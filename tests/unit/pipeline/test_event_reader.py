"""Bodies of usage events and unit cost, read by another process: to the same that is read here."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.common.contract.errors import BadPayload, TooLarge
from gateway.common.contract.event_form import OWN_FORM, EventForm, Mode
from gateway.common.contract.unit_cost import Target
from gateway.common.in_thread import HERE_BYTES
from gateway.pipeline.parsing.event_reader import ReadApart
from gateway.pipeline.parsing.worker_client import WorkerClient
from gateway.usage.events.checks import EventRules
from gateway.usage.events.events import Events
from gateway.usage.events.reading import BodyReader, ReadHere
from gateway.usage.events.unit_cost import BadUnitCost
from tests.support.workers import worker_client

pytestmark = pytest.mark.asyncio(loop_scope="module")
NOW_MS = 1_767_607_200_000
RULES = EventRules()
TARGET = Target("metric", "units", "sum")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[WorkerClient]:
    made = worker_client()
    made.start()
    yield made
    await made.stop()


EVENTS = [
    {"title": "a", "source": "s"},
    {"title": "b", "source": "s", "timestamp": "2026-01-05T10:00:00Z", "metadata": {"event_id": "1", "x": [1, None]}},
    {"title": "c", "source": "s", "metadata": {"stream": "units", "value": "7.50"}, "filters": {"custom:P": ["a"]}},
    {"title": "d", "source": "s", "route": "both", "metadata": {"stream": "u", "value": 1e-3, "element_name": "e"}},
    {"title": "", "source": "s"},
    {"title": "<", "source": "s"},
    7,
]
RECORD = {"timestamp": "2026-01-05", "associated_cost": {"custom:Product": "a"}, "value": "12345678901.25"}
PADDING = "x" * HERE_BYTES
"""With which a body is read by the other process."""


async def both(client: WorkerClient, kind: str, *arguments: object) -> tuple[object, object]:
    """What is read here, and there; or what is raised."""
    outcomes: list[object] = []
    readers: tuple[BodyReader, ...] = (ReadHere(), ReadApart(client))
    for reader in readers:
        try:
            outcomes.append(await getattr(reader, kind)(*arguments, "a sender"))
        except (BadUnitCost, BadPayload, TooLarge) as error:
            outcomes.append((type(error), str(error), getattr(error, "fault", None), getattr(error, "records", None)))
    return outcomes[0], outcomes[1]


@pytest.mark.parametrize("is_ndjson", [False, True])
@pytest.mark.parametrize("route", ["auto", "event"])
async def test_events_come_to_the_same(client: WorkerClient, route: str, *, is_ndjson: bool) -> None:
    items = [*EVENTS, {"title": "e", "source": "s", "metadata": {"padding": PADDING}}]
    body = "\n".join(map(json.dumps, items)) if is_ndjson else json.dumps(items)
    done = client.worker.done
    here, there = await both(client, "events", body.encode(), OWN_FORM, NOW_MS, RULES._replace(route=route), b"nonce")
    assert here == there
    assert client.worker.done == done + 1, "it was read there"


CLOUD_EVENT = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "time": "2026-01-05T10:00:00Z"}


@pytest.mark.parametrize("mode", ["structured", "batched", "binary"])
async def test_cloud_events_come_to_the_same(client: WorkerClient, mode: Mode) -> None:
    data = {"stream": "units", "value": "7.5", "padding": PADDING}
    own: dict[Mode, object] = {
        "structured": CLOUD_EVENT | {"data": {}, "padding": PADDING},
        "batched": [CLOUD_EVENT | {"data": data}, CLOUD_EVENT | {"data": 7}, CLOUD_EVENT | {"subject": "acme"}],
        "binary": data,
    }
    form = EventForm(mode, tuple(CLOUD_EVENT.items()) if mode == "binary" else ())
    done = client.worker.done
    here, there = await both(client, "events", json.dumps(own[mode]).encode(), form, NOW_MS, RULES, b"nonce")
    assert here == there
    assert isinstance(here, Events)
    assert here.events or here.rejected
    assert client.worker.done == done + 1, "it was read there"


@pytest.mark.parametrize("body", [b"[" + b"{" * HERE_BYTES, b"[" + b"1," * 40_000 + b"1]"])
async def test_events_are_refused_in_the_same_words(client: WorkerClient, body: bytes) -> None:
    here, there = await both(client, "events", body, OWN_FORM, NOW_MS, RULES, b"nonce")
    assert isinstance(here, tuple)
    assert here == there


@pytest.mark.parametrize(
    "records",
    [
        [RECORD] * 200,
        [{**RECORD, "telemetry-stream": "units"}] * 200,
        [*[RECORD] * 200, {**RECORD, "value": "x"}],
        [*[RECORD] * 200, {**RECORD, PADDING: 1}],
        [],
    ],
    ids=["sound", "with their stream", "one bad value", "an unknown field", "none"],
)
@pytest.mark.parametrize("target", [TARGET, None])
async def test_records_come_to_the_same(client: WorkerClient, records: list[object], target: Target | None) -> None:
    body = json.dumps({"records": records, "padding": PADDING}).encode()
    here, there = await both(client, "records", body, target, NOW_MS, RULES)
    assert here == there


async def test_a_small_body_is_read_here(client: WorkerClient) -> None:
    done = client.worker.done
    await both(client, "events", b'{"title":"a","source":"s"}', OWN_FORM, NOW_MS, RULES, b"nonce")
    await both(client, "records", json.dumps({"records": [RECORD]}).encode(), TARGET, NOW_MS, RULES)
    assert client.worker.done == done
