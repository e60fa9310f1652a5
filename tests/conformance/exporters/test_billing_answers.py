"""What the answers to a billing drop mean: it is one thing, which the answer may describe."""

from collections.abc import AsyncIterator

import orjson
import pytest

from exporters.base import Delivered, NotUnderstood, Outcome, Refused
from exporters.cost_service.billing import DROP_SCOPE, VALIDATE_SCOPE, BillingCalls
from exporters.cost_service.client import CostServiceClient
from exporters.http_client import Endpoint
from exporters.keyring import Keyring, KeySetting
from exporters.secret import Secret
from spool.record import Batch
from tests.support.upstream import Reply, Upstream

DROP = Batch("b", "billing", 0, 0, "2026-01-05T10:00:00.000Z", (b'{"month":"2026-01"}',))
WEB_PAGE = Reply(200, {"Content-Type": "text/plain"}, b"<html>Log in")


@pytest.fixture
async def calls(upstream: Upstream) -> AsyncIterator[BillingCalls]:
    keyring = Keyring([KeySetting("all", Secret("key-4711"), {DROP_SCOPE, VALIDATE_SCOPE}.__contains__)])
    client = CostServiceClient(Endpoint(upstream.base_url), keyring, "gw-1")
    yield BillingCalls(client, "conn-1")
    await client.close()


@pytest.mark.parametrize(
    ("reply", "outcome", "is_partial"),
    [
        (Reply(200, body=b'{"connection":{"state":"complete","row_count":7,"drop_id":"d"}}'), Delivered, False),
        (Reply(200, body=b'{"connection":{"state":"partial","missing":["p-2"]}}'), Delivered, True),
        (Reply(204), Delivered, False),
        (WEB_PAGE, NotUnderstood, False),
        (Reply(200, body=b'{"error":{"type":"invalid_drop"}}'), NotUnderstood, False),
        (Reply(200, body=b'{"rejected":[{"index":0}]}'), NotUnderstood, False),
        (Reply(200, body=b'{"status":"failed","connection":{"state":"partial"}}'), NotUnderstood, False),
        (Reply(206, body=b'{"connection":{"state":"complete"}}'), NotUnderstood, False),
        (Reply(422, body=b'{"error":{"type":"invalid_drop"}}'), Refused, False),
    ],
)
async def test_a_drop_is_in_force_only_by_an_answer_about_it(
    calls: BillingCalls, upstream: Upstream, reply: Reply, outcome: type[Outcome], *, is_partial: bool
) -> None:
    upstream.script.append(reply)
    dropped = await calls.drop(DROP)
    assert (type(dropped.outcome), dropped.is_partial) == (outcome, is_partial)
    assert orjson.loads(upstream.seen[0].body) == {"month": "2026-01"}


async def test_a_web_page_has_checked_nothing(calls: BillingCalls, upstream: Upstream) -> None:
    upstream.script.append(WEB_PAGE)
    assert isinstance(await calls.validate(DROP), NotUnderstood)
