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
from exporters.http_client import HttpAnswer
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


def _not_the_services(answer: HttpAnswer, *, sends: bool) -> str | None:
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
    fault = _fault(status, scope, is_granted=is_granted)
    return Probed(is_well=fault is None, text=f"HTTP {status}{fault or _of_no_fault(status)}")


def _fault(status: int, scope: str, *, is_granted: bool) -> str | None:
    if status == HTTPStatus.UNAUTHORIZED:
        return ": the upstream does not know this key"
    if status == HTTPStatus.FORBIDDEN and is_granted:
        return f": the upstream refuses this key, or it lacks the scope {scope}"
    if status == HTTPStatus.NOT_FOUND and scope == AI_TELEMETRY_SCOPE:
        return ": base_url or the path of AI telemetry is wrong"
    if status >= REACHED or 300 <= status < 400:  # noqa: PLR2004 - the class of redirects
        return ": the upstream does not take requests as it should"
    return None


def _of_no_fault(status: int) -> str:
    if status in TAKEN:
        return ": the upstream takes this key"
    if status == HTTPStatus.FORBIDDEN:
        return " on reading insights, which it need not grant: the key is known"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return ": the upstream limits requests now. Whether it takes this key is unknown; try again later"
    return ": the upstream does not accept this request. Whether it takes this key is unknown until records are sent"


def empty_envelope(gateway_id: str, sent_at: str) -> bytes:
    return encode_records(Batch("check", AI_TELEMETRY, 0, 0, sent_at, ()), gateway_id)
