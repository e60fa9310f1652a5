"""What services reported, without the calls that they reported before: `calls` of a sender grows by
a resend as little as the usage does. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import add

import orjson

from gateway.common.contract.parsed_payload import Reported, Sent
from gateway.fleet.senders.activity import MAX_SERVICES, OTHER

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


def sent_in(reported: Sequence[Reported], size_bytes: int, items: int, *, is_new: bool = True) -> list[Sent]:
    """What was *reported* in one request of *items*; without services it is one that states none.
    Unless it *is_new*, it is more of the request before.
    """
    share = size_bytes if len(reported) <= 1 else size_bytes // len(reported)
    services = reported or ((None, items, 0, 0),)
    return [(service, int(is_new), n_items, calls, missing, share) for service, n_items, calls, missing in services]


def sent_with(sent: Sequence[Sent], more: Sequence[Sent]) -> Sequence[Sent]:
    """What services sent in a request, with the *more* of its next part; bounded as `Senders`."""
    sums = {each[0]: each for each in sent}
    for service, *figures in more:
        name = service if service in sums or len(sums) < MAX_SERVICES else OTHER
        requests, items, calls, missing, size_bytes = map(add, sums.get(name, (name, 0, 0, 0, 0, 0))[1:], figures)
        sums[name] = name, requests, items, calls, missing, size_bytes
    return list(sums.values())


def counted(records: Iterable[bytes]) -> Counts:
    calls, missing = Counter[str | None](), Counter[str | None]()
    for text in records:
        record = orjson.loads(text)
        service = record.get("attribution", {}).get("service_name")
        calls[service] += record["kind"] == "call"
        missing[service] += record.get("status") != "error" and record["usage"]["status"] == "missing"
    return calls, missing
