"""How a command asks for an operation: by its id in the registry of operations.

So a command's module declares its options and does its work in one place, and nothing of the
gateway is imported before a command runs.
"""

import getpass
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spool.system.users import user_id

if TYPE_CHECKING:
    from gateway.config.model import Config


async def ask(
    config: "Config",
    operation_id: str,
    *,
    path: Mapping[str, str] | None = None,
    query: Sequence[tuple[str, str]] = (),
    body: Mapping[str, Any] | None = None,
    makes_files: bool = False,
) -> dict[str, Any]:
    """As `gateway.cli.requests.ask`."""
    from gateway.cli import requests  # noqa: PLC0415 - most of the gateway: `--help` needs none of it

    subject, operation = requests.OPERATIONS[operation_id]
    return await requests.ask(config, subject, operation, path=path, query=query, body=body, makes_files=makes_files)


def person(by: str | None) -> str:
    """Who runs the command: *by*, else the user and host name."""
    if by is not None:
        return by
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container's user may have no name
        user = f"uid-{user_id()}"
    return f"{user}@{socket.gethostname()}"
