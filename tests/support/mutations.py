"""Payloads of the corpus, damaged at random: the same of the same random numbers."""

import gzip
import json
import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.corpus import Payload, scenarios

LARGEST_BYTES = 64 * 1024
REWORDED = 0.5
"""Of the payloads: a request still, with values that no sender would give."""
TEXTS = (
    "",
    "\0",
    "é\U0001f600" * 50,
    "a" * 70_000,
    "NaN",
    "-1",
    "[{]}",
    '{"a":{"b":[1e999]}}',
    "2026-13-45",
    "gen_ai.usage",
)
BYTES = (b"", b"\0" * 8, b"\0" * 16, b"\xff" * 16, b"x" * 5000)
INT32 = (0, 1, 2, 3, 99, 2**31 - 1)
VALUES: dict[int, tuple[Any, ...]] = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), -1, *INT32),
    FieldDescriptor.CPPTYPE_UINT32: (2**32 - 1, *INT32),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), -1, 2**53 + 1, 2**63 - 1, *INT32),
    FieldDescriptor.CPPTYPE_UINT64: (2**53 + 1, 2**63, 2**64 - 1, *INT32),
    FieldDescriptor.CPPTYPE_DOUBLE: (math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7e308, -1.5),
    FieldDescriptor.CPPTYPE_FLOAT: (math.nan, math.inf, -1.5),
    FieldDescriptor.CPPTYPE_BOOL: (True, False),
    FieldDescriptor.CPPTYPE_ENUM: (-1, *INT32),
    FieldDescriptor.CPPTYPE_STRING: TEXTS,
}
"""Type of a field -> what is put in."""
JSON_VALUES: tuple[Any, ...] = (
    *(None, True, [], {}, [[]], {"a": {}}, [None], 0, -1, 2**53 + 1, 2**64, 10**400, 1.5, -1.7e308),
    *("Infinity", "-9223372036854775809", "1e3", " 7 ", "0x10", *TEXTS),
)
REQUESTS: dict[str, Callable[[], Message]] = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}
PUZZLING = (
    *(b"\xff", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", b"\0", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(b"null", b"NaN", b"1e999", b"-0", b"9" * 400, b'"\\ud83d"', b"[[[[", b"{}", b'""', b","),
)
"""Put in anywhere: ends of varints, halves of characters, JSON that is not quite."""


class Damaged(NamedTuple):
    signal: str
    is_json: bool
    body: bytes


def damaged_payloads(random: Random, *, with_json: bool) -> Iterator[Damaged]:
    """Without end."""
    corpus = [
        payload
        for signal in ("traces", "logs", "metrics")
        for scenario in scenarios(signal)
        for payload in scenario.payloads
        if len(payload.body) <= LARGEST_BYTES and (with_json or not payload.is_json)
    ]
    while True:
        payload = random.choice(corpus)
        if random.random() < REWORDED:
            yield Damaged(payload.signal, payload.is_json, reworded(payload, random))
            continue
        body = payload.body
        for _ in range(random.choice((0, 1, 1, 1, 1, 2, 5))):
            body = random.choice(DAMAGES)(body, random, corpus)
        yield Damaged(payload.signal, payload.is_json, body)


def zipped(body: bytes, random: Random) -> bytes:
    """As gzip, one in five of it damaged."""
    made = gzip.compress(body, 1)
    return random.choice((flipped, cut, without))(made, random, []) if random.random() < 0.2 else made


def reworded(payload: Payload, random: Random) -> bytes:
    """Still a request, with other values in up to five places."""
    if payload.is_json:
        document = json.loads(payload.body)
        for _ in range(random.randint(1, 5)):
            spoil_json(document, random)
        return json.dumps(document).encode()
    request: Message = REQUESTS[payload.signal]()
    request.ParseFromString(payload.body)
    for _ in range(random.randint(1, 5)):
        spoil_message(request, random)
    return request.SerializeToString()


def spoil_json(node: Any, random: Random) -> None:
    """Walk down at random, and put another value where the walk ends."""
    while True:
        places = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not places:
            return
        place = random.choice(places)
        below = node[place]
        if not isinstance(below, dict | list) or random.random() < 0.1:
            node[place] = deepcopy(random.choice(JSON_VALUES))
            return
        node = below


def spoil_message(message: Message, random: Random) -> None:
    """As `spoil_json`; a list may lose its items, or have the first of them twice."""
    while fields := message.ListFields():
        field, value = random.choice(fields)
        is_list = field.is_repeated
        if is_list and random.random() < 0.1:
            copies = [] if random.random() < 0.5 else [*value, value[0]]
            message.ClearField(field.name)
            getattr(message, field.name).extend(copies)
            return
        if field.message_type is None:
            choices = BYTES if field.type == FieldDescriptor.TYPE_BYTES else VALUES[field.cpp_type]
            if is_list:
                value[random.randrange(len(value))] = random.choice(choices)
            else:
                setattr(message, field.name, random.choice(choices))
            return
        message = random.choice(value) if is_list else value


Damage = Callable[[bytes, Random, list[Payload]], bytes]


def flipped(body: bytes, random: Random, corpus: list[Payload]) -> bytes:
    """One to four bytes become others."""
    made = bytearray(body)
    for _ in range(random.randint(1, 4) if made else 0):
        made[random.randrange(len(made))] = random.randrange(256)
    return bytes(made)


def cut(body: bytes, random: Random, corpus: list[Payload]) -> bytes:
    return body[: random.randint(0, len(body))]


def without(body: bytes, random: Random, corpus: list[Payload]) -> bytes:
    """A stretch is gone."""
    at = random.randint(0, len(body))
    return body[:at] + body[at + random.randint(1, 64) :]


def repeated(body: bytes, random: Random, corpus: list[Payload]) -> bytes:
    """A stretch comes several times."""
    at = random.randint(0, len(body))
    end = at + random.randint(1, 256)
    return body[:end] + body[at:end] * random.randint(1, 20) + body[end:]


def interrupted(body: bytes, random: Random, corpus: list[Payload]) -> bytes:
    """Something puzzling is put in."""
    at = random.randint(0, len(body))
    return body[:at] + random.choice(PUZZLING) + body[at:]


def joined(body: bytes, random: Random, corpus: list[Payload]) -> bytes:
    """The beginning of one payload, the end of another."""
    other = random.choice(corpus).body
    return body[: random.randint(0, len(body))] + other[random.randint(0, len(other)) :]


def renumbered(body: bytes, random: Random, corpus: list[Payload]) -> bytes:
    """A digit of a text, or a length, grows or shrinks by one."""
    made = bytearray(body)
    if made:
        at = random.randrange(len(made))
        made[at] = (made[at] + random.choice((-1, 1))) % 256
    return bytes(made)


DAMAGES: tuple[Damage, ...] = (flipped, cut, without, repeated, interrupted, joined, renumbered)
