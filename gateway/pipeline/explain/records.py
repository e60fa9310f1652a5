"""The fields of one record, and what each was made from. Pure; the same for spans, log
records and metric points.

The record is the normaliser's; here its fields are only traced back. What the normaliser
computes (a provider from a model's name, an input from its parts) is computed again with its
own functions, and named where it gives the same.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, assert_never

from gateway.common.contract.flags import FLAG_MEANINGS
from gateway.common.traced import Recording
from gateway.counting.calls.digest import identity
from gateway.pipeline.explain.story import Explanation, Field, Single, WholeSum, leaves
from gateway.read.view import Attributes
from gateway.rules.attribution import RESOURCE_INTERESTS, attribute
from gateway.rules.call import Call
from gateway.rules.context import Context
from gateway.rules.conventions.table import Convention
from gateway.rules.extract import Extracted
from gateway.rules.provenance import Provenance, add_tags, joined, pick_recorded
from gateway.rules.provider import provider
from gateway.rules.record import called, output_basis
from gateway.rules.tags import Tags
from gateway.rules.usage import Basis, Proof, Wholes, cached_tokens, has_cache, read_wholes
from spool.record import FIELDS, Attribution

_TAKEN_FROM = {".".join(field.path): field.row.words for field in FIELDS if field.row.words} | {
    "usage.other.total_tokens": ("total",)
}
"""Field of the record -> the picked fields that it is taken from: the first that is there."""
_SUMMED = frozenset({"usage.cache_creation_input_tokens"})

Origins = Mapping[str, Provenance]
"""Picked field -> where its value came from."""


def provenances_of(resource: Attributes, tags: Tags) -> Origins:
    """Where the attribution that a resource states came from."""
    picked = pick_recorded(resource, RESOURCE_INTERESTS, Recording(), "resource")
    add_tags(picked, resource, tags, "resource")
    return picked.provenances()


class Traced(NamedTuple):
    """One item's own record, and all that it was made from."""

    record: Mapping[str, Any]
    picked: Extracted
    """After the texts were read."""
    origins: Origins
    resource: Origins
    """Of the attribution that the resource states."""
    envelope: Mapping[str, Field]
    """Fields that ids, times and status state, for what no attribute states."""
    convention: Convention
    context: Context


def fields_of_record(traced: Traced) -> dict[str, Field]:
    """Each field of the item's own record."""
    return {path: _field(traced, path, value) for path, value in leaves(dict(traced.record)).items()}


def explain_call(explanation: Explanation, call: Call, traced: Traced, id_from: str) -> Single:
    """*call* by itself, as *explanation* has it; *id_from*: what its record's id is made of."""
    explanation.record_id, explanation.record_id_from = call.record["record_id"], id_from
    explanation.input, explanation.output = input_sum(traced), output_sum(traced)
    explanation.fields = fields_of_record(traced)
    return Single(explanation, call, identity(call))


def _field(traced: Traced, path: str, value: Any) -> Field:
    if path.startswith("attribution."):
        return Field(value, _attributed(traced, path.removeprefix("attribution.")))
    if path in _MADE:
        return _MADE[path](traced, value)
    found = None if (path, value) in _UNTOLD else _taken(traced, path)
    envelope = traced.envelope.get(path)
    if found is not None:
        also = () if envelope is None else envelope.provenance.attributes
        return Field(value, found._replace(passed_over=(*found.passed_over, *also)), _mapped(traced, path, value))
    return (
        Field(value, Provenance("default"), _DEFAULTS.get(path, ""))
        if envelope is None
        else envelope._replace(value=value)
    )


_UNTOLD = (("billed", True),)
"""What holds unless something states otherwise."""
_DEFAULTS = {"operation": "no operation is stated", "billed": "no gateway's cache answered"}
USAGE_STATUS: Final[Mapping[str, str]] = {
    "estimated": "its library counts with a tokenizer of its own, where the provider's usage does not reach it",
    "reported": "its input and its output are stated",
    "partial": "only one of input and output is stated",
    "missing": "no usage is stated, though an answer may have come",
    "none": "it failed before an answer began, and states no usage",
    "aggregate": "a sum of metric points",
}


def _taken(traced: Traced, path: str) -> Provenance | None:
    """Where a field came from that is taken as it is from picked ones; None
    where none of them is there.
    """
    wanted = _TAKEN_FROM.get(path) or ((path.removeprefix("usage.other."),) if path.startswith("usage.other.") else ())
    if path in _SUMMED:
        wanted = _written(traced)
    found = [traced.origins[field] for field in wanted if field in traced.origins]
    if not found:
        return None
    if path not in _SUMMED:
        return found[0]
    whole = joined(found)
    others = [traced.origins[field] for field in _WRITTEN if field not in wanted and field in traced.origins]
    names = dict.fromkeys(name for other in others for name in other.attributes if name not in whole.attributes)
    return whole._replace(passed_over=(*whole.passed_over, *names))


def _mapped(traced: Traced, path: str, value: Any) -> str:
    if path == "operation" and traced.picked.texts.get("operation", value) != value:
        return "brought to its well-known name"
    if path == "billed":
        return "a gateway's cache answered"
    if path == "deployment" and "deployment" not in traced.origins:
        return "what Azure's callers name as the model is their deployment"
    return ""


# ---- who


def _attributed(traced: Traced, field: str) -> Provenance:
    """Its own attribute, else the resource's. A user's name that states "unknown" is none."""
    picked_field = field.replace("labels.", "label.", 1)
    own, theirs = traced.origins.get(picked_field), traced.resource.get(picked_field)
    who = traced.picked.who.get(picked_field)
    if own is not None and who is not None and attribute(Attribution(), {picked_field: who}, traced.context):
        return own if theirs is None else own._replace(passed_over=(*own.passed_over, *theirs.attributes))
    return theirs if theirs is not None else Provenance("default")


# ---- provider


def _provider(traced: Traced, value: Any) -> Field:
    """The one of name, model and address that gives the provider
    by itself, asked in their order.
    """
    texts = traced.picked.texts
    named = "provider" if texts.get("provider") else "provider_hint"
    model = "response_model" if traced.record["response_model"] else "request_model"
    asked = (
        (named, provider(texts.get(named), None, None), "brought to its well-known name"),
        (model, provider(None, traced.record[model], None), "by the family of the model's name"),
        ("address", provider(None, None, texts.get("address")), "by the address that was called"),
    )
    for field, found, note in asked:
        if found == value and field in traced.origins:
            same = field == named and texts.get(named) == value
            return Field(value, traced.origins[field], "" if same else note)
    if value == traced.convention.default_provider:
        return Field(value, Provenance("rule"), "its product speaks to this provider, and names none")
    return Field(value, Provenance("default"), "nothing names it")


# ---- tokens


def _wholes(traced: Traced) -> Wholes:
    """Input and output as `partition` reads them, and why."""
    counts, record = dict(traced.picked.counts), traced.record
    version, served_by = record["source"]["library_version"] or "", record["provider"]
    if "input" not in counts and "output" not in counts and "total" in counts:
        counts["input"] = counts["total"]
    basis = traced.convention.basis(traced.picked, version, served_by)
    output = output_basis(traced.picked, traced.convention, version, served_by)
    return read_wholes(counts, cached_tokens(counts), basis, output)


def _input_parts(traced: Traced) -> tuple[str, ...]:
    """Extracted fields that add up to the record's input."""
    counts, given = traced.picked.counts, traced.record["usage"]["input_tokens"]
    if counts.get("input") == given:
        return ("input",)
    if "input" not in counts and counts.get("total") == given:
        return ("total",)
    return ("input", "cache_read", *_written(traced))


_WRITTEN = ("cache_creation", "cache_creation_5m", "cache_creation_1h")
"""The whole, and the parts that stand in for it."""


def _written(traced: Traced) -> tuple[str, ...]:
    counts = traced.picked.counts
    if counts.get("cache_creation") == traced.record["usage"].get("cache_creation_input_tokens"):
        return _WRITTEN[:1]
    return _WRITTEN[1:]


def _output_parts(traced: Traced, output: int) -> tuple[str, ...]:
    counts = traced.picked.counts
    if counts.get("output") == output:
        return ("output",)
    return ("output", "reasoning") if "reasoning" in counts else ("output", "input", "total")


def _reasoning(traced: Traced, value: int) -> Field:
    """Its own attribute; else the total, less what is stated."""
    if "reasoning" in traced.origins:
        return Field(value, traced.origins["reasoning"])
    return Field(value, _sum(traced, ("total", "input", "output")), "the rest of the total: only thoughts are left")


def _input(traced: Traced) -> Provenance:
    """Of what has no output, the total stands in for an input that is not stated."""
    found = _sum(traced, _input_parts(traced))
    is_input_only = called(traced.record["operation"], None, None, None)[2]
    if not is_input_only or "output" in traced.picked.counts or "total" not in traced.origins:
        return found
    return joined([found, found._replace(attributes=(), passed_over=traced.origins["total"].attributes)])


def _sum(traced: Traced, parts: tuple[str, ...]) -> Provenance:
    found = [traced.origins[part] for part in parts if part in traced.origins]
    return joined(found) if found else Provenance("default")


def input_sum(traced: Traced) -> WholeSum | None:
    """How the input of a call was made; None where it has none."""
    given = traced.record["usage"].get("input_tokens")
    if given is None:
        return None
    counts = traced.picked.counts
    numbers = [counts[part] for part in _input_parts(traced) if part in counts]
    if sum(numbers) != given:  # the provider's object states what else it holds: what tools read
        numbers = [counts["input"], given - counts["input"]]
    proof, is_added = _wholes(traced).input_proof, len(numbers) > 1
    if not has_cache(counts) and proof is Proof.NOTHING:
        return WholeSum("unstated", "it states no cache, so there is nothing to add", str(given))
    return WholeSum(_basis(proof, is_added=is_added), _why(proof, "cache", is_added=is_added), _added(numbers))


def output_sum(traced: Traced) -> WholeSum | None:
    """The same for the output and its reasoning; None also where it states no reasoning."""
    given, reasoning = (traced.record["usage"].get(name) for name in ("output_tokens", "reasoning_output_tokens"))
    sent = traced.picked.counts.get("output")
    if given is None or sent is None or not reasoning:
        return None
    proof, is_added = _wholes(traced).output_proof, given != sent
    numbers = [sent, given - sent] if is_added else [given]
    return WholeSum(_basis(proof, is_added=is_added), _why(proof, "reasoning", is_added=is_added), _added(numbers))


def _basis(proof: Proof, *, is_added: bool) -> str:
    if proof is Proof.NOTHING:
        return "unstated"
    return "exclusive" if is_added else "inclusive"


def _added(numbers: Sequence[int]) -> str:
    return " + ".join(map(str, numbers))


def _why(proof: Proof, part: str, *, is_added: bool) -> str:
    holds = f"excludes the {part}, which is added" if is_added else f"holds the {part}"
    whole = "input" if part == "cache" else "output"
    match proof:
        case Proof.OBJECT:
            return f"the provider's own usage travels along and shows that this {whole} {holds}"
        case Proof.TOTAL:
            return f"the stated total proves that this {whole} {holds}"
        case Proof.PARTS:
            return f"an {whole} smaller than its {part} proves that it {holds}"
        case Proof.TABLE:
            return f"the {whole} {holds}, by the convention's table"
        case Proof.NOTHING:
            return f"no table and no number shows whether this {whole} holds the {part}: taken to hold it"
        case _:
            assert_never(proof)


def by_table(basis: Basis) -> str:
    """What a table states of the input."""
    return "the input excludes the cache, which is added" if basis is Basis.EXCLUSIVE else "the input holds the cache"


# ---- money


def _cost(traced: Traced, value: Mapping[str, Any]) -> Field:
    if value["source"] == "estimated":
        return priced(value)
    if not traced.record["billed"] and "cache_hit" in traced.origins:
        return Field(value, traced.origins["cache_hit"], "a gateway's cache answered: nobody billed it")
    if "cost" in traced.origins:
        stated = [traced.origins[field] for field in ("cost", "currency") if field in traced.origins]
        return Field(value, joined(stated))
    return Field(value, Provenance("rule"), "as its sender states it")


def priced(value: Mapping[str, Any]) -> Field:
    """An estimate."""
    return Field(value, Provenance("price_list"), f"no cost is stated; price list {value['price_version']}")


def unpriced(record: Mapping[str, Any]) -> Field:
    """No cost at all."""
    if "unpriced" in record["flags"]:
        return Field(None, Provenance("default"), "no cost is stated, and no price is known for this model")
    return Field(None, Provenance("default"), "no cost is stated, and there is not enough usage to estimate one")


def flagged(flags: Sequence[str]) -> Field:
    """What each flag means."""
    return Field(flags, Provenance("rule"), "; ".join(flag_text(flag) for flag in flags))


def flag_text(flag: str) -> str:
    return f"{flag}: {FLAG_MEANINGS[flag]}" if flag in FLAG_MEANINGS else flag


def _status(traced: Traced, value: str) -> Field:
    """What the item's own status states goes first; attributes may state the same."""
    said, own = _taken(traced, "status"), traced.envelope.get("status")
    if value == "ok":
        return Field(value, Provenance("default"), "nothing says that it failed")
    if own is not None:
        return Field(
            value, own.provenance if said is None else own.provenance._replace(passed_over=said.attributes), own.note
        )
    return Field(value, Provenance("default") if said is None else said)


_MADE: dict[str, Callable[[Traced, Any], Field]] = {
    "provider": _provider,
    "usage.input_tokens": lambda traced, value: Field(value, _input(traced)),
    "usage.output_tokens": lambda traced, value: Field(value, _sum(traced, _output_parts(traced, value))),
    "usage.reasoning_output_tokens": _reasoning,
    "usage.status": lambda _, value: Field(value, Provenance("rule"), USAGE_STATUS.get(value, "")),
    "cost": _cost,
    "status": _status,
    "flags": lambda _, value: flagged(value),
}
"""Fields that are made of more than one value, or of none."""
