"""Estimates the cost of records that state none.

Precedence: 1. the cost that the sender reported; 2. the operator's own price; 3. the price list. A
call whose model has no price keeps `cost` empty, gets the flag `unpriced`, and is counted by model:
never a cost of 0.

Without the price list (`pricing.price_list: off`) a record without a price of the operator's is
flagged alike, for the next gateway to price, and not counted; the list, about 10 MiB, is then not
loaded.
"""

from collections import Counter
from copy import copy
from typing import NamedTuple

from gateway.common.contract.flags import UNPRICED
from gateway.usage.pricing.own import OwnPrices
from gateway.usage.pricing.rates import Rates, amount
from spool.record import Record, Usage

OWN_VERSION = "operator"
MAX_KNOWN = 10_000
"""(provider, model, tier) combinations kept; more than this means that someone makes names up."""
MAX_UNPRICED = 1_000
"""Models without a price that are counted by name: each is a label of a metric."""
OTHER_MODELS = "other models"
HOUR_MS = 3_600_000


class _Tariff(NamedTuple):
    tiers: tuple[Rates, ...]
    currency: str
    version: str


class Prices:
    """Prices with a cache of look-ups. Change *own* at any time with `use`."""

    def __init__(self, own: OwnPrices | None = None, *, has_list: bool = True) -> None:
        self._own = own or OwnPrices()
        self._has_list = has_list
        self._known: dict[tuple[object, ...], _Tariff | None] = {}
        self.changes = 0
        """How often the prices changed: what was computed with others does not hold any more."""
        self.unpriced: Counter[str] = Counter()
        """Model -> calls without a price."""

    def use(self, own: OwnPrices) -> None:
        """Use the operator's changed file for records from now on. Models that it names are no
        longer unpriced.
        """
        self._own = own
        self._known = {}
        self.changes += 1
        for model in [each for each in self.unpriced if own.names(each)]:
            del self.unpriced[model]

    def silent(self) -> "Prices":
        """The same prices, which count the calls without one by themselves."""
        made = copy(self)
        made.unpriced = Counter()
        return made

    def price(self, record: Record, at_ms: int) -> None:
        """Put the estimate on *record*, which is not yet kept, unless it has a cost or is not
        billed.
        """
        if record.get("cost") is not None or not record["billed"]:
            return
        usage = record["usage"]
        if usage.get("input_tokens") is None:
            return
        if usage.get("output_tokens") is None:
            if record["operation"] not in {"embeddings", "rerank"}:
                return
            usage = Usage(input_tokens=usage["input_tokens"], output_tokens=0)
        # Prices change with the day, a few with the hour.
        key = (
            record.get("provider"),  # a merged record leaves out what nobody knows
            record.get("response_model"),
            record.get("request_model"),
            record.get("service_tier"),
            record.get("batch"),
            at_ms // HOUR_MS,
        )
        try:
            tariff = self._known[key]
        except KeyError:
            tariff = self._look_up(key, record, at_ms)
        if tariff is None:
            record["flags"] = [*record["flags"], UNPRICED]
            if self._has_list:
                self.note_unpriced(record.get("response_model") or record.get("request_model") or "unknown", 1)
            return
        total = amount(
            tariff.tiers if record.get("kind") != "aggregate" else tiers_of_aggregate(tariff.tiers, record), usage
        )
        if total is not None:
            record["cost"] = {
                "amount": total,
                "currency": tariff.currency,
                "source": "estimated",
                "price_version": tariff.version,
            }

    def note_unpriced(self, model: str, calls: int) -> None:
        """*calls* of *model* have no price; names beyond the bound are counted together."""
        known = model in self.unpriced or len(self.unpriced) < MAX_UNPRICED
        self.unpriced[model if known else OTHER_MODELS] += calls

    def _look_up(self, key: tuple[object, ...], record: Record, at_ms: int) -> _Tariff | None:
        """The tariff for *record*, remembered under *key*."""
        known, tariff = self._known, self._find(record, at_ms)  # of one file, whatever another thread does
        if len(known) >= MAX_KNOWN:
            known.clear()
        known[key] = tariff
        return tariff

    def _find(self, record: Record, at_ms: int) -> _Tariff | None:
        provider = record.get("provider")
        for name in (record.get("response_model"), record.get("request_model")):
            if name:
                found = self._of_model(provider, name, record, at_ms)
                if found is not None:
                    return found
        return None

    def _of_model(self, provider: str | None, name: str, record: Record, at_ms: int) -> _Tariff | None:
        own = self._own.rates.get((provider, name.lower())) or self._own.rates.get((None, name.lower()))
        if own is not None:
            return _Tariff((own[0],), own[1], OWN_VERSION)
        alias = self._own.aliases.get(name.lower())
        if alias is not None:
            aliased, slash, model = alias.partition("/")
            own_provider, own_name = (aliased, model) if slash else (provider, aliased)
            own = self._own.rates.get((own_provider, own_name.lower()))
            if own is not None:
                return _Tariff((own[0],), own[1], OWN_VERSION)
            provider, name = own_provider, own_name
        if not self._has_list:
            return None
        from gateway.usage.pricing.catalogue import PRICE_VERSION, model_rates  # noqa: PLC0415 who goes without it need not load it

        tiers = model_rates(
            provider, name, tier=record.get("service_tier"), batch=bool(record.get("batch")), at_ms=at_ms
        )
        return None if tiers is None else _Tariff(tiers, "USD", PRICE_VERSION)


def tiers_of_aggregate(tiers: tuple[Rates, ...], record: Record) -> tuple[Rates, ...]:
    """The tier of an aggregate's average call, since tiers go by the input of one; the lowest where
    it states no number of calls.
    """
    calls, input_tokens = record.get("calls"), record["usage"].get("input_tokens")
    average = input_tokens // calls if calls and input_tokens else -1
    return ([tiers[0], *(tier for tier in tiers[1:] if average > tier.above_input_tokens)][-1],)
