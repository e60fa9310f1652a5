"""The top of the overview: what is wrong, why, what to do, and what is safe meanwhile. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from gateway.observability.metrics import Status
from gateway.operate.findings.finding import Finding
from gateway.operate.findings.safe import safe_text

MAX_OPEN: Final = 4
"""Findings that are shown at once; the others are folded."""
MAX_FINDINGS: Final = 40


def verdict(found: Sequence[Finding], status: Status) -> dict[str, Any]:
    """The template's context."""
    shown = found[:MAX_FINDINGS]
    return {
        "is_fault": any(each.level == "fault" for each in found),
        "findings": shown[:MAX_OPEN],
        "further_findings": shown[MAX_OPEN:],
        "safe": safe_text(status),
    }
