"""One look at the service: is it there, does it take a key?"""

from typing import Literal

from exporters.base import Hold, Retry
from exporters.cost_service.client import CostServiceClient

LIVENESS_SCOPE = "insights:read_insights"

Liveness = Literal["ok", "key_rejected_or_scope_missing", "unreachable", "no_key"]
"""`no_key`: no configured key may read insights (a managed key never can): the lanes'
own answers state instead."""


async def check_liveness(client: CostServiceClient) -> Liveness:
    """Ask for one insight; the body is thrown away."""
    key = client.keyring.key_for(LIVENESS_SCOPE)
    if key is None:
        return "no_key"
    answer = await client.request("GET", client.preset.liveness, key, headers={})
    if isinstance(answer, Retry | Hold):
        return "unreachable"
    if answer.status in {401, 403}:
        return "key_rejected_or_scope_missing"
    return "ok" if 200 <= answer.status < 300 else "unreachable"  # noqa: PLR2004 - the 2xx class
