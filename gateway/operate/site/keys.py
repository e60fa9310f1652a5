"""Keys: the list, a new one whose secret is shown once, and each one: edit, disable, enable,
delete.

A secret stands in the answer to the form that made its key, and in no other page, address or line
of the log.
"""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from gateway.access.limits import NO_LIMITS
from gateway.access.record import DESCRIPTION_MAX_CHARS, NAME_MAX_CHARS, NAME_MIN_CHARS
from gateway.common.contract.scopes import CATALOGUE, USE_CASES, Scope
from gateway.operate import keys as operations
from gateway.operate.keys import KeyRequests, sender_json
from gateway.operate.parts import BY, stores_of
from gateway.operate.role import Role
from gateway.operate.site.key_form import body_of, typed_of, values_like, values_of
from gateway.operate.site.listing import listing
from gateway.operate.site.operating import ask, change, present
from gateway.operate.site.rendering import html
from gateway.operate.site.shell import whole_page
from gateway.operate.site.usage_question import usage_of
from gateway.operate.site.view import Action, View, form_fields, posted, see

LIST: Final = "/keys"
NEW: Final = LIST + "/new"
ONE: Final = LIST + "/{id}"
FILTERS: Final = ("status", "mode", "scope")
LENGTHS: Final = {"name_min": NAME_MIN_CHARS, "name_max": NAME_MAX_CHARS, "description_max": DESCRIPTION_MAX_CHARS}

EMPTY: Final[Mapping[str, Any]] = {
    "name": "", "description": "", "managed": ["send-ai-telemetry"], "labels": {}, "limits": NO_LIMITS.as_json(),
}  # fmt: skip
"""What the form of a new key holds: most keys are for senders of AI telemetry."""


async def load(request: web.Request) -> dict[str, Any]:
    store = store_of(request)
    found = listing(LIST, await ask(request, operations.LIST, store), shown=FILTERS)
    return {"list": found, "use_cases": USE_CASES, "is_open": not store.keys.ever_created()}


async def load_new(request: web.Request) -> dict[str, Any]:
    store = store_of(request)
    senders = [] if store.keys.ever_created() else [sender_json(sender) for sender in store.recent()]
    old = await replaced(request)
    values = values_of(EMPTY) if old is None else values_like(old)
    return {**choices(request), "values": values, "senders": senders, "old": old}


async def replaced(request: web.Request) -> Mapping[str, Any] | None:
    """The key that a new one is to replace: `?replaces=ID`. Raises NoSuchKey."""
    key_id = request.query.get("replaces")
    return (
        None if key_id is None else await operations.show(store_of(request), operations.SHOW.call(path={"id": key_id}))
    )


async def load_one(request: web.Request) -> dict[str, Any]:
    found = await ask(request, operations.SHOW, store_of(request), query=())
    usage = usage_of("key", found["name"])
    return {
        **choices(request),
        "key": found,
        "usage": usage,
        "values": values_of(found),
        "is_enabled": found["status"] == "Enabled",
    }


def choices(request: web.Request) -> dict[str, Any]:
    """What the form offers, for the template; who asks, where operators are configured and the
    connection names none.
    """
    categories: dict[str, list[Scope]] = {}
    for scope in CATALOGUE:
        categories.setdefault(scope.category, []).append(scope)
    operators = () if BY in request else store_of(request).operators.emails
    return {"use_cases": USE_CASES, "categories": categories, "lengths": LENGTHS, "operators": operators}


async def create(request: web.Request) -> web.Response:
    """Answers with the page that shows the secret; sent again, the form is refused, as the name is
    taken.
    """
    form = posted(request)
    typed = typed_of(form)
    body = {**body_of(form, typed, {}), "confirmed": "confirmed" in form, **by_in(form)}
    made = await change(request, operations.CREATE, store_of(request), body, typed)
    return html(whole_page(request, CREATED, {"key": made, "secret": made["secret"], "old": await replaced(request)}))


async def edit(request: web.Request) -> web.Response:
    form = posted(request)
    typed = typed_of(form)
    had = await ask(request, operations.SHOW, store_of(request), query=())
    body = {**body_of(form, typed, had["labels"], had["limits"]), **by_in(form)}
    changed = await change(request, operations.EDIT, store_of(request), body, typed)
    return see(request, path_of(changed), f"“{changed['name']}” is saved.")


async def disable(request: web.Request) -> web.Response:
    changed = await change(request, operations.DISABLE, store_of(request), by_in(form_fields(request)))
    return see(request, path_of(changed), f"“{changed['name']}” is refused from now on.")


async def enable(request: web.Request) -> web.Response:
    changed = await change(request, operations.ENABLE, store_of(request), by_in(form_fields(request)))
    return see(request, path_of(changed), f"“{changed['name']}” is accepted again.")


async def delete(request: web.Request) -> web.Response:
    """Needs the exact name, typed. The field is not that of the form above it."""
    form = form_fields(request)
    typed = form.get("typed_name", "")
    body = {"name": typed, **by_in(form)}
    await change(request, operations.DELETE, store_of(request), body, {"typed_name": typed}, {"name": "typed_name"})
    return see(request, LIST, f"“{typed.strip()}” is deleted. It is refused from now on.")


def by_in(form: Mapping[str, str]) -> dict[str, str]:
    """Who asks, where the form states it."""
    return {"by": form["by"]} if form.get("by") else {}


def path_of(key: Mapping[str, Any]) -> str:
    return ONE.format(id=key["id"])


def store_of(request: web.Request) -> KeyRequests:
    store: KeyRequests = present(stores_of(request).keys)
    return store


async def never(request: web.Request) -> dict[str, Any]:
    """The page with a secret has no address of its own."""
    raise NotImplementedError


def view(path: str, title: str, template: str, load: Any, *, is_shown: bool = False) -> View:
    return View(
        path=path, title=title, template=template, load=load, role=Role.OPERATOR, in_navigation=is_shown, below=LIST
    )


VIEW: Final = view(LIST, "Keys", "keys.html", load, is_shown=True)
FORM: Final = view(NEW, "New key", "key_new.html", load_new)
DETAIL: Final = view(ONE, "Key", "key.html", load_one)
CREATED: Final = view(LIST, "New key", "key_created.html", never)
VIEWS: Final = (VIEW, FORM, DETAIL)
ACTIONS: Final = (
    Action(path=LIST, title="Make a key", handler=create, view=FORM),
    Action(path=ONE, title="Edit a key", handler=edit, view=DETAIL),
    Action(path=ONE + "/disable", title="Disable a key", handler=disable, view=DETAIL),
    Action(path=ONE + "/enable", title="Enable a key", handler=enable, view=DETAIL),
    Action(path=ONE + "/delete", title="Delete a key", handler=delete, view=DETAIL),
)
