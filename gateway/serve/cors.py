"""Cross-origin requests: pages that post OTLP/JSON from a browser, from the origins that the
operator names; default none.
"""

from collections.abc import Set as AbstractSet
from http import HTTPStatus
from typing import Final

from aiohttp import web

from gateway.common.contract.errors import Forbidden
from gateway.serve.ready_response import Ready

ALLOWED_HEADERS: Final = (
    "content-type, content-encoding, authorization, x-api-key, traceparent, tracestate, user-agent, x-requested-with"
)
EXPOSED_HEADERS: Final = "retry-after"
MAX_AGE_S = 7200

ANY = "*"


class Cors:
    def __init__(self, origins: AbstractSet[str] = frozenset()) -> None:
        self.origins = origins
        """Such as `https://app.example`; `*` allows every origin."""

    def is_preflight(self, request: web.BaseRequest) -> bool:
        return "Origin" in request.headers and "Access-Control-Request-Method" in request.headers

    def preflight(self, request: web.BaseRequest) -> web.Response:
        """204; an origin that is not allowed learns nothing from it, and
        its browser sends nothing.
        """
        response = web.Response(status=HTTPStatus.NO_CONTENT, headers={"Vary": "Origin"})
        if self.is_allowed(request):
            self.allow(request, response)
            response.headers["Access-Control-Allow-Methods"] = "POST"
            response.headers["Access-Control-Allow-Headers"] = ALLOWED_HEADERS
            response.headers["Access-Control-Max-Age"] = str(MAX_AGE_S)
        return response

    def allowing(self, request: web.BaseRequest, response: web.StreamResponse) -> web.StreamResponse:
        """*response*, or the same in a form that the page of an allowed origin may read."""
        if self.origins and self.is_allowed(request):
            if isinstance(response, Ready):
                response = response.ordinary()
            self.allow(request, response)
        return response

    def allow(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Let the page of an allowed origin read *response*.

        No credentials: keys travel in a header of their own.
        """
        if self.is_allowed(request):
            response.headers["Access-Control-Allow-Origin"] = request.headers["Origin"]
            response.headers["Access-Control-Expose-Headers"] = EXPOSED_HEADERS
            response.headers["Vary"] = "Origin"

    def refuse_pages(self, request: web.BaseRequest) -> None:
        """For what takes any Content-Type, which a page may post without a preflight. Raises
        Forbidden where the request comes from a page of an origin that is not allowed.
        """
        if "Origin" in request.headers and not self.is_allowed(request):
            raise Forbidden(
                "pages of this origin may not post here: name it in http.cors_origins", reason="foreign_origin"
            )

    def is_allowed(self, request: web.BaseRequest) -> bool:
        origin = request.headers.get("Origin")
        return origin is not None and (origin in self.origins or ANY in self.origins)
