"""`normalise --explain` of what AI gateways push, on payloads made for one reason each:
through the real spool and ledger.
"""

from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from gateway.cli.explaining import Explained, explain_payloads, printed
from gateway.cli.main import main
from gateway.common.contract.errors import BadPayload
from gateway.pipeline.explain.entries import explain_entries
from gateway.pipeline.explain.story import Explanation
from gateway.products.catalogue import SOURCES
from tests.conformance.corpus.explaining import check
from tests.support.source_reading import CONTEXT, read
from tests.unit.products.test_aperture import hook
from tests.unit.products.test_azure_apim import diagnostic
from tests.unit.products.test_bedrock import delivery, entry, envelope, zipped
from tests.unit.products.test_hostile_payloads import CANARY, IDS, PAYLOADS, changed, places
from tests.unit.products.test_langfuse import batch, create, trace, update

SOME_HOSTILE: list[Any] = [None, True, -1, 1.5, "", [[]], {"": {}}, "2026-13-45T99:00:00Z"]
CALL = {
    "id": "c-1", "time": "2026-11-20T07:00:00Z", "model": "gpt-5-mini", "duration_ms": 12,
    "usage": {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}},
}  # fmt: skip

LITELLM = [
    orjson.loads(line)
    for line in Path("tests/data/corpus/gateways/litellm/generic_api_batch_ndjson.ndjson").read_bytes().splitlines()
]


def captured(name: str) -> Any:
    return orjson.loads(Path(f"tests/data/corpus/gateways/{name}.json").read_bytes())


def sent(source: str, *documents: Any) -> tuple[bytes, str, str, str]:
    return b"\n".join(map(orjson.dumps, documents)), f"/v1/sources/{source}", "application/json", ""


async def explained(*payloads: tuple[bytes, str, str, str]) -> Explained:
    """Checked as every payload of the corpus is."""
    found = await explain_payloads(payloads)
    check(found)
    return found


async def item(source: str, document: Any) -> Explanation:
    (found,) = (await explained(sent(source, document))).items
    return found


# ---- where values came from


async def test_the_path_of_the_table_that_won_is_shown_and_the_others_that_hold_a_value() -> None:
    explanation = await item("generic", {**CALL, "input_tokens": 0, "user": "ann", "user_id": "u1"})
    assert explanation.fields["usage.input_tokens"].provenance == ("item", ("usage.prompt_tokens",), ("input_tokens",))
    assert explanation.fields["attribution.user"].provenance == ("item", ("user",), ("user_id",))
    assert explanation.record_id_from == "id"
    assert (explanation.item, explanation.convention) == ("entry", "generic")


async def test_what_no_table_holds_is_found_by_asking_the_source_again() -> None:
    explanation = await item("generic", {**CALL, "status_code": 429, "error_type": "RateLimitError"})
    assert explanation.fields["started_at"].provenance.attributes == ("time",)
    assert explanation.fields["duration_ms"].provenance.attributes == ("duration_ms",)
    assert explanation.fields["error_type"].provenance == ("item", ("error_type",), ("status_code",))
    assert explanation.fields["status"].provenance.attributes == ("status_code", "error_type")  # each alone is enough


async def test_the_input_is_explained_with_its_basis_and_its_parts() -> None:
    counts = {"inputTokenCount": 10, "cacheReadInputTokenCount": 4, "cacheWriteInputTokenCount": 2}
    explanation = await item("bedrock", entry(input=counts))
    assert explanation.input is not None
    assert (explanation.input.basis, explanation.input.sum) == ("exclusive", "10 + 4 + 2")
    assert explanation.fields["usage.input_tokens"].provenance.attributes == (
        "input.inputTokenCount", "input.cacheReadInputTokenCount", "input.cacheWriteInputTokenCount",
    )  # fmt: skip


async def test_what_a_raw_answer_gives_is_explained_as_inside_its_text() -> None:
    answer = {"id": "chatcmpl-9", "model": "gpt-5-mini-2026", "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    row = {"id": "p-1", "created_at": "2026-11-20T07:00:00Z", "ai_org": "openai", "ai_model": "gpt-5-mini"}
    explanation = await item("portkey", {**row, "response": orjson.dumps(answer).decode()})
    for field in ("response_id", "usage.input_tokens", "usage.output_tokens"):
        assert explanation.fields[field].provenance == ("text", ("response",), ()), field


async def test_a_report_without_a_time_has_that_of_its_receipt() -> None:
    explanation = await item("aperture", hook())
    assert explanation.fields["started_at"].provenance.by == "envelope"
    assert "received" in explanation.fields["started_at"].note
    assert "received_time" in explanation.fields["flags"].note


async def test_an_entry_inside_packed_envelopes_is_explained_by_its_own_paths() -> None:
    (explanation,) = (await explained(sent("bedrock", delivery(zipped(envelope(entry())))))).items
    assert explanation.position == "records[0].logEvents[0]"
    assert explanation.fields["usage.output_tokens"].provenance.attributes == ("output.outputTokenCount",)


async def test_a_cost_that_nobody_reported_comes_from_the_price_list() -> None:
    explanation = await item("generic", CALL)
    assert explanation.fields["cost"].provenance.by == "price_list"


async def test_a_cache_that_did_not_answer_is_no_origin_of_a_cost() -> None:
    stated = next(document for document in LITELLM if document["cache_hit"] is False and document["response_cost"])
    for hit, origin in ((False, "response_cost"), (True, "cache_hit")):
        found = (await item("litellm", {**stated, "cache_hit": hit})).fields["cost"]
        assert (found.provenance.attributes, "cache answered" in found.note) == ((origin,), hit)


@pytest.mark.parametrize("word", ["false", "MISS", "0"])
async def test_a_word_for_no_cache_hit_is_no_origin_of_a_cost(word: str) -> None:
    for source, name in (("cloudflare", "cached"), ("generic", "gateway_cache_hit")):
        found = (await item(source, {**CALL, "cost": 0.0125, name: word})).fields["cost"]
        assert (found.provenance.attributes, found.note) == (("cost",), "")


async def test_a_cache_that_answered_is_the_origin_of_what_no_one_billed() -> None:
    kong, helicone = captured("kong/http_log_single"), captured("helicone/webhook_full")
    for usage in kong["ai"].values():
        usage["cache"] = {"cache_status": "Hit"}
    helicone["cache_reference_id"] = "c1"
    older = {
        "id": "chatcmpl-1", "call_type": "acompletion", "cache_hit": "True", "startTime": "2026-11-20 07:00:00",
        "model": "gpt-5-mini", "modelParameters": "{}", "usage": "Usage(completion_tokens=3, prompt_tokens=9)",
    }  # fmt: skip
    for source, document, name in (
        ("kong", kong, "ai.*.cache.cache_status"),
        ("helicone", helicone, "cache_reference_id"),
        ("litellm", older, "cache_hit"),
        ("cloudflare", {**CALL, "cached": "true"}, "cached"),
    ):
        for found in (await explained(sent(source, document))).items:
            if found.outcome == "kept":
                billed = found.fields["billed"]
                assert billed.provenance.attributes[-1:] == (name,), (source, found.fields["billed"])
                assert billed.note == "a gateway's cache answered"


# ---- what became no record


async def test_each_part_of_a_body_has_its_position_and_its_reason() -> None:
    rows = {"records": [diagnostic(), {**diagnostic(), "category": "Other"}, 7, diagnostic()]}
    found = (await explained(sent("azure-apim", rows))).items
    outcomes = {explanation.position: (explanation.outcome, explanation.reason) for explanation in found}
    assert outcomes["records[1]"] == ("ignored", None)
    assert outcomes["records[2]"] == ("rejected", "not_an_object")
    assert sorted(outcomes[f"records[{n}]"] for n in (0, 3)) == [("kept", None), ("suppressed", "split_message")]


async def test_a_line_that_is_no_json_is_rejected_at_its_place() -> None:
    body = orjson.dumps(CALL) + b"\n{not json\n"
    found = (await explained((body, "/v1/sources/generic", "application/x-ndjson", ""))).items
    assert {(explanation.position, explanation.outcome, explanation.reason) for explanation in found} == {
        ("line 1", "kept", None),
        ("line 2", "rejected", "not_json"),
    }


async def test_a_call_that_comes_again_is_reported_with_the_record_that_represents_it() -> None:
    first, second = (await explained(sent("generic", CALL), sent("generic", CALL))).items
    assert (second.outcome, second.reason) == ("duplicate", "same_span")
    assert second.of == [first.record_id]
    assert not second.fields


async def test_otlp_among_the_documents_is_explained_as_spans() -> None:
    span = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1", "startTimeUnixNano": "1795158000000000000"}
    found = (await explained(sent("openrouter", {"resourceSpans": []}, span, {"id": "x"}))).items
    assert {explanation.item for explanation in found} == {"span", "entry"}
    assert {explanation.position for explanation in found} >= {"line 2.resourceSpans[0].scopeSpans[0].spans[0]"}


async def test_what_is_said_of_a_trace_later_is_an_item_of_its_own() -> None:
    call, said = batch(create(), update()), batch(trace(userId="ann"))
    found = (await explained(sent("langfuse", call), sent("langfuse", said))).items
    kept, later = found[0], found[-1]
    assert (later.item, later.outcome, later.of) == ("report", "duplicate", [kept.record_id])
    assert kept.fields["attribution.user"].value == "ann"
    assert kept.fields["attribution.user"].provenance.by == "other_item"


# ---- hostile payloads


@pytest.mark.parametrize(("name", "payload"), PAYLOADS, ids=IDS)
def test_whatever_is_in_any_place_is_explained_item_by_item(name: str, payload: Any) -> None:
    for n, path in enumerate(places(payload)):
        body = orjson.dumps(changed(payload, path, SOME_HOSTILE[n % len(SOME_HOSTILE)]))
        try:
            out = read(name, body, CONTEXT)
        except BadPayload:
            continue
        singles = list(explain_entries(SOURCES[name], body, 0, CONTEXT))
        assert len(singles) == out.calls.items + out.measured.items
        assert len([x for x in singles if x.call]) == len(out.calls.calls)


def strewn(value: Any) -> Any:
    """A user's words as a name and as a value in each object."""
    if isinstance(value, dict):
        inner = {name: strewn(below) for name, below in value.items()}
        return {**inner, CANARY: {CANARY: CANARY, "model": {CANARY: [CANARY]}}, "note": CANARY}
    return [strewn(below) for below in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("name", "payload"), PAYLOADS, ids=IDS)
async def test_no_word_of_a_user_is_shown(name: str, payload: Any) -> None:
    found = await explain_payloads([sent(name, strewn(payload))])
    assert found.items
    for as_json in (True, False):
        assert "CANARY" not in "".join(printed(found.items, as_json=as_json))


async def test_a_name_that_is_not_in_our_code_is_not_shown_where_a_value_is_below_it() -> None:
    answer = orjson.dumps({"id": "chatcmpl-1", "usage": {"prompt_tokens": 7, "completion_tokens": 2}}).decode()
    plugin = {"meta": {"provider_name": "openai", "request_model": "gpt-5-mini"}, "payload": {"response": answer}}
    log = {"started_at": 1795158000000, "request": {"id": "r-1"}, "ai": {"CANARY": plugin}}
    explanation = await item("kong", log)
    assert explanation.fields["response_id"].provenance == ("text", ("ai.*.payload.response",), ())


# ---- the command


def test_the_command_explains_a_gateways_payload() -> None:
    arguments = ["normalise", "--explain", "--path", "/v1/sources/generic", "--content-type", "application/json"]
    ran = CliRunner().invoke(main, arguments, input=orjson.dumps([CALL]))
    assert ran.exit_code == 0
    assert ran.stdout.startswith("[0]: entry: kept\n")
    assert "    usage.cache_read_input_tokens      4  <- usage.prompt_tokens_details.cached_tokens\n" in ran.stdout


def test_a_mapping_of_the_operators_own_is_reported_by_its_paths(tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text(
        "attributes: {user: hash}\n"
        "sources: {generic: {fields: {request_model: llm, input_tokens: n.in, output_tokens: n.out, user: who}}}\n"
    )
    arguments = ["normalise", "--explain", "--json", "--path", "/v1/sources/generic", "--config", str(config)]
    ran = CliRunner().invoke(main, arguments, input=b'{"llm": "ours", "n": {"in": 2, "out": 1}, "who": "u-1"}')
    fields = orjson.loads(ran.stdout)["fields"]
    assert fields["usage.input_tokens"]["attributes"] == ["n.in"]
    assert fields["attribution.user"]["attributes"] == ["who"]
    assert "u-1" not in ran.stdout


def test_a_source_that_is_none_is_an_error_that_names_the_paths() -> None:
    ran = CliRunner().invoke(main, ["normalise", "--explain", "--path", "/v1/sources/other"], input=b"{}")
    assert ran.exit_code == 2
    assert "/v1/sources/NAME" in ran.stderr
