"""Whether the values of a filter of usage exist, and which are near those that do not."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from gateway.cli.requests import USAGE, ask
from gateway.common.printable import harmless
from gateway.config.model import Config
from gateway.operate import usage
from gateway.usage.sums.bounds import MAX_GROUPS
from gateway.usage.sums.request import is_dimension
from gateway.usage.sums.tags import PARAMETER, filter_in, parameter_of

MAX_NEAR: Final = 3
NEAR: Final = 0.5
"""Of 1, how much a name must be alike to be listed."""

Pairs = Sequence[tuple[str, str]]


async def unknown_values(config: Config, query: Pairs) -> list[str]:
    """A sentence for each value that *query* filters by and no call of its time has. Raises
    ClickException.
    """
    within = [pair for pair in query if pair[0] in {"from", "to", "range", "time_zone"}]
    filters = [filter_in(*pair) for pair in query if is_dimension(pair[0]) or pair[0] == PARAMETER]
    return [
        unknown_text(name, value, await _names(config, within, name))
        for name, value in dict.fromkeys(filters)
        if not await _is_known(config, within, name, value)
    ]


async def _is_known(config: Config, within: Pairs, dimension: str, name: str) -> bool:
    asked = [*within, parameter_of(dimension, name), ("group_by", dimension), ("limit", "1")]
    answer = await ask(config, USAGE, usage.SHOW, query=asked)
    return bool(answer["usage"])


async def _names(config: Config, within: Pairs, dimension: str) -> list[str]:
    """The names with most calls."""
    order = [("sort_key", "calls"), ("limit", str(MAX_GROUPS))]
    answer = await ask(config, USAGE, usage.SHOW, query=[*within, ("group_by", dimension), *order])
    return [row[dimension] for row in answer["usage"] if row[dimension] is not None]


def unknown_text(dimension: str, value: str, names: Sequence[str]) -> str:
    """*names*: those that there are, the most used first."""
    text = f"no call of this time has {dimension}={harmless(value)}"
    if not names:
        return f"{text}; none has a {dimension} at all"
    near = nearest_names(value, names)
    listed = ", ".join(map(harmless, near or names[:MAX_NEAR]))
    return f"{text}; {'near' if near else 'there are'}: {listed}"


def nearest_names(value: str, names: Sequence[str]) -> list[str]:
    """Up to `MAX_NEAR`: those that hold *value*, then those that are spelt alike; case does not
    matter.
    """
    lowered = {name: name.lower() for name in names}
    holding = [name for name, low in lowered.items() if value.lower() in low]
    alike = get_close_matches(value.lower(), lowered.values(), n=MAX_NEAR, cutoff=NEAR)
    close = [name for match in alike for name, low in lowered.items() if low == match]
    return list(dict.fromkeys((*holding, *close)))[:MAX_NEAR]
