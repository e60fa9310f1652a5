"""The views and forms of the page, in the order of the navigation."""

from typing import Final

from gateway.admin.site import delivery, insights, overview
from gateway.admin.site.view import Action, View

VIEWS: Final[tuple[View, ...]] = (overview.VIEW, delivery.VIEW, insights.VIEW)
ACTIONS: Final[tuple[Action, ...]] = (insights.SET_STATUS,)
