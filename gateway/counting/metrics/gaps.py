"""Tokens by calls against tokens by metrics, per source and model: what spans
lost or sampling left out. Pure.

Metrics count every call, also where spans are sampled or dropped on their way. What they state
beyond the calls of the same source and model is in no bill, and shown as a gap:

1. where the model has calls, and metrics exceed them by more than `TOLERANCE`;
2. where the model has none, but its metrics were left out because the source reports calls: all of
   its calls are lost. Unless other models of the source have calls and no metrics, enough of them:
   then the two name one model differently. Metrics come minutes after the calls, so those calls
   state at least as many tokens.

Totals run from the start of this process; aggregates of an earlier time are left out, for
their calls were not seen.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypedDict

from gateway.common.contract.json_types import Count
from gateway.common.lru import forget_oldest
from gateway.counting.calls.models import short_model

TOLERANCE: Final = 0.05
MAX_TOTALS: Final = 4096


class Whose(NamedTuple):
    sender: str
    service_name: str
    model: str
    """In short form."""


class Gap(TypedDict):
    """One source and model whose metrics report more tokens than its calls."""

    sender: str
    """`key:` and the inbound key's name now, else `peer:` and the address."""
    service_name: str
    model: str
    tokens_by_calls: Count
    """0: all of its calls are lost."""
    tokens_by_metrics: Count


@dataclass(slots=True)
class _Tokens:
    by_calls: int = 0
    by_metrics: int = 0
    has_calls: bool = False
    """Also where they stated no tokens."""
    left_out: int = 0
    """Of `by_metrics`, what was not billed because the source reports calls."""


class Totals:
    """Bounded: the sources that were silent for longest go first."""

    def __init__(self, since_ms: int) -> None:
        self.since_ms = since_ms
        self._tokens: dict[Whose, _Tokens] = {}

    def add_calls(self, sender: str, service_name: str, model: str | None, tokens: int) -> None:
        sums = self._of(Whose(sender, service_name, short_model(model or "")))
        sums.by_calls += tokens
        sums.has_calls = True

    def add_metrics(
        self, sender: str, service_name: str, model: str | None, tokens: int, start_ms: int, *, is_left_out: bool
    ) -> None:
        """Tokens of one aggregate that began at *start_ms*; *is_left_out*: not billed,
        because the source reports calls.
        """
        if start_ms >= self.since_ms:
            sums = self._of(Whose(sender, service_name, short_model(model or "")))
            sums.by_metrics += tokens
            sums.left_out += tokens if is_left_out else 0

    def _of(self, whose: Whose) -> _Tokens:
        sums = self._tokens.pop(whose, None) or _Tokens()
        self._tokens[whose] = sums
        forget_oldest(self._tokens, MAX_TOTALS)
        return sums

    def gaps(self) -> list[Gap]:
        """Where the metrics of a source state more than its calls; the widest first."""
        found = [*self._partly_lost(), *self._wholly_lost()]
        return sorted(found, key=lambda gap: gap["tokens_by_calls"] - gap["tokens_by_metrics"])

    def _partly_lost(self) -> Iterator[Gap]:
        for whose, sums in self._tokens.items():
            if sums.by_calls and _exceeds(sums.by_metrics, sums.by_calls):
                yield _gap(whose, sums.by_calls, sums.by_metrics)

    def _wholly_lost(self) -> Iterator[Gap]:
        lost = {
            w: sums.left_out for w, sums in self._tokens.items() if w.model and sums.left_out and not sums.has_calls
        }
        stated = _by_source((w, sums.by_calls) for w, sums in self._tokens.items() if not sums.by_metrics)
        claimed = _by_source(lost.items())
        for whose, tokens in lost.items():
            if _exceeds(claimed[whose[:2]], stated[whose[:2]]):
                yield _gap(whose, 0, tokens)


def sender_shown(sender: str, key_names: Mapping[str, str]) -> str:
    """*sender* with its key's name; *key_names*: what counting knows each key by -> its name."""
    kind, _, key = sender.partition(":")
    return f"key:{key_names.get(key, key)}" if kind == "key" else sender


def _exceeds(metrics: int, calls: int) -> bool:
    return metrics > calls * (1 + TOLERANCE)


def _by_source(tokens: Iterable[tuple[Whose, int]]) -> Counter[tuple[str, str]]:
    sums: Counter[tuple[str, str]] = Counter()
    for whose, n in tokens:
        sums[whose.sender, whose.service_name] += n
    return sums


def _gap(whose: Whose, calls: int, metrics: int) -> Gap:
    return Gap(
        sender=whose.sender,
        service_name=whose.service_name,
        model=whose.model,
        tokens_by_calls=calls,
        tokens_by_metrics=metrics,
    )
