"""The files of keys in a data directory."""

from typing import Final, NamedTuple

from gateway.access.key import GATEWAY_PREFIX, SERVICE_PREFIX


class KeyFiles(NamedTuple):
    """The files of one kind of key in a data directory, and the prefix of its secrets."""

    database: str
    pepper: str
    prefix: str


INBOUND: Final = KeyFiles("control.db", "control.pepper", GATEWAY_PREFIX)
"""Keys of senders."""
OF_SERVICE: Final = KeyFiles("service/service.db", "service/service.pepper", SERVICE_PREFIX)
"""Keys of the local service's clients."""
