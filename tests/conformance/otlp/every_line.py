"""All lines, in the order in which they run: the two that look at all answers come last."""

from tests.conformance.otlp import grpc_lines, http_lines, json_lines, sender_lines
from tests.conformance.otlp.lines import LINES

__all__ = ["LINES"]

MODULES = (http_lines, json_lines, grpc_lines, sender_lines)
"""Each registers its own when it is imported."""
LOOKING_AT_ALL = ("B30", "B65")

LINES.sort(key=lambda one: one.number in LOOKING_AT_ALL)
