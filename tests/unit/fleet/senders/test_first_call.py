"""What became of the first call of a sender, as the lists of senders and calls have it."""

from typing import Any

import pytest

from gateway.common.contract.parsed_payload import Reported
from gateway.fleet.senders.activity import Senders
from gateway.fleet.senders.first_call import State, first_call
from gateway.fleet.senders.listing import sender_page
from gateway.fleet.senders.repeats import sent_in
from gateway.fleet.senders.warning import REFUSED_REMEDIES
from spool.clock import rfc3339_ms

KEY = "litellm"
MADE_MS = 1_767_607_200_000


class Sent:
    """Requests that come a second apart, the first one a second after the key was made."""

    def __init__(self) -> None:
        self.now_ms = MADE_MS
        self.senders = Senders(lambda: self.now_ms)

    def took(self, items: int, calls: int, key: str | None = KEY) -> "Sent":
        self.now_ms += 1000
        reported: list[Reported] = [("checkout", items, calls, 0)] if items else []
        self.senders.sent(key, "otlp.traces", "OTel/1.45", sent_in(reported, 100, items))
        return self

    def refused(self, reason: str, key: str | None) -> "Sent":
        self.now_ms += 1000
        self.senders.refused(key, "otlp.traces", "OTel/1.45", reason)
        return self

    def items(self) -> list[Any]:
        return list(sender_page(self.senders.known, self.now_ms, [])["senders"])


def call(**fields: object) -> dict[str, Any]:
    return {"outcome": "kept", "usage": "reported", "status": "ok", **fields}


def state_of(sent: Sent, *calls: dict[str, Any]) -> State:
    return first_call(KEY, rfc3339_ms(MADE_MS), sent.items(), calls).state


def test_nothing_arrived() -> None:
    found = first_call(KEY, rfc3339_ms(MADE_MS), [], [])
    assert found.state == "waiting"
    assert found.remedy


@pytest.mark.parametrize("key", [KEY, None])
def test_a_refusal_has_its_reason_and_its_remedy(key: str | None) -> None:
    sent = Sent().refused("key_unknown_or_disabled", key)
    found = first_call(KEY, rfc3339_ms(MADE_MS), sent.items(), [])
    assert found.state == "refused"
    assert "key_unknown_or_disabled" in found.text
    assert found.remedy == REFUSED_REMEDIES["key_unknown_or_disabled"]


def test_refusals_of_another_key_and_from_before_the_key_was_made_are_not_its() -> None:
    assert state_of(Sent().refused("scope_missing", "another")) == "waiting"
    before = Sent()
    before.now_ms -= 60_000
    assert state_of(before.refused("no_key", None)) == "waiting"


def test_what_was_taken_after_a_refusal_decides() -> None:
    assert state_of(Sent().refused("no_key", None).took(1, 1)) == "settling"
    assert state_of(Sent().took(1, 1).refused("too_large", KEY)) == "refused"


def test_items_without_a_call_are_distinguished_from_none() -> None:
    assert state_of(Sent().took(3, 0)) == "no_calls"
    assert state_of(Sent().took(0, 0)) == "no_calls"
    assert state_of(Sent().took(3, 1, key="another")) == "waiting"


def test_a_call_with_tokens_arrived_whatever_else_did() -> None:
    sent = Sent().took(1, 1).refused("too_large", KEY)
    with_tokens = call(usage="partial", model="gpt-4o")
    found = first_call(KEY, rfc3339_ms(MADE_MS), sent.items(), [call(usage="missing"), with_tokens])
    assert found.state == "arrived"
    assert found.call == with_tokens


@pytest.mark.parametrize(("usage", "status"), [("missing", "ok"), ("none", "error")])
def test_a_call_without_tokens_says_so(usage: str, status: str) -> None:
    found = first_call(KEY, rfc3339_ms(MADE_MS), [], [call(usage=usage, status=status)])
    assert found.state == "without_usage"
    assert found.remedy
    assert ("failed" in found.text) == (status == "error")


def test_what_repeats_another_call_is_no_first_call() -> None:
    assert state_of(Sent(), call(outcome="suppressed")) == "waiting"
