"""One gateway, put together from its configuration: the composition root.

Each module makes a part from those that were made before it, in the order in which a start makes
them: `building`, `stores`, `delivering`, `watching`, `listening`, `gateway`.
"""

from gateway.app.gateway import Gateway
from gateway.app.listening import Ports

__all__ = ["Gateway", "Ports"]
