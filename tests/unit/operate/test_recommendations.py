"""The operations on one recommendation, and that their answers are as described."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from gateway.common.contract.errors import BadPayload
from gateway.operate import recommendations as operations
from gateway.operate.openapi.document import gateway_document
from gateway.usage.recommendations.book import Recommendations
from gateway.usage.sums.tally import Tally
from tests.support.stores import Home, home_of
from tests.unit.usage.recommendations.test_month import DAY_MS, NOW_MS, TODAY_MS, Clock, listed, month, opened
from tests.unit.usage.sums.test_tally import store


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with home_of("sqlite", tmp_path) as made:
        yield made


@pytest.fixture
async def kept(home: Home) -> Recommendations:
    sums = await home.sums()
    await store(sums, Tally(), now_ms=TODAY_MS - 31 * DAY_MS)
    await store(sums, month()[0], now_ms=NOW_MS)
    return await opened(home, sums, Clock())


def check(answer: object) -> None:
    document = gateway_document()
    described = document["paths"]["/v2/recommendations/{recommendation_id}"]["get"]["responses"]["200"]
    schema = {**described["content"]["application/json"]["schema"], "components": document["components"]}
    Draft202012Validator(schema).validate(json.loads(json.dumps(answer)))


async def test_one_is_read_accepted_and_opened_again(kept: Recommendations) -> None:
    (first, *_) = await listed(kept)
    path = {"recommendation_id": first["id"]}
    shown = await operations.show(kept, operations.SHOW.call(path=path))
    check(shown)
    assert shown["recommendation"] == first
    accepted = await operations.change(kept, operations.CHANGE.call(path=path, fields={"state": "accepted"}))
    check(accepted)
    assert accepted["recommendation"]["state"] == "accepted"
    assert accepted["recommendation"]["state_set_by"] == "operator"
    opened_again = await operations.change(kept, operations.CHANGE.call(path=path, fields={"state": "open"}))
    assert opened_again["recommendation"]["state"] == "open"


def test_a_state_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(BadPayload, match="state: one of open, accepted, dismissed is needed"):
        operations.CHANGE.call(path={"recommendation_id": "x"}, fields={"state": "done"})
