"""Connect a sender: what to paste into each, with the addresses of this very gateway; on demand
with a key of its own, and what became of its first call.

The key's secret is in the answer to the form only. That page then shows how the first call fares,
by the key's name.
"""

from typing import Any, Final

from aiohttp import web
from yarl import URL

from gateway.common.contract.errors import NotFound
from gateway.common.contract.scopes import SEND_AI_TELEMETRY
from gateway.fleet.senders.first_call import FirstCall, first_call
from gateway.operate import calls, keys, senders
from gateway.operate.parts import PARTS, running_of, stores_of
from gateway.operate.sender_addresses import UNKNOWN, Addresses, addresses, connection_at
from gateway.operate.site.keys import by_in, choices, store_of
from gateway.operate.site.operating import ask, change
from gateway.operate.site.rendering import html
from gateway.operate.site.shell import whole_page
from gateway.operate.site.view import Action, View, can_change, form_fields
from gateway.products.catalogue import SOURCES
from gateway.products.connecting import KEY, SNIPPET_IN
from gateway.products.otlp_senders import OTLP_SENDERS
from spool.clock import rfc3339_ms

LIST: Final = "/connect"
ONE: Final = LIST + "/{name}"


def asked_host(request: web.Request) -> str:
    """The name in Host, without its port."""
    return URL(f"http://{request.host}").host or UNKNOWN


async def load(request: web.Request) -> dict[str, Any]:
    return {
        "addresses": addresses(running_of(request), asked_host(request)),
        "gateways": [(source.name, source.title) for source in SOURCES.values()],
        "senders": [(sender.name, sender.title) for sender in OTLP_SENDERS.values()],
        "is_open": is_open(request),
    }


def is_open(request: web.Request) -> bool:
    """Whether senders need no key."""
    found = stores_of(request).keys
    return found is not None and not found.keys.ever_created()


async def load_one(request: web.Request) -> dict[str, Any]:
    """With `key` in its query, the name of a key that was made here: its first call, too."""
    context = await form_of(request)
    name, since = request.query.get("key"), request.query.get("since", "")
    return {**context, "first": await look(request, name, since) if name and can_change(request) else None}


async def form_of(request: web.Request) -> dict[str, Any]:
    name = request.match_info["name"]
    made = rfc3339_ms(request.app[PARTS].now_ms())[:19]
    offered = {"key_name": f"{name} {made}", "is_open": is_open(request), "operators": ()}
    if can_change(request) and stores_of(request).keys is not None:
        offered["operators"] = choices(request)["operators"]
    return {**connected(name, addresses(running_of(request), asked_host(request))), **offered, "first": None}


async def make_key(request: web.Request) -> web.Response:
    """Answers with the page whose snippets hold the new key."""
    form = form_fields(request)
    typed = {"name": form.get("name", "")}
    at = addresses(running_of(request), asked_host(request))
    connected(request.match_info["name"], at)
    body = {"name": typed["name"], "managed": [SEND_AI_TELEMETRY], "confirmed": "confirmed" in form, **by_in(form)}
    made = await change(request, keys.CREATE, store_of(request), body, typed)
    name, since = made["name"], made["created_at"]
    context = await form_of(request) | connected(request.match_info["name"], at, made["secret"])
    watched = URL(request.path).with_query({"key": name, "since": since})
    return html(whole_page(request, DETAIL, {**context, "first": await look(request, name, since)}, live=str(watched)))


async def look(request: web.Request, key: str, since: str) -> FirstCall:
    """What became of the first call under *key*."""
    stores = stores_of(request)
    settled = await ask(request, calls.LIST, stores.calls, query=[("key", key), ("limit", "20")])
    own = await ask(request, senders.LIST, stores.senders, query=[("key", key), ("limit", "100")])
    refused = await ask(request, senders.LIST, stores.senders, query=[("warning", "refused"), ("limit", "100")])
    return first_call(key, since, [*own["senders"], *refused["senders"]], settled["calls"])


def connected(name: str, at: Addresses, key: str = KEY) -> dict[str, Any]:
    """The template's context of one sender. Raises NotFound."""
    found = connection_at(name, at, key)
    if found is None:
        raise NotFound("no sender has this name")
    snippets = [{**each, "place": place_of(each)} for each in found["snippets"]]
    return {"sender": found, "snippets": snippets, "missing": found["missing"], "key": None if key != KEY else KEY}


def place_of(snippet: dict[str, str]) -> str:
    """Where the snippet belongs, in words."""
    return snippet["file"] or SNIPPET_IN.get(snippet["language"], "")


VIEW: Final = View(path=LIST, title="Connect", template="connect.html", load=load)
DETAIL: Final = View(
    path=ONE, title="Connect a sender", template="connect_one.html", load=load_one, in_navigation=False, below=LIST
)
VIEWS: Final = (VIEW, DETAIL)
ACTIONS: Final = (Action(path=ONE, title="Make a key for a sender", handler=make_key, view=DETAIL),)
