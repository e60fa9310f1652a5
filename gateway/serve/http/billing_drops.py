"""Billing drops of senders, on the service's own paths and in its words (wire contract 6.5): this
gateway keeps each and forwards it (`gateway.usage.billing.relay`).
"""

from collections.abc import Awaitable
from http import HTTPStatus
from typing import Final

import orjson
from aiohttp import web

from gateway.common.contract.intake import Receipt, Sender
from gateway.common.contract.scopes import DROP_SCOPE, VALIDATE_DROP_SCOPE
from gateway.serve.http.forwarded import ServiceManner, json_response
from gateway.serve.routes import BodyRoute, Route
from gateway.usage.billing.relay import BillingRelay

BASE: Final = "/v2/connections/billing/external"
FORMAT: Final = "billing"
"""As the list of senders names it."""


def billing_drop_routes(relay: BillingRelay) -> list[Route]:
    def validate(body: bytes, media: str, sender: Sender, parameter: str) -> Awaitable[Receipt]:
        return relay.validate(body)

    async def drop(body: bytes, media: str, sender: Sender, connection: str) -> Receipt:
        return (await relay.take(connection, body, sender)).noted(FORMAT, len(body))

    manner = ServiceManner(of_connection)
    return [
        BodyRoute(f"{BASE}/validate_billing_drop", VALIDATE_DROP_SCOPE, manner, validate),
        BodyRoute(f"{BASE}/{{connection_id}}/billing_drops", DROP_SCOPE, manner, drop),
    ]


def of_connection(receipt: Receipt) -> web.Response:
    """200 `{"connection": {"drop_id", "month", "row_count", "state"}}`; of a drop that was only
    checked, without the id and the state.
    """
    return json_response(orjson.dumps({"connection": dict(receipt.answer)}), HTTPStatus.OK)
