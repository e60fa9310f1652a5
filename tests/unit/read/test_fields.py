"""The walk over protobuf's fields: what is none is refused as protobuf's own reader does, and each
step counts.
"""

import random
from collections import Counter

import pytest
from google.protobuf.message import DecodeError

from gateway.common.contract.errors import BadPayload, TooLarge
from gateway.read import wire
from gateway.read.fields import field_at, has_more_messages
from gateway.read.limits import FIELDS_EACH, OTHERS_EACH, Meter, ParseLimits
from gateway.read.otlp_protobuf import decode_metrics, decode_traces
from gateway.rules.context import Context
from gateway.rules.traces import normalise_traces
from tests.support.otlp_bytes import field, varint

CONTEXT = Context(1_767_607_200_000, "2026-01-05T10:00:00.000Z")
LIMITS = ParseLimits(max_items=1_000, max_attributes=128)


def walked(body: bytes, most: int = 10_000) -> int:
    """How many steps the walk over *body* takes. Raises BadPayload, TooLarge."""
    steps, at = Counting(most), 0
    while at < len(body):
        at = field_at(body, at, len(body), steps)[3]
    return steps.taken


class Counting(Meter):
    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.taken = 0

    def take(self, number: int) -> None:
        self.taken += number
        super().take(number)


def group(number: int, inside: bytes = b"", end: int | None = None) -> bytes:
    return varint(number << 3 | 3) + inside + varint((number if end is None else end) << 3 | 4)


SOUND = {
    "a number": b"\x78\x00",
    "a number of ten bytes": b"\x78" + b"\xff" * 9 + b"\x01",
    "a number beyond 64 bits": b"\x78" + b"\xff" * 9 + b"\x02",
    "eight bytes": b"\x79" + bytes(8),
    "four bytes": b"\x7d" + bytes(4),
    "a text": b"\x7a\x03abc",
    "the largest field number": varint((2**29 - 1) << 3) + b"\x00",
    "a tag of five bytes": b"\xf8\x80\x80\x80\x00\x00",
    "a length of five bytes": b"\x7a\x81\x80\x80\x80\x00a",
    "an empty group": group(15),
    "groups in groups": group(15, group(14, b"\x78\x00" + group(15))),
    "a hundred groups": b"\x7b" * 100 + b"\x7c" * 100,
}
DAMAGED = {
    "the field number 0": b"\x00\x00",
    "the field number 0 of a text": b"\x02\x00",
    "the field number 0 in two bytes": b"\x80\x00\x00",
    "the wire type 6": b"\x7e\x00",
    "the wire type 7": b"\x7f\x00",
    "a tag of six bytes": b"\xf8\x80\x80\x80\x80\x00\x00",
    "a tag beyond 32 bits": b"\x88\x80\x80\x80\x10\x00",
    "a number of eleven bytes": b"\x78" + b"\xff" * 10 + b"\x01",
    "a length of six bytes": b"\x7a\x81\x80\x80\x80\x80\x00a",
    "a length beyond the end": b"\x7a\x05abc",
    "a number without an end": b"\x78\xff",
    "four bytes of eight": b"\x79" + bytes(4),
    "an end without a group": b"\x7c",
    "a group without an end": b"\x7b\x78\x00",
    "a group with another end": group(15, end=14),
    "ends in the wrong order": b"\x7b\x73\x7c\x74",
    "more than a hundred groups": b"\x7b" * 101 + b"\x7c" * 101,
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_fields_are_walked(name: str) -> None:
    wire.TRACES.FromString(SOUND[name])
    walked(SOUND[name])


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_no_protobuf_is_refused_alone_and_in_a_large_body(name: str) -> None:
    with pytest.raises(DecodeError):
        wire.TRACES.FromString(DAMAGED[name])
    with pytest.raises(BadPayload):
        walked(DAMAGED[name])
    for body in (DAMAGED[name], field(15, bytes(70_000)) + DAMAGED[name]):
        with pytest.raises(BadPayload):
            normalise_traces(decode_traces(body), CONTEXT)


def test_any_bytes_are_walked_or_refused_as_protobuf_does() -> None:
    """But for a field number 0 within a group, which protobuf's own reader overlooks."""
    chance, pieces = random.Random(3), [*SOUND.values(), *DAMAGED.values()]
    status, outcomes = wire.class_of("Status"), Counter[bool]()
    for _ in range(20_000):
        body = bytearray(b"".join(chance.choices(pieces, k=chance.randrange(1, 5))))
        body[chance.randrange(len(body))] = chance.randrange(256)
        if any(byte & 7 == 3 for byte in body):
            continue
        try:
            status.FromString(bytes(body))
        except DecodeError:
            outcomes[False] += 1
            with pytest.raises(BadPayload):
                walked(bytes(body))
        else:
            outcomes[True] += 1
            walked(bytes(body))
    assert min(outcomes.values()) > 1_000


def test_every_field_of_a_group_is_a_step() -> None:
    assert walked(b"\x78\x00" * 5) == 5
    assert walked(group(15, b"\x78\x00" * 5 + group(14))) == 1 + 5 + 2 + 1


FILLERS = {"numbers": b"\x78\x00", "texts": b"\x7a\x00", "groups": b"\x7b\x7c", "resources": b"\x12\x00\x1a\x00"}


@pytest.mark.parametrize("name", FILLERS)
@pytest.mark.parametrize("levels", [0, 1, 2])
def test_fields_besides_the_items_are_limited(levels: int, name: str) -> None:
    body = FILLERS[name] * 60_000
    for number in (2, 1)[2 - levels :]:
        body = field(number, body)
    with pytest.raises(TooLarge, match=r"more than 2000 fields besides .* raise limits\.max_items"):
        normalise_traces(decode_traces(body, LIMITS), CONTEXT._replace(limits=LIMITS))
    assert LIMITS.max_items * OTHERS_EACH == 2_000


def test_fields_besides_the_points_of_a_metric_are_limited() -> None:
    metric = field(1, b"gen_ai.client.token.usage") + b"\x3a\x00" * 60_000
    read = decode_metrics(field(1, field(2, field(2, metric))), LIMITS)
    with pytest.raises(TooLarge, match="fields besides"):
        [list(scope.metrics) for each in read.request.resource_metrics for scope in each.scope_metrics]


def large_spans(attribute: bytes, each: int, n: int) -> bytes:
    span = field(2, field(1, b"t" * 16) + field(2, b"s" * 8) + attribute * each)
    return field(1, field(2, span * n))


def test_fields_of_an_item_are_limited_whether_they_are_known_or_not() -> None:
    attribute = field(9, field(1, b"a"))
    unknown = b"\x78\x00" * 600  # more fields than the attributes that are allowed need
    for filler in (b"", unknown):
        found = normalise_traces(
            decode_traces(large_spans(filler + attribute * 15_000, 1, 1), LIMITS),
            CONTEXT._replace(limits=LIMITS),
        )
        assert [each.reason for each in found.rejected] == ["too_many_attributes"]


def test_fields_of_all_large_items_together_are_limited() -> None:
    limits = ParseLimits(max_items=1_000, max_attributes=10_000)
    body = large_spans(field(9, field(1, b"a name")), 9_990, 9)
    with pytest.raises(TooLarge, match=r"large items .* more than 16000 fields: .* raise limits\.max_items"):
        normalise_traces(decode_traces(body, limits), CONTEXT._replace(limits=limits))
    assert limits.max_items * FIELDS_EACH == 16_000


def test_a_message_without_the_bytes_that_begin_messages_is_not_walked() -> None:
    steps = Counting(0)
    text = field(1, b"x" * 100_000)
    assert not has_more_messages(text, 0, len(text), wire.class_of("Span"), 128, steps)
    assert not steps.taken


@pytest.mark.parametrize("tag", [b"\x4a", b"\xca\x00", b"\xca\x80\x00"])
def test_attributes_are_counted_however_their_tag_is_written(tag: bytes) -> None:
    span = (tag + b"\x02\x12\x00") * 200
    assert has_more_messages(span, 0, len(span), wire.class_of("Span"), 128, Counting(10**6))
    assert not has_more_messages(span, 0, len(span), wire.class_of("Span"), 200, Counting(10**6))
