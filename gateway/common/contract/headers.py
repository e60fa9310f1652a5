"""Names of headers that senders, the gateway and the local service share. Pure."""

from typing import Final

REPEAT_KEY_HEADERS: Final = ("Idempotency-Key", "cloudzero-idempotency-key")
"""Either one marks a request as a repeat, where its items have no ids of their own:
presets `document`, `cloudzero`."""
