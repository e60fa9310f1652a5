"""What a key's labels state of a record stands, whatever the payload states, and whatever
other reports of the call do.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from gateway.common.contract.intake import Sender
from gateway.pipeline.parsing.parse import Parsed, ParseRules, Payload, parse
from gateway.pipeline.parsing.worker_client import MIN_TOGETHER
from gateway.rules.attribution import attribute, fixed_by
from gateway.rules.context import Context, UserPolicy
from gateway.usage.pricing.prices import Prices
from tests.support.corpus import CORPUS
from tests.support.metrics import Export
from tests.support.metrics_rig import MetricsRig
from tests.support.polling import until_true
from tests.support.spans import call_span
from tests.support.workers import worker_client

LABELS = MappingProxyType({"team": "alpha", "environment": "prod", "cost_center": "4711"})
ALPHA = Sender("key of alpha", "192.0.2.1", fixed_by(LABELS))
OTHER = Sender("another key", "192.0.2.2")
SAID = {
    "service.name": "app",
    "team": "said",
    "deployment.environment.name": "said",
    "cost_center": "said",
    "department": "said",
    "user.id": "u-1",
}
KONG = json.loads((CORPUS / "gateways/kong/http_log_single.json").read_text())


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[MetricsRig]:
    made = await MetricsRig(tmp_path / "data").open()
    yield made
    await made.close()


def is_stamped(record: dict[str, Any]) -> bool:
    who = record["attribution"]
    return bool(
        (who["team"], who["environment"], who["labels"]["cost_center"], who["key"])
        == ("alpha", "prod", "4711", "key of alpha")
    )


def test_labels_with_a_field_of_their_own_fill_it_and_the_others_are_labels() -> None:
    given = {"team": "t", "project": "p", "environment": "e", "user": "u", "session": "s", "service_name": "n"}
    assert dict(fixed_by(given)) == {
        "team": "t",
        "project": "p",
        "environment": "e",
        "user": "u",
        "label.session": "s",
        "label.service_name": "n",
    }


@pytest.mark.parametrize(
    ("policy", "fixed", "user"),
    [("keep", "build-bot", "build-bot"), ("drop", "build-bot", None), ("keep", "unknown", None)],
)
def test_a_fixed_user_goes_by_the_policy_for_users_and_the_payloads_never_takes_its_place(
    policy: Any, fixed: str, user: str | None
) -> None:
    context = Context(0, "", users=UserPolicy(policy), key_fixes=dict(fixed_by({"user": fixed})))
    assert attribute({}, {"user": "said"}, context).get("user") == user


async def test_a_payload_says_only_what_the_key_leaves_open(rig: MetricsRig) -> None:
    await rig.traces(
        call_span("a", (10, 2), resource=SAID, more={"team": "said by the span", "user.id": "u-2"}), sender=ALPHA
    )
    await rig.settle()
    (record,) = await rig.records()
    assert is_stamped(record)
    assert record["attribution"]["labels"]["department"] == "said"
    assert record["attribution"]["user"] == "u-2"


async def test_aggregates_and_what_gateways_push_are_stamped_too(rig: MetricsRig) -> None:
    await rig.metrics(Export(resource=SAID).point(40), sender=ALPHA)
    await rig.intake.source("kong", json.dumps(KONG).encode(), sender=ALPHA)
    await rig.settle()
    records = await rig.records()
    assert sorted(record["kind"] for record in records) == ["aggregate", "call"]
    assert all(map(is_stamped, records))


@pytest.mark.parametrize("first", ["alpha", "other"])
async def test_a_fuller_report_of_the_call_under_another_key_takes_nothing_of_it(rig: MetricsRig, first: str) -> None:
    response = {"gen_ai.response.id": "chatcmpl-1"}
    thin = (call_span("a", (10, 2), resource={"service.name": "app"}, more=response), ALPHA)
    full_said = {**response, "gen_ai.usage.cache_read.input_tokens": 4, "gen_ai.response.model": "gpt-4o-2024-08-06"}
    full = (call_span("b", (10, 2), resource=SAID, more=full_said), OTHER)
    for body, sender in (thin, full) if first == "alpha" else (full, thin):
        await rig.traces(body, sender=sender)
    await rig.settle()
    (record,) = await rig.records()
    assert is_stamped(record)
    assert record["usage"]["cache_read_input_tokens"] == 4, "the fuller one completes all else"
    assert (record["attribution"]["user"], record["attribution"]["labels"]["department"]) == ("u-1", "said")


async def test_the_same_span_reported_by_somebody_else_before_is_taken_from_him(rig: MetricsRig) -> None:
    body = call_span("a", (10, 2), resource=SAID)
    await rig.traces(body, sender=OTHER)
    await rig.traces(body, sender=ALPHA)
    await rig.traces(body, sender=OTHER)
    await rig.settle()
    (record,) = await rig.records()
    assert is_stamped(record)
    edge = rig.spool.edge()
    assert (edge["received"], edge["kept"], edge["duplicate"]) == (3, 1, 2)


async def test_what_is_stamped_outlives_a_restart_before_it_settles(rig: MetricsRig) -> None:
    response = {"gen_ai.response.id": "chatcmpl-1"}
    await rig.traces(call_span("a", (10, 2), more=response), sender=ALPHA)
    await rig.reopen()
    full = call_span("b", (10, 2), resource=SAID, more={**response, "gen_ai.usage.cache_read.input_tokens": 4})
    await rig.traces(full, sender=OTHER)
    await rig.settle()
    (record,) = await rig.records()
    assert is_stamped(record)


async def test_the_second_process_stamps_as_the_gateway_itself_does() -> None:
    context = Context(1_767_607_200_000, "2026-01-05T10:00:00.000Z", key=ALPHA.key, key_fixes=dict(ALPHA.fixes))
    client = worker_client()

    async def there(payload: Payload) -> list[Parsed]:
        answers = await asyncio.gather(*(client.parse(payload, context) for _ in range(MIN_TOGETHER)))
        return [parsed for parsed, _ in answers]

    client.start()
    try:
        await until_true(lambda: client.is_free, what="the worker ready")
        body = Payload("traces", call_span("a", (10, 2), resource=SAID), json=False)
        here = parse(body, context, ParseRules(Prices()))
        assert here.calls is not None
        assert await there(body) == [here] * MIN_TOGETHER
        assert is_stamped(json.loads(here.calls.records[0]))
        metrics = Payload("metrics", Export(resource=SAID).point(40).body, json=False)
        assert all(x.points and x.points.attributions[0]["team"] == "alpha" for x in await there(metrics))
        pushed = Payload("kong", json.dumps(KONG).encode())
        assert all(x.calls and is_stamped(json.loads(x.calls.records[0])) for x in await there(pushed))
        assert client.worker.done > 0, "answers came from there"
    finally:
        await client.stop()
