"""The webhooks of the configuration, with their secrets read."""

import os

from exporters.keyring import KeyFault, read_secret
from gateway.common.contract.errors import CannotStart
from gateway.config.model import BudgetOptions
from gateway.usage.budgets.delivering import DEFAULT
from gateway.usage.budgets.webhook import BadSecret, Webhook, signing_key


def webhooks_of(options: BudgetOptions) -> dict[str, Webhook]:
    """By name, `DEFAULT` for that of all budgets. Raises CannotStart."""
    named = dict(options.webhooks) | ({} if options.webhook is None else {DEFAULT: options.webhook})
    try:
        return {
            name: Webhook(each.url, signing_key(read_secret(each.secret, os.environ)), each.link_local)
            for name, each in named.items()
        }
    except (KeyFault, BadSecret) as fault:
        raise CannotStart(f"budgets: secret of a webhook: {fault}") from fault
