"""Devices: the list, and each one with what it reported, its enrolment, and what can be done."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from aiohttp import web

from gateway.fleet.devices.states import State
from gateway.operate import devices as operations
from gateway.operate.edges import QUERY, Edge, edges_in
from gateway.operate.operation import AnyOperation
from gateway.operate.parts import stores_of
from gateway.operate.site.listing import listing
from gateway.operate.site.operating import ask, change
from gateway.operate.site.usage_question import usage_of
from gateway.operate.site.view import Action, View, see

LIST: Final = "/devices"
ONE: Final = LIST + "/{id}"


class DeviceAction(NamedTuple):
    """A button of a device's page."""

    name: str
    """In the path of its form."""
    label: str
    effect: str
    done: str
    """Shown after it."""
    operation: AnyOperation
    style: str = ""


BLOCK: Final = DeviceAction(
    "block", "Block", "refuse all its data, and send nothing for it", "The device is blocked.", operations.BLOCK,
    "danger",
)  # fmt: skip
UNBLOCK: Final = DeviceAction(
    "unblock", "Unblock", "end the block or quarantine, and enrol it again", "The device is enrolled again.",
    operations.UNBLOCK, "primary",
)  # fmt: skip
ENROLL: Final = DeviceAction(
    "enroll", "Enrol again", "enrol it at the upstream under a new epoch", "The device is enrolled again.",
    operations.ENROLL,
)  # fmt: skip
PING: Final = DeviceAction(
    "ping", "Ask the upstream", "ask whether the upstream knows it", "", operations.PING,
)  # fmt: skip
FORGET: Final = DeviceAction(
    "forget", "Forget", "delete it here; at its next contact it is a new device", "The device is forgotten.",
    operations.FORGET, "danger",
)  # fmt: skip


async def load(request: web.Request) -> dict[str, Any]:
    store = stores_of(request).devices
    answer = await ask(request, operations.LIST, store)
    gateways = await ask(request, operations.LIST, store, query=QUERY)
    return devices(answer, edges_in(gateways["devices"]))


def devices(answer: Mapping[str, Any], edges: Sequence[Edge]) -> dict[str, Any]:
    """The list of *answer*, and the gateways that forward to this one."""
    return {"list": listing(LIST, answer, shown=("state", "kind", "first_contact")), "edges": edges}


async def load_one(request: web.Request) -> dict[str, Any]:
    found = await ask(request, operations.SHOW, stores_of(request).devices, query=())
    return {"device": found, "usage": usage_of("device_id", found["device_id"]), "actions": actions_in(found["state"])}


def actions_in(state: State) -> list[DeviceAction]:
    """What can be done with a device in *state*."""
    match state:
        case "blocked":
            return [UNBLOCK, PING, FORGET]
        case "quarantined":
            return [UNBLOCK, ENROLL, BLOCK, PING, FORGET]
        case _:
            return [ENROLL, PING, BLOCK, FORGET]


def handler(action: DeviceAction) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        answer = await change(request, action.operation, stores_of(request).devices, {})
        there = LIST if action is FORGET else device_path(request.match_info["id"])
        return see(request, there, pinged(answer) if action is PING else action.done)

    return handle


def pinged(answer: dict[str, Any]) -> str:
    """The upstream's answer in a sentence."""
    said = f": {answer['message']}" if answer.get("message") else "."
    return f"The upstream says that the device is {answer['answer']}{said}"


def device_path(device_id: str) -> str:
    """An id may hold any character."""
    return f"{LIST}/{quote(device_id, safe='')}"


VIEW: Final = View(path=LIST, title="Devices", template="devices.html", load=load)
DETAIL: Final = View(path=ONE, title="Device", template="device.html", load=load_one, in_navigation=False, below=LIST)
VIEWS: Final = (VIEW, DETAIL)
ACTIONS: Final = tuple(
    Action(path=f"{ONE}/{each.name}", title=f"{each.label}: a device", handler=handler(each), view=DETAIL)
    for each in (BLOCK, UNBLOCK, ENROLL, PING, FORGET)
)
