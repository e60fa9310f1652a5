"""What is wrong with a sender, and what to do about it. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from gateway.common.contract.scopes import (
    DROP_SCOPE,
    ENROLL_SCOPE,
    EVENT_SCOPE,
    HEARTBEAT_SCOPE,
    INGEST_SCOPE,
    UNIT_COST_SCOPE,
)
from gateway.fleet.senders.activity import Activity

Code = Literal["silent", "missing_usage", "refused"]

KNOWN_REQUESTS: Final = 10
"""Before a sender's silence means anything."""
SILENT_LEAST_MS: Final = 3_600_000
SILENT_TIMES: Final = 2
"""Silent for this many times its longest silence before."""
CALLS_LEAST: Final = 20
MISSING_SHARE: Final = 0.05
REFUSED_WITHIN_MS: Final = 3_600_000

USAGE_REMEDY: Final = (
    "have it report tokens. For streams most clients need an option (stream_options.include_usage);"
    " docs/senders has each sender's settings"
)
SILENT_REMEDY: Final = "check that it still runs, and that its endpoint and key are this gateway's"
REFUSED_REMEDIES: Final[Mapping[str, str]] = {
    "no_key": "give it the header Authorization with a key of `keys create`",
    "key_unknown_or_disabled": "check with `keys list` that its key is there and enabled",
    "not_found": "correct its path: `sources` lists those that there are",
    "keys_differ": "it sends two keys. Remove one; a proxy may add one",
    "over_quota_requests": "raise the key's requests_per_minute, or have it send larger batches",
    "over_quota_bytes": "raise the key's bytes_per_minute",
    "too_large": "have it send smaller batches, or raise limits.max_body_bytes",
    "bad_payload": "its data cannot be read. Compare its format with the path that it posts to",
    "unsupported_media": "correct its Content-Type",
    "not_signed": "set the signing secret of the source on both sides",
    "signature_wrong": "compare the signing secrets of both sides",
    "spool_full": "make room: docs/operations.md, `When the spool or the disk is full`",
    "device_blocked": "`devices unblock`, if it should send",
}
SCOPES: Final[Mapping[str, tuple[str, ...]]] = {
    "usage_events": (EVENT_SCOPE,),
    "unit_cost": (UNIT_COST_SCOPE,),
    "devices": (ENROLL_SCOPE, HEARTBEAT_SCOPE),
    "billing": (DROP_SCOPE,),
}
"""Format -> the scopes that its senders need; of any other, that of AI telemetry."""
OTHER_REMEDY: Final = "docs/operations.md, `When nothing arrives`"


class Warned(NamedTuple):
    code: Code
    text: str
    remedy: str


def warnings_of(activity: Activity, format_: str, now_ms: int) -> Iterator[Warned]:
    """In the order of their weight; *format_* is the sender's."""
    yield from refused(activity, format_, now_ms)
    if is_silent(activity, now_ms):
        hours = (now_ms - activity.last_ms) / 3_600_000
        longest = activity.longest_gap_ms / 3_600_000
        yield Warned("silent", f"silent for {hours:.1f} h; its longest silence was {longest:.1f} h", SILENT_REMEDY)
    if activity.calls >= CALLS_LEAST and activity.without_usage > MISSING_SHARE * activity.calls:
        percent = 100 * activity.without_usage / activity.calls
        yield Warned("missing_usage", f"{percent:.0f} % of its calls report no tokens", USAGE_REMEDY)


def refused(activity: Activity, format_: str, now_ms: int) -> Iterator[Warned]:
    """One for each reason of the last hour."""
    for reason, refusal in activity.refusals.items():
        if now_ms - refusal.last_ms <= REFUSED_WITHIN_MS:
            text = f"requests are refused: {reason}"
            yield Warned("refused", text, refused_remedy(reason, format_))


def refused_remedy(reason: str, format_: str) -> str:
    """What to do about requests in *format_* that are refused for *reason*."""
    if reason == "scope_missing":
        scopes = SCOPES.get(format_, (INGEST_SCOPE,))
        options = " ".join(f"--scope {scope}" for scope in scopes)
        return f"give its key {' and '.join(scopes)} (`keys edit {options}`, with the scopes that it has already)"
    return REFUSED_REMEDIES.get(reason, OTHER_REMEDY)


def is_silent(activity: Activity, now_ms: int) -> bool:
    """Whether it sends nothing for clearly longer than it ever did."""
    usual_ms = max(SILENT_LEAST_MS, SILENT_TIMES * activity.longest_gap_ms)
    return activity.requests >= KNOWN_REQUESTS and now_ms - activity.last_ms > usual_ms
