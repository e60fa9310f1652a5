"""Allocation: the rules that give a team, a project or a tag to calls without one. They are made,
ordered and previewed here; every version is listed, and can be brought back.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web

from gateway.common.contract.errors import NotFound, Overloaded
from gateway.common.contract.tags import is_tag
from gateway.operate import allocation as operations
from gateway.operate.allocation import MAX_ROWS
from gateway.operate.parts import PARTS, stores_of
from gateway.operate.site import allocation_form, filter_form
from gateway.operate.site.allocation_form import FormRule
from gateway.operate.site.allocation_links import ADD, LIST, NEW, ONE, phrase_of
from gateway.operate.site.budgets import LOOKED_AT_DAYS, filter_asked
from gateway.operate.site.explore_texts import RANGE_TEXTS
from gateway.operate.site.operating import ask, change
from gateway.operate.site.rendering import html
from gateway.operate.site.shell import whole_page
from gateway.operate.site.usage_question import SHOWN, filter_texts, title_of
from gateway.operate.site.view import Action, FormFault, View, can_change, posted, see
from gateway.usage.allocation.body import TARGETS
from gateway.usage.sums.names import Absent
from gateway.usage.sums.tags import dimensions_of
from gateway.usage.sums.timespan import TimeRange

SHOWN_VERSIONS: Final = 50
MAX_NAMES: Final = 50
"""Of a dimension, to choose from."""
PREVIEW: Final = "preview"
SAVE: Final = "save"
Version = Mapping[str, Any]
"""As the API states it."""


async def load(request: web.Request) -> dict[str, Any]:
    found = await ask(request, operations.LIST, stores_of(request).allocation, query=())
    applied = {each["target"]: each for each in found["definitions"]}
    targets = dict.fromkeys((*targets_of(request), *applied))
    return {**TEXTS, "targets": [(each, applied.get(each)) for each in targets]}


def targets_of(request: web.Request) -> tuple[str, ...]:
    """All that rules can give here."""
    queries = stores_of(request).usage
    return (*TARGETS, *(() if queries is None else dimensions_of(queries.tags)))


TEXTS: Final[Mapping[str, Any]] = {"phrase_of": phrase_of, "title_of": title_of, "filter_texts": filter_texts}
"""Functions of the templates."""


async def load_one(request: web.Request) -> dict[str, Any]:
    """Raises NotFound, BadPayload."""
    target, versions = request.match_info["target"], await versions_of(request)
    applied = versions[0] if versions else None
    begun = {"version": str(applied["version"]) if applied else ""}
    return {
        **TEXTS,
        "target": target,
        "versions": versions,
        "applied": applied,
        "has_more": len(versions) == SHOWN_VERSIONS,
        "chosen": None,
        "dimensions": {each: title_of(each) for each in dimensions_for(request, target)},
        "ranges": RANGE_TEXTS,
        "boxes": filter_form.boxes,
        "rules_in": allocation_form.rules_in,
        "preview": None,
        "unmatched": unmatched_path(target),
        "known_names": await known_names(request),
        "new_id": NEW,
        "added": None,
        "values": allocation_form.values_of(rules_of(applied), **begun),
    }


async def load_form(request: web.Request) -> dict[str, Any]:
    """The same with what the query asks for: rules of another version, or one rule more."""
    context = await load_one(request)
    if not can_change(request):
        return context
    values = context["values"]
    rules = allocation_form.rules_in(values)
    if "version" in request.query:
        chosen = await version_of(request, request.query["version"])
        texts = {"version": values["version"], "note": f"As version {chosen['version']}"}
        return {**context, "chosen": chosen, "values": allocation_form.values_of(rules_of(chosen), **texts)}
    if ADD in request.query or not rules:
        rule = FormRule(filter_form.text_of(kept_by(request)), "")
        rules = allocation_form.with_rule(rules, rule)
        context |= {"added": rules.index(rule)}
    return {**context, "values": allocation_form.values_of(rules, version=values["version"])}


async def versions_of(request: web.Request) -> Sequence[Version]:
    """The latest first; none where the target has no rules. Raises NotFound for what is no
    target.
    """
    store, target = stores_of(request).allocation, request.match_info["target"]
    try:
        found = await ask(request, operations.LIST_VERSIONS, store, query=(("limit", str(SHOWN_VERSIONS)),))
    except NotFound:
        if store is None or target not in targets_of(request):
            raise
        return ()
    versions: Sequence[Version] = found["versions"]
    return versions


async def version_of(request: web.Request, number: str) -> Version:
    """Raises NotFound."""
    path = {**request.match_info, "version": number}
    found: Version = (await ask(request, operations.SHOW, stores_of(request).allocation, query=(), path=path))[
        "definition"
    ]
    return found


def unmatched_path(target: str) -> str:
    """Of Explore with the calls that stay without the target."""
    asked = {"range": allocation_form.RANGE, "unknown": target, "group_by": "service_name"}
    return f"/usage?{urlencode(asked)}"


def rules_of(version: Version | None) -> list[FormRule]:
    return [] if version is None else [allocation_form.rule_of(each) for each in version["rules"]]


def kept_by(request: web.Request) -> filter_form.Names:
    """What the new rule matches: the filters of the query, without the target."""
    kept = filter_asked(request)
    return {dimension: names for dimension, names in kept.items() if dimension != request.match_info["target"]}


def dimensions_for(request: web.Request, target: str) -> Sequence[str]:
    """What rules of *target* can match; what most calls bring first."""
    tags = [each for each in targets_of(request) if is_tag(each)]
    return [each for each in dict.fromkeys((*COMMON_DIMENSIONS, *SHOWN, *tags)) if each != target]


COMMON_DIMENSIONS: Final = ("service_name", "key")
"""Dimensions whose names calls without a team usually have."""


async def known_names(request: web.Request) -> list[tuple[str, str]]:
    """Names that calls without the target have, each with its dimension: those of the highest cost
    in the last days. Empty for those who may only read, and while too many questions are asked.
    """
    queries, target = stores_of(request).usage, request.match_info["target"]
    if queries is None or not can_change(request):
        return []
    within = TimeRange.last_days(LOOKED_AT_DAYS, request.app[PARTS].now_ms())
    where = {target: [Absent.UNKNOWN]}
    try:
        async with queries.allocated(()).apart() as apart:
            found = [
                (each, await apart.by(each, within=within, where=where, limit=MAX_NAMES)) for each in COMMON_DIMENSIONS
            ]
    except Overloaded:
        return []
    names = [(group.names[0], title_of(dimension)) for dimension, breakdown in found for group in breakdown.groups]
    return [(name, title) for name, title in names if isinstance(name, str)]


async def act(request: web.Request) -> web.Response:
    """What the pressed button says. Raises FormFault, BadPayload."""
    form = posted(request)
    typed, pressed = allocation_form.typed_of(form), form.get("act", PREVIEW)
    if pressed == SAVE:
        return await save(request, typed)
    values = allocation_form.acted(typed, pressed)
    preview = await previewed(request, values) if pressed == PREVIEW else None
    context = {**await load_one(request), "values": values, "preview": preview}
    return html(whole_page(request, DETAIL, context))


async def save(request: web.Request, typed: Mapping[str, str]) -> web.Response:
    """Raises FormFault."""
    target, versions, body = request.match_info["target"], await versions_of(request), allocation_form.body_of(typed)
    if typed["version"] != (str(versions[0]["version"]) if versions else ""):
        raise FormFault(CHANGED_MEANWHILE, {}, typed, 409)
    store = stores_of(request).allocation
    if versions:
        made = await change(request, operations.ADD_VERSION, store, body, typed)
    else:
        made = await change(request, operations.CREATE, store, {**body, "target": target}, typed)
    return see(request, ONE.format(target=target), saved_text(made["definition"]))


CHANGED_MEANWHILE: Final = (
    "Somebody saved another version meanwhile. Look at it below in the list of versions, then open this page again"
    " and make your change to it."
)


def saved_text(made: Version) -> str:
    effect = (
        "It is applied to every day that is kept." if made["rules"] else "It has no rules: nothing is given any more."
    )
    return f"Version {made['version']} is saved. {effect}"


async def previewed(request: web.Request, values: Mapping[str, str]) -> dict[str, Any]:
    """What the rules of the form would change. Raises FormFault, BadPayload."""
    body = {"target": request.match_info["target"], "range": values["range"], **allocation_form.body_of(values)}
    found = (await change(request, operations.PREVIEW, stores_of(request).allocation, body, values))["preview"]
    return {
        **found,
        "moved": allocation_form.moved_names(found),
        "amounts_of": allocation_form.amounts_of,
        "is_cut": len(found["names"]) == MAX_ROWS,
    }


VIEW: Final = View(
    path=LIST, title="Allocation", template="allocation.html", load=load, in_navigation=False, below="/usage"
)
DETAIL: Final = View(
    path=ONE,
    title="Allocation rules",
    template="allocation_rules.html",
    load=load_form,
    in_navigation=False,
    is_live=False,
    below="/usage",
)
VIEWS: Final = (VIEW, DETAIL)
ACTIONS: Final = (Action(path=ONE, title="Change, preview or save allocation rules", handler=act, view=DETAIL),)
