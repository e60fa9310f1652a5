"""What became of the first call of a sender that is being connected. Pure.

It follows from three answers of the API, in this order:

1. A call of its key settled: `arrived`, with the call; `without_usage` where no call has tokens.
2. Its last request was refused, or one without a known key was: `refused`, with the reason.
3. Requests of its key were taken: `settling` where calls were among them, else `no_calls`.
4. Else `waiting`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from gateway.fleet.senders.warning import OTHER_REMEDY, REFUSED_REMEDIES, USAGE_REMEDY

Json = Mapping[str, Any]
State = Literal["waiting", "refused", "no_calls", "settling", "without_usage", "arrived"]

WAITING_REMEDY: Final = (
    "make a call with the sender, and end a program that runs once: many send only when they end. If nothing arrives:"
    " does the sender run with these settings, and does it reach the address?"
)
NO_CALLS_REMEDY: Final = (
    "is the instrumentation of the AI library installed and turned on? `telemetry-gateway normalise --explain` shows"
    " what a payload holds"
)
TOKENS: Final = (
    ("input_tokens", "input"),
    ("cache_read_input_tokens", "of it from cache"),
    ("output_tokens", "output"),
)
USED: Final = ("reported", "partial", "estimated")
"""Statuses of usage with tokens."""


class FirstCall(NamedTuple):
    state: State
    text: str
    """One sentence."""
    remedy: str = ""
    """What to do; empty where nothing is to be done."""
    call: Json | None = None
    """As in `GET /v2/calls`; None before one settled."""

    def figures(self) -> list[tuple[str, str]]:
        """What is known of the call: name and text."""
        call = self.call
        if call is None:
            return []
        counts = ", ".join(f"{call[name]:,} {text}" for name, text in TOKENS if call[name] is not None)
        known = (
            ("model", " ".join(filter(None, (call["provider"], call["model"])))),
            ("tokens", counts or "unknown"),
            ("cost", cost_text(call["cost"])),
            ("sender", ", ".join(filter(None, (call["service"], call["source"])))),
            ("status", call["status"] or ""),
        )
        return [(name, text) for name, text in known if text]


def first_call(key: str, since: str, senders: Iterable[Json], calls: Sequence[Json]) -> FirstCall:
    """*key*: name of the sender's key. *since*: when it was made, as RFC 3339.

    *senders*: items of `GET /v2/senders`. *calls*: items of `GET /v2/calls` for this key.
    """
    if counted := [call for call in calls if call["outcome"] == "kept"]:
        return of_call(next((call for call in counted if call["usage"] in USED), counted[0]))
    known = list(senders)
    own = [sender for sender in known if sender["key"] == key]
    taken_at = max((sender["last_seen_at"] or "" for sender in own), default="")
    refusals = [
        refusal
        for sender in known
        for refusal in sender["refusals"]
        if sender["key"] in (key, None) and refusal["last_at"] >= max(since, taken_at)
    ]
    if refusals:
        return of_refusal(max(refusals, key=lambda refusal: str(refusal["last_at"])))
    return of_requests(own)


def of_call(call: Json) -> FirstCall:
    if call["usage"] in USED:
        return FirstCall("arrived", "The first call arrived and is counted.", call=call)
    if call["status"] == "error":
        remedy = "the call itself failed, so it used no tokens: make one that succeeds"
        return FirstCall("without_usage", "A call arrived, which failed.", remedy, call)
    return FirstCall("without_usage", "A call arrived without tokens, so it has no cost.", USAGE_REMEDY, call)


def of_refusal(refusal: Json) -> FirstCall:
    reason = refusal["reason"]
    text = f"A request arrived and was refused: {reason}."
    return FirstCall("refused", text, REFUSED_REMEDIES.get(reason, OTHER_REMEDY))


def of_requests(own: Sequence[Json]) -> FirstCall:
    """*own*: senders with the key."""
    if any(sender["calls"] for sender in own):
        return FirstCall("settling", "A call arrived. It is counted once late reports of it had time to arrive.")
    if items := sum(sender["items"] for sender in own):
        text = f"{items} items arrived in requests of this key, and none of them is an AI call."
        return FirstCall("no_calls", text, NO_CALLS_REMEDY)
    if any(sender["requests"] for sender in own):
        return FirstCall("no_calls", "Requests of this key arrived and are empty.", NO_CALLS_REMEDY)
    return FirstCall("waiting", "Nothing arrived yet.", WAITING_REMEDY)


def cost_text(cost: Json | None) -> str:
    if cost is None:
        return "unknown: without tokens or a price of the model"
    return f"{cost['amount']} {cost['currency']}, {cost['source']}"
