"""Documents of AI gateways are replayed by what was learnt of their shapes, and come out as by the
rules.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.normalise import CONTEXT
from gateway.contract.errors import BadPayload, TooLarge
from gateway.ingest.parsing.document_lessons import document_lesson
from gateway.ingest.parsing.document_reader import DocumentReader
from gateway.ingest.parsing.parse import Parsed, ParseRules, Payload, parse
from gateway.ingest.parsing.reader import ShapeReader
from gateway.normalise.context import UserPolicy
from gateway.pricing.prices import Prices
from gateway.sources.catalogue import SOURCES
from gateway.sources.litellm.payload import LEAVES

CORPUS = Path(__file__).parents[2] / "data/corpus/gateways/litellm"
RULES = ParseRules(Prices())
ROUNDS = 4
NOW_S = CONTEXT.received_at_ms / 1000
TEXTS = (
    *("", "None", "unknown", "n/a", "chatcmpl-1", "a b", "é", "x" * 128, "x" * 129, "x" * 300, "0" * 32, "_session_x"),
    *("f22616bf323b465cb97aa881b9e85959", "F22616BF323B465CB97AA881B9E85959", "f22616bf-323b-465c-b97a-a881b9e85959"),
    *("f22616bf-323b465cb97aa881b9e85959", "F22616BF-323b-465c-b97a-a881b9e85959", "00000000-0000-0000-0000-000000000000"),
    *("chatcmpl-1_cache_hit1.5", "gpt-4o", "openai/gpt-4o", "success", "failure", "12", "\ud83d\ude00", "a\nb"),
)  # fmt: skip
NUMBERS = (
    *(0, 1, -1, 7, 200_000, 2**31 - 1, 2**31, 2**40, 2**40 + 1, 10**15, 2**63, 2**64),
    *(0.0, -0.0, 1.0, 0.5, 1e-31, 7.5e-05, 0.020348750000000003, 1e9, 1e9 + 1, 1e11, 1e300),
    *(NOW_S, NOW_S - 0.25, NOW_S - 86_401, NOW_S + 301, NOW_S * 1000, int(NOW_S), 946_684_799.9995, 4_102_444_800),
)  # fmt: skip
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [{}], [None], {"a": 1}, "2026-01-05T10:00:01.250Z", "1.5", "true")


def captured() -> list[dict[str, Any]]:
    """Payloads of today's versions."""
    found = []
    for path in sorted(CORPUS.glob("generic_api_*.json")):
        if not path.name.endswith(".meta.json"):
            read = json.loads(path.read_text())
            found += read if isinstance(read, list) else [read]
    return found


def places(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The object that a leaf stands in, and its name there."""
    for leaf in LEAVES:
        at: Any = document
        for part in leaf.path[:-1]:
            at = (
                at[0] if part == "*" and isinstance(at, list) and at else at.get(part) if isinstance(at, dict) else None
            )
        if isinstance(at, dict):
            yield at, leaf.path[-1]


def as_next_call(document: dict[str, Any], random: Random) -> dict[str, Any]:
    """*document* with other ids, times and counts, as the next call of a program has them."""
    made: dict[str, Any] = json.loads(json.dumps(document))
    start_s = NOW_S - random.random() * 100
    made |= {
        "startTime": start_s,
        "endTime": start_s + random.random() * 9,
        "litellm_call_id": f"call-{random.random()}",
    }
    made["completionStartTime"] = start_s + random.random()
    for name in ("prompt_tokens", "completion_tokens"):
        made[name] = random.choice((0, 1, 700, 900_000))
    if random.random() < 0.7:
        made["id"] = f"chatcmpl-{random.random()}"
    if random.random() < 0.5:
        made["response_cost"] = random.choice((0, 0.1 * random.random(), 1e-7 * random.random()))
    return made


def odd(document: dict[str, Any], random: Random) -> dict[str, Any]:
    """*document* with some of what rules read changed, absent, or of another type."""
    made: dict[str, Any] = json.loads(json.dumps(document))
    for _ in range(random.choice((1, 1, 2, 5))):
        at, name = random.choice(list(places(made)))
        match random.randrange(5):
            case 0:
                at.pop(name, None)
            case 1:
                at[name] = random.choice(OTHERS)
            case 2:
                at[name] = random.choice(NUMBERS)
            case 3:
                at[name] = random.choice(
                    [other.get(key) for other, key in places(made) if not isinstance(other.get(key), list | dict)]
                )
            case _:
                at[name] = random.choice(TEXTS)
    if random.random() < 0.1:
        made[random.choice([".".join(leaf.path) for leaf in LEAVES])] = random.choice((*TEXTS, *NUMBERS))
    return made


def payload(*documents: Any) -> Payload:
    return Payload("litellm", json.dumps(documents).encode())


def sorted_sums(parsed: Parsed) -> Any:
    """*parsed* with its sums in one order."""
    if parsed.calls is None:
        return parsed
    ordered = parsed.calls._replace(
        used=sorted(parsed.calls.used, key=repr), reported=sorted(parsed.calls.reported, key=repr)
    )
    return parsed._replace(calls=ordered)


def same(reader: DocumentReader, sent: Payload, context: Any = CONTEXT) -> None:
    """Raises AssertionError where *reader* and the rules differ on *sent*."""
    rules, unpriced = ParseRules(Prices()), reader.rules.prices.unpriced
    unpriced.clear()
    assert sorted_sums(reader.parse(sent, context)) == sorted_sums(parse(sent, context, rules))
    assert unpriced == rules.prices.unpriced


def reader_of(**options: Any) -> DocumentReader:
    return DocumentReader(ParseRules(Prices()), **{"lessons_ns": 10**15, **options})


@pytest.mark.parametrize("_", range(2))
def test_varied_payloads_come_out_as_by_the_rules(chance: Random, _: int) -> None:
    reader, documents = reader_of(), captured()
    for _ in range(ROUNDS):
        for document in documents:
            calls = [as_next_call(document, chance) for _ in range(4)]
            same(reader, payload(document, *calls, odd(calls[0], chance), *calls, odd(document, chance)))
    assert reader.learnt > ROUNDS * len(documents)


def test_what_is_learnt_of_one_call_reads_the_next_of_it() -> None:
    read = 0
    for document in captured():
        reader, random = reader_of(), Random(1)
        document |= {"prompt_tokens": 12, "completion_tokens": 3}
        for _ in range(3):
            same(
                reader,
                payload(
                    as_next_call(document, random)
                    | {"prompt_tokens": 12, "completion_tokens": 3, "response_cost": 0.25}
                ),
            )
        read += reader.learnt
    assert read >= len(captured())


@pytest.mark.parametrize("users", ["keep", "hash", "drop"])
def test_senders_are_kept_apart(users: str) -> None:
    reader, document = reader_of(), captured()[0]
    policy = UserPolicy(users, b"secret")  # type: ignore[arg-type]  # of its words
    contexts = [
        CONTEXT._replace(peer=peer, key=key, key_fixes=fixes, users=policy)
        for peer in ("10.0.0.1", "10.0.0.2")
        for key, fixes in ((None, {}), ("a", {}), ("a", {"team": "red", "session": "s"}))
    ]
    for _ in range(3):
        for context in contexts:
            same(reader, payload(document, document), context)
    assert reader.learnt >= 2 * len(contexts)


SESSION_IN_USER = "the session of the user's id"
CHANGES: dict[str, tuple[str, Any, Any]] = {
    "a trace id with odd dashes": (
        "metadata.requester_metadata.trace_id",
        "a-name",
        "f22616bf-323b465cb97aa881b9e85959",
    ),
    "a trace id in capitals": ("trace_id", "a-name", "F22616BF323B465CB97AA881B9E85959"),
    "a UUID where a name stood": ("id", "chatcmpl-1", "f22616bf-323b-465c-b97a-a881b9e85959"),
    "the end of a cached answer's id": ("id", "chatcmpl-1", "chatcmpl-1_cache_hit17.5"),
    "no id": ("id", "chatcmpl-1", "None"),
    SESSION_IN_USER: (
        "trace_id",
        "f22616bf-323b-465c-b97a-a881b9e85958",
        "f22616bf-323b-465c-b97a-a881b9e85959",
    ),
    "1 where true stood": ("cache_hit", True, 1),
    "a count beyond every count": ("prompt_tokens", 12, 2**40 + 1),
    "a cost beyond every cost": ("response_cost", 0.5, 1e9 + 1),
    "a cost of nothing": ("response_cost", 0.5, 0),
    "milliseconds where seconds stood": ("startTime", NOW_S, NOW_S * 1000),
    "a time before every call": ("startTime", NOW_S, 1.5),
    "the end before the start": ("endTime", NOW_S, NOW_S - 86_500),
    "more reasoning than output": ("metadata.usage_object.completion_tokens_details.reasoning_tokens", 1, 10**6),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_looks_alike_and_is_not_is_read_as_by_the_rules(name: str) -> None:
    path, *values = CHANGES[name]
    *objects, last = path.split(".")
    learnt = 0
    for document in captured():
        reader = reader_of()
        for value in (values[0], values[0], values[1], values[0], values[1]):
            sent = json.loads(json.dumps(document))
            at = sent
            for part in objects:
                at[part] = at.get(part) or {}
                at = at[part]
            at[last] = value
            if name == SESSION_IN_USER:
                sent["metadata"]["requester_metadata"] = {"user_id": f"u_session_{values[1]}"}
            same(reader, payload(sent))
        learnt += reader.learnt
    assert learnt or name == SESSION_IN_USER  # which is left to the rules


def test_other_documents_between_are_counted_in_their_places() -> None:
    reader, document = reader_of(), captured()[0]
    other = {"event": "budget_crossed", "event_group": "user"}
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "startTimeUnixNano": "1767607200000000000", "name": "chat"}
    exported, spans = {"resourceSpans": [{"scopeSpans": [{"spans": [span, span, span]}]}]}, {"resourceSpans": []}
    daily = json.loads((CORPUS / "cloudzero_cbf_daily.json").read_text())
    for _ in range(3):
        same(reader, payload(document, other, document, None, document, {"a": 1}, [], document))
        same(reader, payload(document, exported, document, document, spans, document, document))
        same(reader, payload(document, document, daily, document, document))
        same(reader, payload(*[document] * 9, other, *[document] * 3))
    assert reader.learnt


@pytest.mark.parametrize("cut", [1, 40, 400])
def test_damaged_bodies_are_refused_as_by_the_rules(cut: int) -> None:
    reader, whole = reader_of(), payload(*captured())
    same(reader, whole)
    damaged = whole._replace(body=whole.body[:-cut])
    for read in (lambda: reader.parse(damaged, CONTEXT), lambda: parse(damaged, CONTEXT, RULES)):
        with pytest.raises(BadPayload):
            read()


def test_more_documents_than_are_allowed_are_refused() -> None:
    context = CONTEXT._replace(limits=CONTEXT.limits._replace(max_items=6))
    reader, document = reader_of(), captured()[0]
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "startTimeUnixNano": "1767607200000000000", "name": "chat"}
    spans = {"resourceSpans": [{"scopeSpans": [{"spans": [span] * 3}]}]}
    same(reader, payload(document, document, spans), context)
    for sent in (payload(*[document] * 7), payload(document, spans, spans)):
        for read in (reader.parse, lambda one, of: parse(one, of, RULES)):
            with pytest.raises(TooLarge):
                read(sent, context)


def test_a_rule_that_reads_more_than_its_leaves_is_left_to_itself() -> None:
    litellm = SOURCES["litellm"]

    def read(documents: Any, out: Any, context: Any) -> None:
        litellm.read(documents, out, context)
        for document, call in zip(documents, out.calls.calls, strict=True):
            call.record["service_tier"] = document.value.get("cache_key")

    source = type(litellm)(**{**{name: getattr(litellm, name) for name in litellm.__slots__}, "read": read})
    reader = DocumentReader(ParseRules(Prices(), sources={"litellm": source}))
    for _ in range(3):
        found = reader.parse(payload(*[captured()[0]] * 3), CONTEXT)
        assert found == parse(payload(*[captured()[0]] * 3), CONTEXT, reader.rules)
    assert not reader.learnt


def test_changed_prices_are_learnt_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, document = reader_of(), captured()[0] | {"response_cost": 0}
    for _ in range(3):
        same(reader, payload(document))
    known = reader.learnt
    lessons: list[object] = []
    monkeypatch.setattr(
        "gateway.ingest.parsing.document_reader.document_lesson",
        lambda *arguments: (lessons.append(arguments), document_lesson(*arguments))[1],
    )
    reader.rules.prices.changes += 1
    same(reader, payload(document))
    assert (len(lessons), reader.learnt) == (1, known)


def test_lessons_are_bounded_in_bytes_and_in_time() -> None:
    document = captured()[0]
    new = [payload(document | {"model": f"model-{n}", f"new{n}": n}) for n in range(60)]
    reader = reader_of(max_bytes=200_000)
    for one in new:
        same(reader, one)
    assert 0 < reader.bytes < 400_000
    hurried = reader_of(lessons_ns=0)
    for one in new[:20]:
        same(hurried, one)
    assert len(hurried._known) < 20


def test_every_way_of_parsing_reads_by_lessons() -> None:
    reader = ShapeReader(ParseRules(Prices()))
    for _ in range(3):
        reader.parse_all(payload(*captured()[:1]), CONTEXT)
    assert reader.documents.learnt == 2
