"""Every field of the record goes every way that a record goes: merged with another observation of
its call, forwarded to another gateway, as a span and back, explained, described, mapped.

The fields are found in the type of the record, so a field that is added is tested by that alone. A
failure names what is missing.
"""

import gzip
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args, get_origin, get_type_hints, is_typeddict

import orjson
import pytest

from exporters.cost_service.encode import encode_records
from exporters.otlp.encode import encode_spans
from gateway.counting.calls.merge import merge
from gateway.operate.openapi.document import gateway_document
from gateway.pipeline.explain.spans import explain_spans
from gateway.pipeline.explain.story import Explanation
from gateway.products.generic.mapping import is_field
from gateway.products.generic.source import generic_source
from gateway.products.records.fields import InvalidField, record_of
from gateway.products.records.source import read_stated
from gateway.read.otlp_protobuf import decode_traces
from gateway.rules.attribution import RESOURCE_NAMES
from gateway.rules.conventions.shared import NAMES, kind_of
from gateway.rules.extract import COUNT, NUMBER
from gateway.rules.traces import normalise_traces
from spool.fields import IN_SPAN
from spool.record import AI_TELEMETRY, FIELDS, SCHEMA, Batch, Record
from tests.support.source_reading import CONTEXT, record
from tests.unit.rules.spans import request

Path_ = tuple[str, ...]
DOCS: Final = Path(__file__).parents[2] / "docs"


def leaves(part: Any, above: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Path and type of each field, that of a part's fields in place of the part."""
    for name, hint in get_type_hints(part).items():
        inner = next((each for each in (hint, *get_args(hint)) if is_typeddict(each)), None)
        if inner is None:
            yield (*above, name), hint
        else:
            yield from leaves(inner, (*above, name))


TYPES: Final = dict(leaves(Record))
PATHS: Final = tuple(TYPES)
every_field = pytest.mark.parametrize("path", PATHS, ids=".".join)


def found_at(value: Any, path: Path_) -> Any:
    """None where nothing is."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def put_at(value: dict[str, Any], path: Path_, found: Any) -> None:
    for name in path[:-1]:
        value = value.setdefault(name, {})
    value[path[-1]] = found


# ---- a record with every field, of values that the intake takes


def kinds_of(hint: Any) -> set[Any]:
    """The types that *hint* allows, without their parameters."""
    return {get_origin(each) or each for each in (hint, *get_args(hint))}


COUNTS: Final = tuple(path for path, hint in TYPES.items() if int in kinds_of(hint) and dict not in kinds_of(hint))


def values_of(path: Path_) -> tuple[Any, ...]:
    """Values that the field may have; the first that the intake takes is used. No two fields have
    the same text or number, so none can stand for another; each part of a count is below its whole.
    """
    place, hint = PATHS.index(path), TYPES[path]
    kinds = kinds_of(hint)
    if list in kinds:
        return ([get_args(get_args(hint)[0])[-1]],)
    if dict in kinds:
        return ({f"gen_ai.usage.odd_{place}": f"v-{place}"}, {f"gen_ai.usage.odd_{place}": place})
    if Literal in kinds:
        words = get_args(hint)
        return words[::-1] if path == ("status",) else words  # a failed call may have all fields
    if bool in kinds:
        return (True,)
    if int in kinds:
        return (1 << (20 - COUNTS.index(path)),)
    time = f"2026-11-20T07:00:{place:02}.000Z"
    return f"v-{place}", f"{place:032x}", f"{place:016x}", time, f"0.{place}", "USD", SCHEMA


def full_record() -> dict[str, Any]:
    """What the intake says of a field leads to its next value. Fails where it takes none."""
    chosen = {path: list(values_of(path)) for path in PATHS}
    while True:
        made: dict[str, Any] = {}
        for path, values in chosen.items():
            assert values, f"the intake takes no value for {'.'.join(path)}"
            put_at(made, path, values[0])
        try:
            record_of(made, CONTEXT.received_at)
        except InvalidField as fault:
            chosen[tuple(fault.field.split("."))].pop(0)
        else:
            return made


FULL: Final = full_record()


# ---- merged

MERGED_APART: Final = ("usage", "attribution")
"""Parts of which each field is completed by itself; any other part is one value."""
RULED: Final = frozenset({("operation",), ("usage", "status")})
"""Stated with the model that was called, and with the sums of tokens."""
ROWS: Final = {field.path: field.row for field in FIELDS}


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "later"])
@every_field
def test_an_observation_that_knows_a_field_gives_it_to_one_that_does_not(path: Path_, *, is_first: bool) -> None:
    whole = path if path[0] in MERGED_APART else path[:1]
    lacking = without(FULL, whole)
    if lacking is None or whole in RULED:
        return
    reports = [FULL, lacking] if is_first else [lacking, FULL]
    merged = merge([cast("Record", deepcopy(each)) for each in reports], FULL["record_id"])
    is_lost = ROWS[whole].merge == "first" and not is_first
    assert found_at(merged, path) == (None if is_lost else found_at(FULL, path))


def without(sent: dict[str, Any], path: Path_) -> dict[str, Any] | None:
    """The record that does not know the field: absent, or null. None where that is no record."""
    made = deepcopy(sent)
    part: Any = made
    for name in path[:-1]:
        part = part[name]
    hint = get_type_hints(part_at(path[:-1]))[path[-1]]
    if path[-1] not in part_at(path[:-1]).__required_keys__:
        del part[path[-1]]
    elif type(None) in get_args(hint):
        part[path[-1]] = None
    else:
        return None
    return made


def part_at(path: Path_) -> Any:
    part: Any = Record
    for name in path:
        hint = get_type_hints(part)[name]
        part = next(each for each in (hint, *get_args(hint)) if is_typeddict(each))
    return part


# ---- forwarded


FORWARDED: Final = record(
    "records", encode_records(Batch("b-1", AI_TELEMETRY, 0, 0, "2026-11-20T07:10:00.000Z", (orjson.dumps(FULL),)), "gw")
)


@every_field
def test_a_field_is_forwarded_to_another_gateway(path: Path_) -> None:
    assert found_at(FORWARDED, path) == found_at(FULL, path)


AS_SPAN: Final = gzip.decompress(encode_spans([orjson.dumps(FULL)], packs=True).body)


@every_field
def test_a_field_comes_back_from_a_span(path: Path_) -> None:
    (call,) = read_stated(normalise_traces(decode_traces(AS_SPAN), CONTEXT), CONTEXT).calls
    assert found_at(call.record, path) == found_at(FULL, path)


# ---- explained


TABLES: Final = RESOURCE_NAMES | NAMES
"""What conventions call a field -> the attributes of a resource or a span."""


def explained(words: set[str]) -> Explanation:
    """Of a failed span with an attribute for each of *words*."""
    of_span = {NAMES[word][0]: stated_value(word) for word in words & NAMES.keys()}
    of_resource = {RESOURCE_NAMES[word][0]: stated_value(word) for word in words - NAMES.keys()}
    sent = request(of_span, version="1.2", resource=of_resource, parent_span_id=bytes(range(8)), status=2)
    (single,) = explain_spans(decode_traces(sent.SerializeToString()), 0, CONTEXT._replace(key=None))
    return single.explanation


def stated_value(word: str) -> Any:
    kind = kind_of(word)
    return 7 if kind == COUNT else 1.0 if kind == NUMBER else {"currency": "EUR", HIT: "true"}.get(word, f"v-{word}")


STATED: Final = {
    field.path: [word for word in field.row.words if word in TABLES]
    for field in FIELDS
    if field.row.words and field.row.attribute != IN_SPAN
}
"""Field -> its words that the tables of spans have."""
HIT: Final = "cache_hit"
"""With which nothing is billed; any other statement is of a call that is."""
WORDS: Final = {words[0] for words in STATED.values() if words}
EXPLAINED: Final = {False: explained(WORDS - {HIT}), True: explained(WORDS)}


@pytest.mark.parametrize("path", STATED, ids=".".join)
def test_an_explanation_names_the_attribute_that_states_a_field(path: Path_) -> None:
    words = STATED[path]
    assert words, "no table of a convention states it: gateway/rules/conventions/shared.py"
    fields = EXPLAINED[words[0] == HIT].fields
    name = "cost" if path[0] == "cost" else ".".join(path)
    assert name in fields, "nothing takes it from what a sender states"
    assert TABLES[words[0]][0] in fields[name].provenance.attributes


SHOWN: Final = next(explain_spans(decode_traces(AS_SPAN), 0, CONTEXT)).explanation.fields
NOT_SHOWN: Final = frozenset({"schema", "record_id", "kind", "received_at"})


@every_field
def test_an_explanation_of_a_forwarded_field_does_not_call_it_a_default(path: Path_) -> None:
    names = {".".join(path[: depth + 1]) for depth in range(len(path))}
    shown = [field for name, field in SHOWN.items() if name in names or name.startswith(".".join(path) + ".")]
    assert path[0] in NOT_SHOWN or shown
    assert not [field for field in shown if field.provenance.by == "default"]


# ---- described, mapped, documented

SCHEMAS: Final = gateway_document()["components"]["schemas"]


@every_field
def test_the_api_describes_a_field(path: Path_) -> None:
    schema: Any = {"$ref": "Record"}
    for name in path:
        ref = next(each["$ref"] for each in (schema, *schema.get("oneOf", ())) if "$ref" in each)
        schema = SCHEMAS[ref.rpartition("/")[2]]["properties"].get(name)
        assert schema is not None, name


MAPPED_OTHERWISE: Final = frozenset({("billed",), ("status",), ("cost",)})
"""By `gateway_cache_hit`, `status_code` and, for all of it, `cost`."""
MAPPED: Final = tuple(path for path, row in ROWS.items() if row.words and path not in MAPPED_OTHERWISE)


def mapped(**changes: Any) -> dict[str, Any]:
    """What the generic source makes of an item with a member for each field that can be mapped."""
    names = [path[-1] for path in MAPPED if is_field(path[-1])]
    item = {path[-1]: found_at(FULL, path) for path in MAPPED}
    item |= {"started_at": FULL["started_at"], "cost": 0.5, "currency": "EUR", **changes}
    fields = {name: name for name in [*names, "cost"]}
    return record(generic_source({"time": "started_at", "fields": fields}), item, CONTEXT)


@pytest.mark.parametrize("path", MAPPED, ids=".".join)
def test_a_field_can_be_mapped_from_a_customers_json(path: Path_) -> None:
    assert is_field(path[-1])
    expected = "EUR" if path == ("cost", "currency") else found_at(FULL, path)
    assert found_at(mapped(), path) == expected


FORMATS, GENERIC = ((DOCS / name).read_text("utf-8") for name in ("formats.md", "senders/generic.md"))


@every_field
def test_a_field_is_documented(path: Path_) -> None:
    assert f"| `{'.'.join(path)}` |" in FORMATS
    assert path not in MAPPED or f"`{path[-1]}`" in GENERIC
