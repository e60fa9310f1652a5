"""Where a payload of spans is read: the same comes out with the native extension and without it."""

import pytest

from benchmarks.normalise import CONTEXT, gen_ai, request
from gateway.pipeline.parsing import reader
from gateway.pipeline.parsing.frames import job_of, unpack
from gateway.pipeline.parsing.parse import ParseRules, Payload, parse
from gateway.pipeline.parsing.parser import Parser
from gateway.pipeline.parsing.worker import Reader, answer
from gateway.usage.pricing.prices import Prices
from tests.support.workers import worker_setup

RULES = ParseRules(Prices())


def traces(*numbers: int) -> Payload:
    return Payload("traces", request(gen_ai, "opentelemetry.instrumentation.openai_v2", numbers), json=False)


@pytest.mark.skipif(reader.NATIVE is None, reason="the native extension is not used")
async def test_the_extension_reads_shapes_that_it_knows() -> None:
    parser = Parser(RULES)
    for payload in (traces(1), traces(11, 21, 31)):
        assert await parser.parse(payload, CONTEXT) == parse(payload, CONTEXT, RULES)
    status = parser.reader.status()
    assert (status["name"], status["native_spans"], status["python_payloads"]) == ("native", 3, {"unknown": 1})
    assert parser.reader.template_bytes > 0


async def test_without_the_extension_the_rules_read_all_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "NATIVE", None)
    parser = Parser(RULES)
    for payload in (traces(1), traces(11, 21, 31)):
        assert await parser.parse(payload, CONTEXT) == parse(payload, CONTEXT, RULES)
    status = parser.reader.status()
    assert status["name"] == "python"
    assert (status["native_spans"], status["python_spans"], status["python_payloads"]) == (0, {}, {})
    assert not parser.reader.reads_spans
    assert parser.reader.read_together([traces(1).body], CONTEXT) is None


def test_the_worker_process_reads_spans_by_the_rules() -> None:
    worker = Reader(worker_setup())
    for payload in (traces(1), traces(11, 21)):
        fields, unpriced = answer(job_of(payload, CONTEXT), worker)
        assert unpack(fields) == parse(payload, CONTEXT, RULES)
        assert unpriced == {}
