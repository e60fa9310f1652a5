"""The service on a real socket, asked as the gateway would ask it."""

from tests.unit.local_service.conftest import client, clock, misbehave

__all__ = ["client", "clock", "misbehave"]
