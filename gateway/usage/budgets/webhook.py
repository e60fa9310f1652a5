"""A webhook's request: body and signature, as Standard Webhooks has them. Pure.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import binascii
import hmac
from dataclasses import dataclass
from typing import Any, Final

import orjson

from exporters.secret import Secret
from gateway.usage.budgets.budget import Budget, ratio, time_of
from gateway.usage.budgets.home import Alert
from gateway.usage.sums.figures import money_text
from spool.clock import rfc3339_ms

EVENT: Final = "budget.threshold_crossed"
_ENCODED: Final = "whsec_"
_LEAST_BYTES: Final = 24


class BadSecret(ValueError):
    """A secret that cannot sign, in words for the operator; it is not quoted."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where alerts are posted to, ready to be called."""

    url: Secret
    key: bytes
    link_local: bool = False
    """Whether it may be at an address of `addresses.py`."""

    def __repr__(self) -> str:
        return "Webhook(***)"


def signing_key(secret: Secret) -> bytes:
    """The bytes that sign: of `whsec_…` what is encoded behind it, else the text itself. Raises
    BadSecret.
    """
    text = secret.reveal()
    try:
        key = (
            base64.b64decode(text.removeprefix(_ENCODED), validate=True) if text.startswith(_ENCODED) else text.encode()
        )
    except binascii.Error:
        raise BadSecret("what follows whsec_ must be base64") from None
    if len(key) < _LEAST_BYTES:
        raise BadSecret(f"a secret of {_LEAST_BYTES} bytes or more is needed")
    return key


def headers_of(webhook: Webhook, alert_id: str, body: bytes, now_s: int) -> dict[str, str]:
    """The id is the alert's on every try; the signature covers it, the time and the body."""
    signed = b".".join((alert_id.encode(), str(now_s).encode(), body))
    signature = base64.b64encode(hmac.digest(webhook.key, signed, "sha256")).decode()
    return {
        "Content-Type": "application/json",
        "webhook-id": alert_id,
        "webhook-timestamp": str(now_s),
        "webhook-signature": f"v1,{signature}",
    }


def body_of(budget: Budget, alert: Alert) -> bytes:
    """Names of the budget and figures; its filter, which may name people, is not in it."""
    figure = alert.spent if alert.of == "actual" else alert.forecast
    data: dict[str, Any] = {
        "alert_id": alert.alert_id,
        "budget_id": budget.budget_id,
        "budget_name": budget.name,
        "threshold": {"of": alert.of, "percent": alert.percent},
        "period": {"kind": alert.period, "start": time_of(alert.span.start_ms), "end": time_of(alert.span.end_ms)},
        "amount": money_text(alert.amount),
        "currency": alert.currency,
        "spent": money_text(alert.spent),
        "forecast": None if alert.forecast is None else money_text(alert.forecast),
        "ratio": None if figure is None else ratio(figure, alert.amount),
    }
    return orjson.dumps({"type": EVENT, "timestamp": rfc3339_ms(alert.at_ms), "data": data})
