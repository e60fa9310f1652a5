"""Imported by the server of `tests.support.forked_process`: what every process of the command
loads.
"""

from genai_prices.data_snapshot import get_snapshot

import gateway.app
import gateway.cli.main
import gateway.cli.running
import gateway.local_service.service  # noqa: F401

get_snapshot()
