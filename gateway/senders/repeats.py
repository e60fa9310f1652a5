"""What services reported, without the calls that they reported before: `calls` of a sender grows by
a resend as little as the usage does. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import orjson

from gateway.contract.parsed_payload import Reported, Sent

Counts = tuple[Counter[str | None], Counter[str | None]]
"""By service: calls that were repeated, and of these those without their tokens."""


def reported_once(reported: Sequence[Reported], repeats: Sequence[bytes]) -> Sequence[Reported]:
    """*repeats*: the records, in JSON, of the calls that were reported before."""
    if not repeats:
        return reported
    calls, missing = counted(repeats)
    return [
        (service, items, max(0, n - calls[service]), max(0, lacking - missing[service]))
        for service, items, n, lacking in reported
    ]


def sent_once(sent: Sequence[Sent], repeats: Sequence[bytes]) -> Sequence[Sent]:
    """As `reported_once`, of several payloads."""
    if not repeats:
        return sent
    calls, missing = counted(repeats)
    return [
        (service, requests, items, max(0, n - calls[service]), max(0, lacking - missing[service]), size_bytes)
        for service, requests, items, n, lacking, size_bytes in sent
    ]


def counted(records: Iterable[bytes]) -> Counts:
    calls, missing = Counter[str | None](), Counter[str | None]()
    for text in records:
        record = orjson.loads(text)
        service = record.get("attribution", {}).get("service_name")
        calls[service] += record["kind"] == "call"
        missing[service] += record.get("status") != "error" and record["usage"]["status"] == "missing"
    return calls, missing
