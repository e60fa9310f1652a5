"""Paths that a browser may be sent on to. Pure."""

import re
from typing import Final

_OWN_PATH: Final = re.compile(r"/(?![/\\])[\w./?&=%+-]*", re.ASCII)
"""Of this listener: a browser reads `//` as the start of another one's name."""


def own_path(path: str) -> str:
    """*path* where it is one of this listener, else that of the overview."""
    return path if _OWN_PATH.fullmatch(path) else "/"
