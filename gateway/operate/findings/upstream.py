"""What to do about an upstream that does not take what it is sent. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from exporters.cost_service.answers import NOT_UNDERSTOOD
from gateway.common.contract.scopes import CATALOGUE

_SCOPES: Final = frozenset(scope.name for scope in CATALOGUE)
_SCOPE_SHAPE: Final = re.compile(r"[\w.-]+:[\w.-]+")
_FAILING: Final = (
    "the upstream was reached and fails on its own side: look at its log and state, or ask who runs it; keys and address"
    " are not the cause, and nothing is lost meanwhile"
)
_NO_TLS: Final = (
    "upstream.base_url says https, and no TLS is spoken there: correct the port, have TLS put in front of it, or write"
    " http:// where it is on this machine"
)
UPSTREAM: Final[Mapping[str, str]] = {
    "the proxy": "correct upstream.proxy, and see whether the proxy runs and lets this machine through",
    "HTTP 401": "put a key that the service knows in its place (upstream.keys): it may be mistyped, disabled or deleted there",
    "HTTP 403": "have the key given SCOPE at the service, or name another key that has it",
    "lacks the scope": (
        "have that key given SCOPE at the service, or name another key that has it; the lane tries again by itself"
    ),
    "HTTP 404": "correct upstream.base_url, and upstream.preset",
    "HTTP 3": "set upstream.base_url to the address that it redirects to: the gateway follows no redirects",
    "HTTP 5": _FAILING,
    "secret": "put the secret where upstream.keys names it",
    "certificate": "name the authority that signed it in upstream.ca_file",
    "no TLS with": _NO_TLS,
    "ServerDisconnected": "see whether another protocol is spoken there, such as TLS where upstream.base_url says http",
    "ClientOSError": "see whether another protocol is spoken there, such as TLS where upstream.base_url says http",
    NOT_UNDERSTOOD: "correct upstream.base_url: a proxy, a login or another service answers there",
    "resolved": "correct the host of upstream.base_url, or the machine's DNS",
    "Connection refused": "see whether the upstream runs, and whether upstream.base_url has its port",
}
"""Words of a reason -> what to do; the first that it holds."""
SILENT: Final = "correct upstream.base_url, and see whether the upstream runs, and a firewall or proxy lies between"


def upstream_remedy(reason: str, needed: Sequence[str] = ()) -> str | None:
    """None for a reason of another kind. *needed*: the scopes, where *reason* names none."""
    for words, remedy in UPSTREAM.items():
        if words in reason:
            return remedy.replace("SCOPE", scopes_text(scopes_in(reason) or needed))
    return None


def scopes_in(text: str) -> list[str]:
    """The scopes of the catalogue that *text* names."""
    return [name for name in dict.fromkeys(_SCOPE_SHAPE.findall(text)) if name in _SCOPES]


def scopes_text(scopes: Sequence[str]) -> str:
    return " and ".join(scopes) if scopes else "the scope"
