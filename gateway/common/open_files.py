"""How many files and connections this process may have open."""

import sys
from typing import Final

OPEN_FILES: Final = 16_384


def raise_open_files() -> None:
    """As many as the system allows, up to OPEN_FILES: each sender's connection is one, and of the
    usual 1024 (256 on macOS) a fleet soon takes all. Windows has no such limit.
    """
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - Windows has none

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
