"""The overview: whether all is well, and what came in."""

from collections.abc import Sequence
from typing import Any, Final

from aiohttp import web

from gateway.admin.parts import PARTS
from gateway.admin.site.verdict import faults_of
from gateway.admin.site.view import View
from gateway.insights.finding import Insight
from gateway.observability.metrics import Status


def overview(status: Status, insights: Sequence[Insight]) -> dict[str, Any]:
    """The template's context."""
    lanes = status["lanes"].values()
    return {
        "faults": faults_of(status),
        "headline": {
            "Received": status["edge"]["received"],
            "Delivered": sum(lane["delivered"] for lane in lanes),
            "Waiting": sum(lane["pending"] for lane in lanes),
            "Dead letters": sum(lane["dead_lettered"] for lane in lanes),
        },
        "open_insights": len(insights),
    }


async def load(request: web.Request) -> dict[str, Any]:
    parts = request.app[PARTS]
    return overview(parts.status(), await parts.unsettled())


VIEW: Final = View(path="/", title="Overview", template="overview.html", load=load)
