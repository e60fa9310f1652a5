"""One key tried at the upstream, with a request that changes nothing there.

A key for AI telemetry posts an envelope without records, or an OTLP request without spans. Any
other key asks for one insight: a refusal of that (403) shows that the key is known, and may lack
this one scope only.
"""

import asyncio
from http import HTTPStatus
from typing import NamedTuple

from exporters.accounting import Sent, accounted
from exporters.answer_body import PROTOBUF_TYPES, AnswerNotUnderstood, UnreadableAnswer, media_type
from exporters.base import Hold, Retry
from exporters.cost_service.answers import TAKEN, leaves_open, whole_document
from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.encode import encode_records
from exporters.cost_service.lanes import AI_TELEMETRY_SCOPE
from exporters.cost_service.liveness import LIVENESS_SCOPE
from exporters.http_client import Answer
from exporters.keyring import Keyring, KeySetting
from exporters.otlp.exporter import SPAN_HEADERS
from spool.clock import rfc3339_ms
from spool.record import AI_TELEMETRY, Batch

PROBE_S = 20.0
REACHED = 500
"""A status below is about the key; one from here on, about the upstream."""


class Probed(NamedTuple):
    is_well: bool
    text: str
    """The result, for an operator."""
    request: str = "not asked"
    """What was sent, for an operator."""


async def probe_key(client: CostServiceClient, setting: KeySetting, *, in_otlp: bool = False) -> Probed:
    """Try the key of *setting* by *client*, whose own keys are not used.

    *in_otlp*: AI telemetry goes as OTLP.
    """
    sends = setting.grants(AI_TELEMETRY_SCOPE)
    probed = await _probed(client, setting, sends=sends, in_otlp=in_otlp)
    preset = client.preset
    if not sends:
        return probed._replace(request=f"asked by GET {preset.liveness}")
    path = preset.ai_telemetry_otlp if in_otlp else preset.ai_telemetry_records
    return probed._replace(request=f"asked by a POST without records to the path of calls, {path}")


async def _probed(client: CostServiceClient, setting: KeySetting, *, sends: bool, in_otlp: bool) -> Probed:
    keyring = Keyring([setting])
    if faults := keyring.faults():
        return Probed(is_well=False, text="; ".join(faults))
    scope = AI_TELEMETRY_SCOPE if sends else LIVENESS_SCOPE
    key = Keyring([KeySetting(setting.name, setting.secret, lambda _: True)]).key_for(scope)
    if key is None:
        return Probed(is_well=False, text="its secret cannot be read")
    try:
        async with asyncio.timeout(PROBE_S):
            if sends and in_otlp:
                answer = await client.post(client.preset.ai_telemetry_otlp, b"", key, headers=SPAN_HEADERS)
            elif sends:
                answer = await client.post(
                    client.preset.ai_telemetry_records,
                    empty_envelope(client.gateway_id, rfc3339_ms(int(client.now_unix_s() * 1000))),
                    key,
                )
            else:
                answer = await client.request("GET", client.preset.liveness, key, headers={})
    except TimeoutError:
        return Probed(is_well=False, text=f"the upstream did not answer in {PROBE_S:.0f} s")
    if isinstance(answer, Retry | Hold):
        return Probed(is_well=False, text=answer.reason)
    if answer.status in TAKEN and (reason := _not_the_services(answer, sends=sends)) is not None:
        return Probed(is_well=False, text=reason)
    return judged(answer.status, scope, is_granted=setting.grants(scope))


def _not_the_services(answer: Answer, *, sends: bool) -> str | None:
    """Why a success is not one of the service; a list of insights may hold anything."""
    if media_type(answer.headers.get("Content-Type", "")) in PROTOBUF_TYPES:
        return None
    try:
        document = whole_document(answer.headers, answer.body, answer.cut, 0)
        if sends:
            accounted(document, Sent(0))
    except (UnreadableAnswer, AnswerNotUnderstood) as error:
        return leaves_open(answer.status, error).reason
    return None


def judged(status: int, scope: str, *, is_granted: bool) -> Probed:
    """What the HTTP *status* of a request that needs *scope* means for a key. *is_granted*: it is
    configured to have it.
    """
    if status == HTTPStatus.UNAUTHORIZED:
        return Probed(is_well=False, text="HTTP 401: the upstream does not know this key")
    if status == HTTPStatus.FORBIDDEN:
        if is_granted:
            return Probed(is_well=False, text=f"HTTP 403: the upstream refuses this key, or it lacks the scope {scope}")
        return Probed(is_well=True, text="HTTP 403 on reading insights, which it need not grant: the key is known")
    if status == HTTPStatus.NOT_FOUND and scope == AI_TELEMETRY_SCOPE:
        return Probed(is_well=False, text="HTTP 404: base_url or the path of AI telemetry is wrong")
    if status >= REACHED or 300 <= status < 400:  # noqa: PLR2004 - the class of redirects
        return Probed(is_well=False, text=f"HTTP {status}: the upstream does not take requests as it should")
    return Probed(is_well=True, text=f"HTTP {status}: the upstream takes this key")


def empty_envelope(gateway_id: str, sent_at: str) -> bytes:
    return encode_records(Batch("check", AI_TELEMETRY, 0, 0, sent_at, ()), gateway_id)
