"""What `normalise --explain` states of every payload that AI gateways push: the record's own
values, the count's own outcomes, no content.
"""

import copy
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from gateway.common.contract.errors import BadPayload
from gateway.pipeline.explain.story import Field, leaves
from gateway.products.catalogue import SOURCES
from gateway.products.documents import documents_in
from tests.conformance.corpus.counting import Sent, counted, explained
from tests.conformance.corpus.explaining import assert_like, check
from tests.conformance.sources import test_records_again as corpus
from tests.conformance.sources.test_corpus import PUSHED, payload
from tests.support.source_reading import read

EXPLAINED = [path for path in PUSHED if path.parent.name in SOURCES]
AT_THE_TOP = [
    path for path in EXPLAINED if path.suffixes != [".gz"] and path.parent.name in {"litellm", "bedrock", "databricks"}
]
"""Whose documents the tables are laid over as they are."""


NOT_ALONE = {"operation", "provider", "trace.trace_id"}
"""Something else, or nothing at all, may state the same; as a total does of an input."""


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.meta.json')}"


async def assert_explained(*payloads: Sent) -> None:
    found = await explained(*payloads)
    check(found)
    assert_like(found, await counted(*payloads))


@pytest.mark.parametrize("path", EXPLAINED, ids=name)
async def test_an_explanation_says_what_the_record_and_the_count_say(path: Path) -> None:
    await assert_explained(payload(path)[1])


@pytest.mark.parametrize("path", EXPLAINED, ids=name)
async def test_a_payload_that_comes_twice_is_explained_too(path: Path) -> None:
    sent = payload(path)[1]
    await assert_explained(sent, sent)


@pytest.mark.parametrize("path", corpus.PUSHED, ids=name)
async def test_otlp_that_goes_to_a_source_is_explained_as_what_it_is(path: Path) -> None:
    sent = corpus.pushed(path)
    try:
        await assert_explained(sent)
    except BadPayload:
        with pytest.raises(BadPayload):
            await counted(sent)


@pytest.mark.parametrize("source", sorted({path.parent.name for path in EXPLAINED}))
async def test_all_that_one_gateway_sends_is_explained_together(source: str) -> None:
    await assert_explained(*(payload(path)[1] for path in EXPLAINED if path.parent.name == source))


@pytest.mark.parametrize("path", EXPLAINED, ids=name)
async def test_records_that_are_sent_on_are_explained_by_their_own_fields(path: Path) -> None:
    records = (await counted(payload(path)[1])).records
    if records:
        await assert_explained((b"\n".join(records), "/v1/sources/records", "application/x-ndjson", ""))


# ---- the names that are said to have won


def at(document: Any, way: tuple[str | int, ...]) -> Any:
    """What stands at *way*; None where nothing does."""
    for name in way:
        if isinstance(document, dict) and isinstance(name, str):
            document = document.get(name)
        elif isinstance(document, list) and isinstance(name, int) and name < len(document):
            document = document[name]
        else:
            return None
    return document


def without(document: Any, way: tuple[str | int, ...]) -> Any:
    """A copy of *document* without what stands at *way*; an entry of a list leaves an empty one."""
    left = copy.deepcopy(document)
    holder, name = at(left, way[:-1]), way[-1]
    if isinstance(holder, dict):
        del holder[name]
    else:
        holder[name] = type(holder[name])() if isinstance(holder[name], dict | list) else None
    return left


def value_without(document: Any, paths: tuple[str, ...], source: str, field: str) -> Any:
    """The field of the document's record when nothing stands at
    *paths*; None where it becomes none.
    """
    for path in paths:
        way = tuple(0 if part == "*" else part for part in path.split("."))
        assert at(document, way) is not None, path
        document = without(document, way)
    calls = read(source, document).calls.calls
    return leaves(dict(calls[0].record)).get(field) if calls else None


@pytest.mark.parametrize("path", AT_THE_TOP, ids=name)
async def test_without_the_paths_passed_over_a_field_is_the_same_and_without_all_of_them_another(path: Path) -> None:
    sent = payload(path)[1]
    items = (await explained(sent)).items
    by_names: dict[tuple[str, tuple[str, ...]], list[tuple[str, Field, bool]]] = defaultdict(list)
    is_read = items[0].item == "entry"
    found = {x.position: x.value for x in documents_in(sent[0]).found} if is_read else {}
    for item in items if found else ():
        is_input_only = bool(item.fields) and item.fields["operation"].value == "embeddings"
        for field, shown in item.fields.items():
            if shown.provenance.by not in {"item", "text"}:
                continue
            passed, won = shown.provenance.passed_over, shown.provenance.attributes
            if passed:
                by_names[item.position, passed].append((field, shown, True))
            if field not in NOT_ALONE and not (field == "usage.input_tokens" and is_input_only):
                by_names[item.position, (*passed, *won)].append((field, shown, False))
    for (position, names), fields in by_names.items():
        for field, shown, stays in fields:
            value = value_without(found[position], names, path.parent.name, field)
            assert (value == shown.value) == stays, (field, names)
