"""Request bodies as pydantic models: strict types, no unknown fields, every fault in one error.

The description of a field is its remedy: "<field>: <description> is needed". A
validator that raises `RefusedValue` words the fault itself. An error names fields and
positions and quotes nothing that was sent.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from gateway.common.contract.errors import BadPayload

Json = dict[str, Any]


class RefusedValue(ValueError):
    """A validator's complaint, whole: it names the field."""


class FieldFault(NamedTuple):
    field: str
    """Name in the model; empty for names that the model does not have."""
    text: str
    is_missing: bool = False


class Body(BaseModel):
    """Base of every body. A subclass may override `refusal` to choose its error."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @classmethod
    def checked(cls, fields: Mapping[str, Any]) -> Self:
        """*fields* as a body. Raises the error that `refusal` makes."""
        try:
            return cls.model_validate(dict(fields))
        except ValidationError as error:
            raise cls.refusal(faults_of(cls, error)) from None

    @classmethod
    def refusal(cls, faults: Sequence[FieldFault]) -> Exception:
        return BadPayload("; ".join(fault.text for fault in faults))


def faults_of(model: type[BaseModel], error: ValidationError) -> list[FieldFault]:
    """One fault a field, in the order of the model; unknown names come first, as one fault."""
    found: dict[str, FieldFault] = {}
    for each in error.errors(include_url=False, include_input=False):
        name = str(each["loc"][0]) if each["loc"] else ""
        raised = each.get("ctx", {}).get("error")
        if name not in model.model_fields and not isinstance(raised, RefusedValue):
            found[""] = FieldFault("", f"the body may hold {', '.join(model.model_fields)}, and nothing else")
        elif isinstance(raised, RefusedValue):
            found.setdefault(name, FieldFault(name, str(raised)))
        else:
            needed = f"{name}: {model.model_fields[name].description} is needed"
            found.setdefault(name, FieldFault(name, needed, is_missing=each["type"] == "missing"))
    return [found.pop(name) for name in ("", *model.model_fields) if name in found]


def body_schema(model: type[BaseModel]) -> Json:
    """The JSON Schema of *model* as OpenAPI 3.1 has it: no titles, no defaults, null as a type."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    plain: Json = _plain(schema, definitions)
    return plain


def _plain(schema: Any, definitions: Json) -> Any:
    if isinstance(schema, list):
        return [_plain(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _plain(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    kept = {
        name: {field: _plain(each, definitions) for field, each in value.items()}
        if name == "properties"
        else value
        if name == "example"
        else value.rstrip(",")  # the comma belongs to the sentence of a fault
        if name == "description"
        else _plain(value, definitions)
        for name, value in schema.items()
        if name == "properties" or name not in ("title", "default")
    }
    return _with_null_as_a_type(kept)


def _with_null_as_a_type(schema: Json) -> Json:
    """`anyOf: [{type: T, ...}, {type: null}]` as `{type: [T, null], ...}`."""
    choices = schema.get("anyOf", [])
    rest = [each for each in choices if each != {"type": "null"}]
    if len(rest) != 1 or len(choices) == 1 or not isinstance(rest[0].get("type"), str):
        return schema
    outer = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**rest[0], "type": [rest[0]["type"], "null"], **outer}
