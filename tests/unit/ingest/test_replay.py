"""Spans are replayed in Python, where the native extension is not used."""

import pytest

from benchmarks.normalise import CONTEXT, gen_ai, request
from gateway.contract.errors import BadPayload
from gateway.decode import wire
from gateway.ingest.parsing.attribute_bytes import UnreadAttributes, count_in, field, heads_of, text_in
from gateway.ingest.parsing.frames import job_of, unpack
from gateway.ingest.parsing.lesson_bounds import conditions_of
from gateway.ingest.parsing.lessons import Lesson
from gateway.ingest.parsing.parse import ParseRules, Payload, parse
from gateway.ingest.parsing.parser import Parser
from gateway.ingest.parsing.reader import ShapeReader
from gateway.ingest.parsing.worker import Reader, answer
from gateway.pricing.prices import Prices
from tests.support.workers import worker_setup

SCOPE = "opentelemetry.instrumentation.openai_v2"
RULES = ParseRules(Prices())
HEAD = field(1, b"n") + b"\x12"


@pytest.fixture(autouse=True)
def python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.ingest.parsing.reader.NATIVE", None)


def traces(*numbers: int) -> Payload:
    return Payload("traces", request(gen_ai, SCOPE, numbers), json=False)


async def test_the_receiver_replays_what_it_read_once() -> None:
    parser = Parser(RULES)
    await parser.parse(traces(1), CONTEXT)
    payload = traces(11, 21, 31)
    assert await parser.parse(payload, CONTEXT) == parse(payload, CONTEXT, RULES)
    assert parser.reader.native_spans == 3


def test_the_worker_process_replays_what_it_read_once() -> None:
    reader = Reader(worker_setup())
    for payload in (traces(1), traces(11, 21)):
        fields, unpriced = answer(job_of(payload, CONTEXT), reader)
        assert unpack(fields) == parse(payload, CONTEXT, RULES)
        assert unpriced == {}
    assert reader.payloads.native_spans == 2


def test_bytes_that_protobuf_refuses_are_refused_in_a_known_shape() -> None:
    reader = ShapeReader(RULES)
    reader.parse_all(traces(1), CONTEXT)
    body = traces(11).body
    server = b"api.openai.com"
    assert body.count(server) == 1
    damaged = body.replace(server, b"\xff" * len(server))
    with pytest.raises(BadPayload):
        reader.parse_all(Payload("traces", damaged, json=False), CONTEXT)


def attribute(value: bytes) -> bytes:
    return field(1, b"n") + field(2, value)


@pytest.mark.parametrize("number", [0, 1, 127, 128, 16_384, 2**31, 2**63 - 1, -1, -(2**63)])
def test_whole_numbers_are_read_as_protobuf_does(number: int) -> None:
    value = wire.class_of("AnyValue")(int_value=number).SerializeToString()
    assert count_in(attribute(value), HEAD) == number


@pytest.mark.parametrize("value", [b"", b"\x18", b"\x18\x80", b"\x0a\x01a", b"\x18\x01\x18\x02", b"\x10\x01"])
def test_no_other_value_is_a_count(value: bytes) -> None:
    assert count_in(attribute(value), HEAD) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *((text, text) for text in ("chatcmpl-1", "x" * 125, "x" * 126, "x" * 128)),
        *((text, None) for text in ("x" * 129, "", "a b", "é", "none", '"')),
    ],
)
def test_names_of_one_word_are_texts_that_vary(text: str, found: str | None) -> None:
    assert text_in(attribute(field(1, text.encode())), HEAD) == found


def test_an_unread_attribute_is_one_that_protobuf_takes() -> None:
    unread = UnreadAttributes()
    assert unread.take(attribute(field(1, b"text")), "n")
    assert not unread.take(attribute(field(1, b"text")), "m")
    assert not unread.take(attribute(field(1, b"\xff")), "n")
    assert not unread.take(attribute(b"\x0a\x05a"), "n")
    nested = b""
    for _ in range(60):
        nested = field(5, field(1, nested))
    assert not unread.take(attribute(nested), "n"), "deeper than protobuf reads a request"


def test_attributes_known_to_be_unread_are_bounded() -> None:
    unread = UnreadAttributes()
    for number in range(10_000):
        unread.take(attribute(field(1, b"%d" % number)), "n")
    assert len(unread.known) <= 4096


def test_heads_end_before_the_size_of_the_value() -> None:
    assert heads_of([attribute(field(1, b"text"))]) == (HEAD,)


def test_conditions_are_bounds_where_one_side_is_constant() -> None:
    nodes = [("count", 0, 0), ("const", 0, 0), ("const", 9, 0), ("div", 0, 10), ("start_ns", 0, 0)]
    conditions = [
        ("less", 0, 1, False),  # 0 <= count
        ("equal", 0, 1, False),  # and not 0
        ("at_most", 3, 2, True),  # count // 10 <= 9
        ("equal", 0, 2, False),
        ("less", 4, 0, False),
    ]
    found = conditions_of(
        Lesson(nodes, conditions, is_ignored=False, is_suppressed=False, ai_source=None, call=None), set()
    )
    assert [(place, of.low, of.high) for place, of in found.bounds.items()] == [(0, 1, 99)]
    assert found.between == [("at_most", 0, 4, True), ("equal", 0, 2, False)]
