"""What an edge of a cell saw senders do, on its way to the owner, which keeps their list."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from gateway.common.contract.parsed_payload import Sent
from gateway.fleet.senders.activity import Senders
from gateway.fleet.senders.repeats import sent_with

By = tuple[str | None, str, str]
"""Name of the key, format, product."""
MAX_NOTES: Final = 1000
"""Of each kind of note between two rows of the journal; what is beyond is not noted."""


class SenderNotes(NamedTuple):
    """Plain types only."""

    sent: list[tuple[By, list[Sent]]]
    refused: list[tuple[By, str, int]]
    """With the reason, and the number of requests."""

    def put_into(self, senders: Senders) -> None:
        for by, services in self.sent:
            senders.sent(*by, services)
        for by, reason, requests in self.refused:
            senders.refused(*by, reason, requests)


class NotingSenders(Senders):
    """Keeps no list: what it is given waits for `take`."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self._sent: dict[By, list[Sent]] = {}
        self._refused: Counter[tuple[By, str]] = Counter()

    def sent(self, key: str | None, format_: str, product: str, services: Iterable[Sent]) -> None:
        by = key, format_, product
        if by in self._sent or len(self._sent) < MAX_NOTES:
            self._sent[by] = list(sent_with(self._sent.get(by, ()), list(services)))

    def refused(self, key: str | None, format_: str, product: str, reason: str, requests: int = 1) -> None:
        why = (key, format_, product), reason
        if why in self._refused or len(self._refused) < MAX_NOTES:
            self._refused[why] += requests

    def take(self) -> SenderNotes:
        """What was noted since the last call."""
        notes = SenderNotes(list(self._sent.items()), [(*why, n) for why, n in self._refused.items()])
        self._sent, self._refused = {}, Counter()
        return notes
