"""The envelope that AI records travel in between gateways and to the
service (wire contract 6.1). Pure.
"""

from typing import Final

ENVELOPE_SCHEMA: Final = "ai-telemetry/1"
