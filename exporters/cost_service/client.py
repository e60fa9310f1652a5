"""HTTP to the cost management service: one client for all lanes, with the service's own headers.

The key goes out as the bare header value (`exporters.http_client` states what else holds).
"""

import time
from collections.abc import Callable, Mapping

from exporters.answer_body import ERROR_BYTES
from exporters.base import Hold, Retry
from exporters.cost_service.preset import PRESETS, Preset
from exporters.destination import Destination
from exporters.http_client import Endpoint, HttpAnswer, HttpClient
from exporters.keyring import Keyring, OutboundKey

JSON = "application/json"


class CostServiceClient(HttpClient):
    """Make it inside a running loop; `close()` it once, after every
    exporter that shares it is done.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        keyring: Keyring,
        gateway_id: str,
        *,
        preset: Preset = PRESETS["document"],
        now_unix_s: Callable[[], float] = time.time,
        destination: Destination | None = None,
    ) -> None:
        super().__init__(endpoint, {"Accept": JSON, preset.gateway_id_header: gateway_id}, destination)
        self.gateway_id = gateway_id
        self.preset = preset
        self.keyring = keyring
        self.now_unix_s = now_unix_s

    async def post(
        self,
        path: str,
        body: bytes,
        key: OutboundKey,
        *,
        idempotency_key: str | None = None,
        batch_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        answer_bytes: int = ERROR_BYTES,
    ) -> HttpAnswer | Retry | Hold:
        """Post *body* once, JSON unless *headers* state another type, and read the body of a
        success up to *answer_bytes*.

        Retry or Hold when no answer came.
        """
        sent = {"Content-Type": JSON, **(headers or {})}
        if idempotency_key is not None:
            sent[self.preset.idempotency_header] = idempotency_key
        if batch_id is not None:
            sent[self.preset.batch_id_header] = batch_id
        return await self.request("POST", path, key, headers=sent, body=body, answer_bytes=answer_bytes)

    async def request(
        self,
        method: str,
        path: str,
        key: OutboundKey,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        answer_bytes: int = ERROR_BYTES,
    ) -> HttpAnswer | Retry | Hold:
        """`send`, under *key*."""
        sent = {**headers, self.preset.authorization_header: key.secret.reveal()}
        return await self.send(method, path, headers=sent, secrets=(key.secret,), body=body, answer_bytes=answer_bytes)
