"""Templates of the page with their layout, as a browser or a person gets them."""

import re
from collections.abc import Mapping
from html import unescape
from typing import Any

from gateway.operate.role import Role
from gateway.operate.site.registry import VIEWS
from gateway.operate.site.rendering import render
from gateway.operate.site.shell import navigation
from gateway.operate.site.view import View


def shown(view: View, context: Mapping[str, Any], role: Role = Role.OPERATOR) -> str:
    """The HTML of *view* with the context that its pure function made."""
    shell = {
        "title": view.title, "current": view.path, "navigation": navigation(VIEWS, role), "can_change": role == Role.OPERATOR,
        "role": role.name.lower(), "flashes": (), "version": "0.1.0", "made_ms": 1_767_607_200_000, "live": view.path, "limited_to": "",
        "fault": None, "errors": {}, "typed": {},
    }  # fmt: skip
    return render(view.template, {**shell, **context})


def text_of(html: str) -> str:
    """What a person reads of *html*, blanks folded."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html.replace("<wbr>", "")))).strip()
