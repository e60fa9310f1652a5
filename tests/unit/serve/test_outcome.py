"""What is noted of a request, and that it is handed over once, whatever its way."""

from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from gateway.common.contract.errors import BadPayload, Forbidden, OverQuota, Unauthenticated
from gateway.common.contract.intake import Receipt, Sender
from gateway.fleet.senders.activity import SenderId, Senders
from gateway.serve.answers import answer_for, reason_of
from gateway.serve.outcome import Outcomes, RequestOutcome
from gateway.serve.recent_senders import RecentSenders
from tests.conformance.otlp_http.recording import RecordingIntake
from tests.unit.serve.conftest import Serve

PATH = "/v1/traces"
OPEN = Sender(None, "10.0.0.1", product="OTel/1.0")
KEYED = Sender("team-a", "10.0.0.1", product="OTel/1.0")
RECEIPT = Receipt(3, (), format="otlp.traces", sent=[("bot", 1, 3, 3, 0, 90)])


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes(lambda: 1000, Senders(lambda: 1000), RecentSenders(lambda: 1000), None)


def requests_of(outcomes: Outcomes, sender: SenderId) -> tuple[int, int]:
    known = outcomes.senders.known[sender]
    return known.requests, known.refused


def test_an_answered_request_is_in_each_list_once(outcomes: Outcomes) -> None:
    outcomes.note(RequestOutcome(PATH, "10.0.0.1", 200, (0.1,), OPEN, RECEIPT))
    assert outcomes.counts.answers == {(PATH, 200): 1}
    assert outcomes.counts.seconds[PATH].read().buckets[-1][1] == 1
    assert requests_of(outcomes, SenderId(None, "otlp.traces", "bot", "OTel/1.0")) == (1, 0)
    assert [(each.peer, each.requests) for each in outcomes.recent.last_hour()] == [("10.0.0.1", 1)]
    assert outcomes.refused.status() == []


def test_requests_that_were_taken_together_count_one_by_one(outcomes: Outcomes) -> None:
    outcomes.note(RequestOutcome(PATH, "10.0.0.1", 200, (0.1, 0.2, 0.3), OPEN, RECEIPT))
    assert outcomes.counts.answers == {(PATH, 200): 3}
    assert outcomes.counts.seconds[PATH].read().buckets[-1][1] == 3
    assert outcomes.recent.last_hour()[0].requests == 3


def test_who_showed_a_key_is_not_among_those_of_open_intake(outcomes: Outcomes) -> None:
    outcomes.note(RequestOutcome(PATH, "10.0.0.1", 200, (0.1,), KEYED, RECEIPT))
    assert outcomes.recent.last_hour() == []


def test_a_sender_that_left_has_no_answer_but_what_is_on_disk_counts(outcomes: Outcomes) -> None:
    outcomes.note(RequestOutcome(PATH, "10.0.0.1", None, (0.1,), KEYED, RECEIPT))
    assert outcomes.counts.gone == 1
    assert not outcomes.counts.answers
    assert not outcomes.counts.seconds
    assert requests_of(outcomes, SenderId("team-a", "otlp.traces", "bot", "OTel/1.0")) == (1, 0)


@pytest.mark.parametrize(
    ("error", "key", "product"),
    [
        (Unauthenticated("x", reason="no_key"), None, ""),
        (Forbidden("x", reason="scope_missing", key="team-a"), "team-a", "OTel/1.0"),
        (BadPayload("x"), None, "OTel/1.0"),
    ],
    ids=["no key", "no scope", "bad body"],
)
def test_a_refused_request_is_put_down_to_its_sender(
    outcomes: Outcomes, error: Exception, key: str | None, product: str
) -> None:
    status = answer_for(error).status
    outcomes.note(RequestOutcome(PATH, "10.0.0.1", status, (0.1,), error=error, product="OTel/1.0"))
    assert outcomes.counts.answers == {(PATH, status): 1}
    (entry,) = outcomes.refused.status()
    assert (entry["status"], entry["reason"], entry["last_key"]) == (status, reason_of(error), key)
    assert requests_of(outcomes, SenderId(key, "otlp.traces", None, product)) == (0, 1)


def test_a_quota_that_is_used_up_counts_under_its_key(outcomes: Outcomes) -> None:
    error = OverQuota("x", retry_after_s=5, reason="over_quota_bytes", key="team-a")
    for _ in range(2):
        outcomes.note(RequestOutcome(PATH, "unix", 429, (0.1,), error=error))
    assert outcomes.counts.over_quota == {("team-a", "bytes"): 2}


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/v1/traces", b"", {"Content-Type": "application/x-protobuf"}, 200),
        ("/v1/traces", b"\x0a\xff", {"Content-Type": "application/x-protobuf"}, 400),
        ("/v1/traces", b"", {"Content-Type": "text/plain"}, 415),
        ("/v1/nothing", b"", {}, 404),
        ("/v1/events", b"{}\n{}", {"Content-Type": "application/x-ndjson"}, 202),
        ("/v1/unit-cost", b"", {}, 415),
    ],
)
async def test_each_request_is_handed_over_once(
    serve: Serve, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    served = await serve(intake=RecordingIntake())
    noted: list[RequestOutcome] = []
    note: Callable[[Any], None] = served.receiver.note
    served.receiver.note = lambda outcome: (noted.append(outcome), note(outcome))[0]
    async with (
        aiohttp.ClientSession() as client,
        client.post(served.url + path, data=body, headers=headers) as response,
    ):
        assert response.status == status
    assert [outcome.status for outcome in noted] == [status]
    assert (noted[0].error is None) == (status < 300)
    assert (noted[0].sender is None) == (status == 404)
