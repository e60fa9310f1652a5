"""Style, scripts and icon of the page, each under a path with a hash of its content, so that
browsers keep it for good.
"""

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Final, NamedTuple

from aiohttp import web

from gateway.common.contract.errors import NotFound

TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOLDER: Final = "/assets/"
ROUTE: Final = FOLDER + "{name}"
KEPT: Final = "public, max-age=31536000, immutable"


class Asset(NamedTuple):
    path: str
    body: bytes
    content_type: str


def read_assets() -> dict[str, Asset]:
    """Name of the file -> asset."""
    found = {}
    for file in sorted(files("gateway.operate.site").joinpath("assets").iterdir(), key=lambda file: file.name):
        stem, dot, ending = file.name.rpartition(".")
        if (content_type := TYPES.get(dot + ending)) is not None:
            body = file.read_bytes()
            digest = hashlib.sha256(body).hexdigest()[:12]
            found[file.name] = Asset(f"{FOLDER}{stem}.{digest}{dot}{ending}", body, content_type)
    return found


ASSETS: Final[Mapping[str, Asset]] = read_assets()
_BY_PATH: Final = {asset.path: asset for asset in ASSETS.values()}


def is_asset(path: str) -> bool:
    return path in _BY_PATH


async def serve_asset(request: web.Request) -> web.Response:
    """Raises NotFound."""
    asset = _BY_PATH.get(request.path)
    if asset is None:
        raise NotFound("no asset has this name")
    return web.Response(
        body=asset.body, content_type=asset.content_type, charset="utf-8", headers={"Cache-Control": KEPT}
    )
