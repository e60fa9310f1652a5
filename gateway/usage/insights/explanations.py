"""What each kind of found insight means, for the page: when it is raised, when it is over, and what
to do. Pure.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Explanation(NamedTuple):
    name: str
    """As docs/insights.md has it."""
    raised: str
    resolved: str
    remedy: str


EXPLANATIONS: Final[Mapping[str, Explanation]] = {
    "spend_spike": Explanation(
        "spend spike",
        "the last 24 hours cost twice a usual day, or one hour of them four times that hour",
        "the unusual hours are more than a day ago",
        "Group the usage by team and model for those hours. Usual causes are a loop, a retry without a limit, a"
        " longer prompt or a larger model. If it is intended, set it to ignored.",
    ),
    "token_spike": Explanation(
        "token spike",
        "the last 24 hours used twice the tokens of a usual day, or one hour of them four times, and the"
        " spend does not show it (no price is known)",
        "the unusual hours are more than a day ago",
        "Group the usage by team and model for those hours, and give the model a price (pricing.file).",
    ),
    "new_model": Explanation(
        "new model",
        "a model is called for the first time in 30 days",
        "a week after its first call",
        "Check that it is allowed, priced and budgeted.",
    ),
    "budget_crossed": Explanation(
        "budget crossed",
        "a budget's threshold is crossed by what was spent, or by the forecast",
        "the budget's period is over, or after a change of the budget the threshold is no longer crossed",
        "Look at the usage of the period by team and model, with the budget's filter. If it is intended, raise the amount.",
    ),
    "no_price": Explanation(
        "unpriced model",
        "the tokens of calls are known, their price is not",
        "for an hour all its calls had a price, or for a week there was no such call",
        "Add the model to your price file (pricing.file), or as an alias of a known model. The page Prices writes the lines.",
    ),
    "cache_share_falling": Explanation(
        "falling cache reads",
        "the share of a model's input that is read from a cache fell to half of that of the week before",
        "the share is back, or the week before has the same share",
        "Look for a prompt whose beginning changed, a cache that is switched off, or traffic to another region.",
    ),
    "missing_usage_rising": Explanation(
        "missing usage",
        "a larger share of a service's calls than before has no tokens",
        "the share is back, or there were no calls for a day",
        "Look for streams that are read without their last chunk (stream_options.include_usage), or an"
        " instrumentation that was updated.",
    ),
    "calls_lost": Explanation(
        "lost calls",
        "metrics report more tokens than the calls of their source",
        "they agree again",
        "Spans are sampled, or an exporter's queue overflows. Bill the service from its metrics with"
        " counting.prefer, or send every span.",
    ),
    "ai_without_calls": Explanation(
        "AI without calls",
        "for 2 minutes a service reports agents and steps, and neither it nor anything else in its traces reports a call"
        " of a model",
        "calls or usage metrics of the service arrive, or there were no such spans for a day",
        "Also turn on the instrumentation of the model client, in addition to the agent framework's.",
    ),
    "basis_contradicted": Explanation(
        "contradictory input counts",
        "calls of one library and version prove both that its input tokens include the cached ones and that they exclude them",
        "the gateway remembers only one of the two",
        "Look for a setting or a fork of the library that differs between its senders. A sender whose own calls prove"
        " one of the two is counted by it. All others are taken to include the cached tokens, which cannot overstate.",
    ),
    "basis_assumed": Explanation(
        "assumed input counts",
        "nothing shows whether the input tokens of a library include the cached ones, and 20 of its calls have cached tokens",
        "a call of the library shows it",
        "Have the sender also report the total of tokens or the provider's own usage object, or also turn on the"
        " instrumentation of the provider's SDK. One call that shows it is enough.",
    ),
    "error_burst": Explanation(
        "error burst",
        "a quarter of the calls of a provider or service fail, and that is three times the usual share",
        "there was no burst for two hours",
        "If a provider fails, check its status page and your limits. If a single service fails, check its key and its last"
        " deployment.",
    ),
    "held_lane": Explanation(
        "held lane",
        "a lane with records to send is held or off for 3 minutes, or only retries for 15",
        "the lane delivers again",
        "The title has the reason. Nothing is lost while the lane is held, up to spool.max_age.",
    ),
    "dead_letters": Explanation(
        "dead letters",
        "the upstream refused records, and they are kept",
        "they were requeued, dropped or expired",
        "Look at them under Dead letters. When the cause is gone, replay them, or drop them.",
    ),
    "silent_device": Explanation(
        "silent device",
        "a device that was in touch for an hour or more has been silent for 3 days",
        "it is back, or 30 days passed",
        "It is switched off, or its sender was removed.",
    ),
}
"""By the detector (`cause`)."""
