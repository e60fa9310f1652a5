"""The schemas of the record and of its parts, from its table. `schemas/record.yaml` adds what the
table does not have: descriptions of the parts, an example.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.common.lists.openapi.document import Json, merged, read_folder
from spool.fields import Field, Form
from spool.record import FIELDS, FLAGS, SCHEMA

_NAMES: Final = {"source": "RecordSource"}
"""Part -> its schema, where that is not called as its type."""
_TEXT: Final[Json] = {"type": "string"}
_WHOLE: Final[Json] = {"type": "integer"}
_TIME: Final[Json] = {"type": "string", "format": "date-time"}
_TYPES: Final[Mapping[Form, Json]] = {
    "schema": {"type": "string", "const": SCHEMA},
    "record_id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    "time": _TIME,
    "amount": {"$ref": "#/components/schemas/Decimal"},
    "count": _WHOLE,
    "tokens": {**_WHOLE, "minimum": 0},
    "ms": _WHOLE,
    "truth": {"type": "boolean"},
    "flags": {"type": "array", "items": {"type": "string", "enum": list(FLAGS)}},
    "labels": {"type": "object", "additionalProperties": _TEXT},
    "numbers": {"type": "object", "additionalProperties": {"type": "number"}},
}
"""Any other form is a text."""


def shared_schemas() -> Json:
    """What both documents begin with: `schemas/`, with the record and its parts."""
    parts = {_name(field): FIELDS.of(field.name) for field in FIELDS if field.form == "part"}
    schemas = {name: _object(fields) for name, fields in {"Record": FIELDS.of(), **parts}.items()}
    return merged([read_folder("gateway.common.lists.openapi", "schemas"), {"components": {"schemas": schemas}}])


def _name(field: Field) -> str:
    return _NAMES.get(field.name) or field.name.title()


def _object(fields: Sequence[Field]) -> Json:
    required = [field.name for field in fields if field.is_required]
    properties = {field.name: _property(field) for field in fields}
    return {"type": "object", **({"required": required} if required else {}), "properties": properties}


def _property(field: Field) -> Json:
    schema = _schema(field)
    if field.is_nullable and "type" in schema:
        schema = {**schema, "type": [schema["type"], "null"]}
    elif field.is_nullable:
        schema = {"oneOf": [schema, {"type": "null"}]}
    return {**schema, "description": field.row.described} if field.row.described else schema


def _schema(field: Field) -> Json:
    if field.form == "part":
        return {"$ref": f"#/components/schemas/{_name(field)}"}
    return {"type": "string", "enum": list(field.words)} if field.form == "word" else _TYPES.get(field.form, _TEXT)
