"""What the receiver serves: a route is a path, the scope it asks for, how it
answers, and whom it calls. Pure.

A new sender's format is one more Route; nothing else in the web code changes.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

from aiohttp import web

from gateway.common.contract.errors import NotFound
from gateway.common.contract.intake import Receipt, Sender, TakenTogether
from gateway.common.suggestions import did_you_mean
from gateway.serve.answers import ErrorAnswer
from gateway.serve.authenticator import Authenticator, Headers

POST_ONLY = frozenset({"POST"})

ShownIn = Callable[[web.BaseRequest, str], list[str]]
"""(request, the route's parameter or "") -> every key that the request shows."""


class Manner(Protocol):
    """How one family of formats reads Content-Type and words its answers.

    An encoding is its own word for it.
    """

    def media(self, content_type: str) -> str:
        """The request's encoding. Raises UnsupportedMedia."""

    def success(self, request: web.BaseRequest, media: str, receipt: Receipt) -> web.StreamResponse:
        """Everything that was valid is on disk."""

    def failure(self, headers: Headers, answer: ErrorAnswer, message: str, kind: str) -> web.Response:
        """An error, in the encoding that the request's *headers* name if that can be reported."""


@dataclass(frozen=True, slots=True)
class BodyRoute:
    """The receiver admits its requests and reads their bodies whole; then it calls `call`."""

    path: str
    """`/v1/traces`, or with one `{parameter}` segment: `/v1/devices/{device_id}/heartbeat`."""
    scope: str
    manner: Manner
    call: Callable[[bytes, str, Sender, str], Awaitable[Receipt]]
    """(plain body, encoding, sender, the parameter or "") -> what became of it, once on disk."""
    methods: AbstractSet[str] = POST_ONLY
    takes_any_type: bool = False
    """Whether any Content-Type is taken; pages of origins that are not allowed are then refused."""
    shown: ShownIn | None = None
    """None where a key counts only in the headers that all routes take."""
    call_together: Callable[[Sequence[bytes], Sender], TakenTogether | None] | None = None
    """As `call`, of plain protobuf bodies without a parameter that came at the same time
    (`Intake.traces_together`); None where each is taken by itself."""


@dataclass(frozen=True, slots=True)
class RequestRoute:
    """What differs in more than that."""

    path: str
    scope: str
    manner: Manner
    begin: Callable[..., Any]
    """(the receiver, request, this route, the parameter or "") -> its
    `gateway.serve.http.http_exchange.HttpExchange`."""
    methods: AbstractSet[str]
    gate: Authenticator | None = None
    """Admits in place of the receiver's, and charges no quota; None for that of all routes."""


Route = BodyRoute | RequestRoute


MAX_PARAMETER_CHARACTERS = 256
SOURCES_PATH = "/v1/sources/"


class RouteTable:
    """Finds a route by the raw request target."""

    def __init__(self, routes: Sequence[Route], base_path: str = "") -> None:
        self.routes = tuple(routes)
        self._base = base = base_path.rstrip("/")
        self._fixed: Mapping[str, Route] = {base + r.path: r for r in reversed(routes) if "{" not in r.path}
        self._patterns = [(pattern_of(base + r.path), r) for r in routes if "{" in r.path]

    def find(self, target: str) -> tuple[Route, str]:
        """The first route at the path, and its parameter. Query and trailing slash do not matter.
        Raises NotFound.
        """
        route = self._fixed.get(target)
        if route is not None:
            return route, ""
        path = plain_path(target)
        route = self._fixed.get(path)
        if route is not None:
            return route, ""
        for pattern, candidate in self._patterns:
            if match := pattern.fullmatch(path):
                parameter = unquote(match[1])
                if len(parameter) <= MAX_PARAMETER_CHARACTERS:
                    return candidate, parameter
        raise NotFound(
            f"no such path{self._meant(path)}; known below {self._base or '/'} are v1/traces, v1/logs and v1/metrics (OTLP), "
            "v1/events, v1/unit-cost, v1/unit-cost/{stream}, v1/unit-cost/{kind}/{stream}/{operation}, v1/devices, v1/devices/{device_id}/heartbeat, "
            "v1/devices/{device_id}/ping and v1/sources/{name}"
        )

    def beside(self, route: Route, method: str) -> Route | None:
        """The route at the same path that takes *method*; None where there is none."""
        return next((each for each in self.routes if each.path == route.path and method in each.methods), None)

    def methods(self, route: Route) -> list[str]:
        """Every method that its path takes."""
        return sorted({method for each in self.routes if each.path == route.path for method in each.methods})

    def _meant(self, path: str) -> str:
        """The source that a path of none was most likely meant for; nothing where there is none."""
        below = self._base + SOURCES_PATH
        if not path.startswith(below):
            return ""
        names = dict.fromkeys(segment_after(below, known) for known in self._fixed if known.startswith(below))
        return did_you_mean(segment_after(below, path), names)


def segment_after(before: str, path: str) -> str:
    """The segment of *path* that follows *before*, with which it begins."""
    return path.removeprefix(before).partition("/")[0]


def plain_path(target: str) -> str:
    """The target without scheme and host (a proxy's absolute form), query,
    doubled and trailing slashes.
    """
    path = target.partition("?")[0].partition("#")[0]
    if not path.startswith("/"):
        path = "/" + path.partition("://")[2].partition("/")[2]
    return re.sub("/{2,}", "/", path).rstrip("/")


def pattern_of(path: str) -> re.Pattern[str]:
    before, _, after = path.partition("{")
    return re.compile(re.escape(before) + "([^/]+)" + re.escape(after.partition("}")[2]))
