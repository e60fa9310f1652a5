"""The views and forms of the page, in the order of the navigation."""

from typing import Final

from gateway.operate.site import (
    allocation,
    budgets,
    calls,
    connect,
    dead_letters,
    delivery,
    devices,
    explore,
    insights,
    keys,
    overview,
    prices,
    recommendations,
    senders,
    settings,
    viewer_tokens,
    views,
)
from gateway.operate.site.view import Action, View

VIEWS: Final[tuple[View, ...]] = (
    overview.VIEW,
    explore.VIEW,
    *calls.VIEWS,
    *views.VIEWS,
    *allocation.VIEWS,
    *budgets.VIEWS,
    recommendations.VIEW,
    delivery.VIEW,
    senders.VIEW,
    *devices.VIEWS,
    *insights.VIEWS,
    *dead_letters.VIEWS,
    *keys.VIEWS,
    viewer_tokens.VIEW,
    settings.VIEW,
    prices.VIEW,
    *connect.VIEWS,
)
ACTIONS: Final[tuple[Action, ...]] = (
    *explore.ACTIONS,
    *views.ACTIONS,
    *allocation.ACTIONS,
    *budgets.ACTIONS,
    *recommendations.ACTIONS,
    *devices.ACTIONS,
    *insights.ACTIONS,
    *dead_letters.ACTIONS,
    *keys.ACTIONS,
    *viewer_tokens.ACTIONS,
    *connect.ACTIONS,
)
