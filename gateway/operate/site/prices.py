"""Prices: the models that have none, and the lines of the price file that give one a price."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import yaml
from aiohttp import web

from gateway.operate.parts import PARTS, running_of
from gateway.operate.site.view import View
from gateway.usage.pricing.own import NO_DECIMAL, BadPriceFile, parse_price_file

PATH: Final = "/prices"
REQUIRED: Final = ("model", "input", "output")
OPTIONAL: Final = ("provider", "cache_read", "currency")
ALIAS: Final = "same_as"
FIELDS: Final = (*REQUIRED, *OPTIONAL, ALIAS)
DEFAULT_CURRENCY: Final = "USD"
MAX_CHARS: Final = 200
MAX_MODELS: Final = 50
PLACE: Final = re.compile(r"(?:prices\.0\.)?(\w+): (.*)")


async def load(request: web.Request) -> dict[str, Any]:
    running, unpriced = running_of(request), request.app[PARTS].status().get("unpriced", {})
    config = running.config
    return prices(dict(request.query.items()), unpriced, config.pricing.file, config.origins.file)


def prices(
    asked: Mapping[str, str], unpriced: Mapping[str, int], file: Path | None, config_file: Path | None = None
) -> dict[str, Any]:
    """The template's context. *file*: `pricing.file`; None where it is not set. *config_file*: the
    configuration's; None where there is none.
    """
    typed = {name: asked.get(name, "").strip()[:MAX_CHARS] for name in FIELDS}
    lines = lines_of(typed)
    models = sorted(unpriced.items(), key=lambda each: (-each[1], each[0]))
    return {
        "models": [(name, calls, f"{PATH}?{urlencode({'model': name})}") for name, calls in models[:MAX_MODELS]],
        "further_models": max(0, len(models) - MAX_MODELS),
        "typed": typed,
        "lines": lines,
        "errors": faults_of(lines),
        "file": file,
        "config_file": config_file,
    }


def lines_of(typed: Mapping[str, str]) -> str:
    """Of the price file; empty while what is needed is not typed."""
    if typed["model"] and typed[ALIAS]:
        return written({"aliases": {typed["model"]: typed[ALIAS]}})
    if not all(typed[name] for name in REQUIRED):
        return ""
    entry = {name: typed[name] for name in (*REQUIRED, *OPTIONAL) if typed[name] not in {"", DEFAULT_CURRENCY}}
    return written({"prices": [entry]})


def written(content: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(
        dict(content), default_flow_style=None, sort_keys=False, width=10_000, allow_unicode=True
    )
    return text


def faults_of(lines: str) -> dict[str, str]:
    """Field -> what is wrong with it, as the gateway would say when it reads *lines*."""
    try:
        parse_price_file(lines)
    except BadPriceFile as error:
        found = [PLACE.fullmatch(each) for each in str(error).split("; ")]
        return {each[1]: fault_text(each[2]) for each in found if each is not None} or {"model": str(error)}
    return {}


def fault_text(text: str) -> str:
    """The quotes that the file needs are written by the page."""
    return "a number such as 2.50 is needed" if text == NO_DECIMAL else text


VIEW: Final = View(
    path=PATH, title="Prices", template="prices.html", load=load, in_navigation=False, below="/settings", is_live=False
)
