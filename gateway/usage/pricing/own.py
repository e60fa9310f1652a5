"""The operator's price file: names that stand for other models, and prices of their own. Pure.

```yaml
aliases: {our-fast-model: openai/gpt-4o-mini}  # what senders call it: [provider/]model
prices:                                        # per million tokens; before the price list
  - {provider: openai, model: gpt-4o, input: "2.50", output: "10", cache_read: "1.25"}
  - {model: our-own-llama, input: "0.10", output: "0.10", currency: EUR}
```
"""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from gateway.common.contract.currencies import known_currency
from gateway.usage.pricing.rates import Rates, rate


class BadPriceFile(ValueError):
    """What is wrong with the price file, each fault with its place."""


def _decimal(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise ValueError(NO_DECIMAL)  # noqa: TRY004 pydantic reports ValueErrors
    try:
        return Decimal(value)
    except ArithmeticError:
        raise ValueError(NO_DECIMAL) from None


NO_DECIMAL = 'must be a decimal in quotes, such as "2.50"'
MAX_PRICE = 1_000_000_000

Price = Annotated[Decimal, BeforeValidator(_decimal), Field(ge=0, le=MAX_PRICE)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class OwnPrice(_Strict):
    """Per million tokens, in *currency*. A kind without a price costs what its whole does."""

    model: str
    provider: str | None = None
    """None for any provider."""
    currency: Annotated[str, AfterValidator(known_currency)] = "USD"
    input: Price
    output: Price
    cache_read: Price | None = None
    cache_creation: Price | None = None
    cache_creation_1h: Price | None = None
    reasoning: Price | None = None

    def rates(self) -> Rates:
        """The entry as rates; a kind without a price of its own takes the input's."""
        created = self.input if self.cache_creation is None else self.cache_creation
        return Rates(
            above_input_tokens=-1,
            input=rate(self.input),
            output=rate(self.output),
            cache_read=rate(self.input if self.cache_read is None else self.cache_read),
            cache_creation=rate(created),
            cache_creation_1h=rate(created if self.cache_creation_1h is None else self.cache_creation_1h),
            reasoning=rate(self.output if self.reasoning is None else self.reasoning),
        )


class _File(_Strict):
    aliases: dict[str, str] = Field(default_factory=dict)
    prices: list[OwnPrice] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class OwnPrices:
    aliases: dict[str, str] = field(default_factory=dict)
    """Lower-case name -> `provider/model` or a model."""
    rates: dict[tuple[str | None, str], tuple[Rates, str]] = field(default_factory=dict)
    """(provider or None, lower-case model) -> rates, currency."""

    def names(self, model: str) -> bool:
        """Whether it has a price or an alias for *model*, of whichever provider."""
        name = model.lower()
        return name in self.aliases or any(priced == name for _, priced in self.rates)


def parse_price_file(text: str) -> OwnPrices:
    """Raises BadPriceFile with all faults."""
    try:
        data: Any = yaml.safe_load(text) or {}
        if not isinstance(data, dict):
            raise ValueError("must hold `aliases`, `prices` or both")  # noqa: TRY004 reported below with the others
        file = _File.model_validate(data)
        rates = {(x.provider, x.model.lower()): ((x.rates()), x.currency) for x in file.prices}
    except yaml.YAMLError as error:
        raise BadPriceFile("not YAML") from error
    except ValidationError as error:
        faults = (
            f"{'.'.join(map(str, x['loc']))}: {x['msg'].removeprefix('Value error, ').replace('Input should be', 'must be')}"
            for x in error.errors(include_input=False)
        )
        raise BadPriceFile("; ".join(faults)) from error
    except RecursionError as error:
        raise BadPriceFile("nested too deep, or refers to itself") from error
    except ValueError as error:
        raise BadPriceFile(str(error)) from error
    return OwnPrices({name.lower(): model for name, model in file.aliases.items()}, rates)
