"""What `status` and the page name as wrong."""

from collections.abc import Mapping
from typing import Any

from gateway.operate.findings.finding import Finding
from gateway.operate.findings.status import of_status


def wrong_with(status: Mapping[str, Any]) -> list[Finding]:
    """Faults and warnings of a status."""
    return [each for each in of_status(status) if each.level != "ok"]


def texts_of(status: Mapping[str, Any]) -> list[str]:
    return [f"{each.what}: {each.whole}" for each in wrong_with(status)]
