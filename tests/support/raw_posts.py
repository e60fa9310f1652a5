"""Bodies for a gateway over HTTP or gRPC, as they are."""

from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import grpc

from tests.support.gateway_process import GatewayProcess
from tests.support.grpc_calls import LOGS, METRICS, TRACES

ANSWER_S = 120.0
METHODS = {"/v1/traces": TRACES, "/v1/logs": LOGS, "/v1/metrics": METRICS}
MAX_MESSAGE_BYTES = 128 * 1024 * 1024
HTTP_STATUS = {"OK": 200, "INVALID_ARGUMENT": 400, "RESOURCE_EXHAUSTED": 413, "UNAVAILABLE": 503}


class Sent(NamedTuple):
    path: str
    body: bytes
    """As it goes over the wire."""
    headers: Mapping[str, str]
    plain: bytes
    """What the gateway makes of *body*."""
    method: str = "POST"


class Posts:
    """One connection for each body."""

    def __init__(self, gateway: GatewayProcess, transport: str) -> None:
        self._gateway = gateway
        self.post = self._over_grpc if transport == "grpc" else self._over_http

    def _over_http(self, sent: Sent) -> int:
        """The status of the answer."""
        connection = HTTPConnection(urlsplit(self._gateway.intake_url).netloc, timeout=ANSWER_S)
        try:
            connection.request(sent.method, sent.path, sent.body, dict(sent.headers))
            answer = connection.getresponse()
            answer.read()
        except (BrokenPipeError, ConnectionResetError):
            return 400  # it was answered before it was sent whole
        finally:
            connection.close()
        return answer.status

    def _over_grpc(self, sent: Sent) -> int:
        """The same of HTTP."""
        options = [("grpc.max_send_message_length", MAX_MESSAGE_BYTES)]
        with grpc.insecure_channel(self._gateway.grpc_target, options) as channel:
            call: Any = channel.unary_unary(METHODS[sent.path])
            is_zipped = "Content-Encoding" in sent.headers
            try:
                call(sent.plain, timeout=ANSWER_S, compression=grpc.Compression.Gzip if is_zipped else None)
            except grpc.RpcError as error:
                found: Any = error
                return HTTP_STATUS.get(found.code().name, 500)
        return 200
