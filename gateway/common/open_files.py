"""How many files and connections this process may have open."""

import sys
from typing import Final

OPEN_FILES: Final = 17_000
"""Enough for 8,000 connections over HTTP and as many over gRPC."""


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


def open_files() -> int:
    """How many this process may have open now."""
    if sys.platform == "win32":
        return OPEN_FILES
    import resource  # noqa: PLC0415 - as above

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES if soft == resource.RLIM_INFINITY else soft
