"""The table of the record's fields: what it refuses when it is read."""

import subprocess
import sys
from typing import Annotated, Any, NotRequired, TypedDict

import pytest

from spool.fields import Row, table_of
from spool.record import FIELDS

Text = Annotated[str, "name"]


def record(**fields: Any) -> type:
    return TypedDict("record", fields)  # type: ignore[operator]  # made by the test


def test_a_row_is_read_with_its_type() -> None:
    (field,) = table_of(record(region=NotRequired[Annotated[Text | None, Row("where", "fill", ("region",))]]))
    assert (field.path, field.form, field.row.means) == (("region",), "name", "where")
    assert (field.is_required, field.is_nullable, field.is_needed) == (False, True, False)


@pytest.mark.parametrize(
    ("first", "second", "fault"),
    [
        (Row("", "fill", attribute="gen_ai.x"), Row("", "fill", attribute="gen_ai.x"), "attribute gen_ai.x"),
        (Row("", "fill", attribute="gen_ai.x"), Row("", "fill", resource="gen_ai.x"), "attribute gen_ai.x"),
        (Row("", "fill", ("region",)), Row("", "first", ("region",)), "word region"),
        (Row("", "part", whole="c"), Row("", "fill"), "a: a part, and only a part, names its whole"),
        (Row("", "part"), Row("", "fill"), "a: a part, and only a part, names its whole"),
        (Row("", "fill", whole="b"), Row("", "fill"), "a: a part, and only a part, names its whole"),
    ],
)
def test_a_name_that_two_fields_claim_or_a_whole_that_is_none_is_an_error(first: Row, second: Row, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        table_of(record(a=Annotated[Text, first], b=Annotated[Text, second]))


def test_two_parts_cannot_give_a_mapping_the_same_name() -> None:
    part = record(region=Annotated[Text, Row("", "together", ("b",))])
    with pytest.raises(ValueError, match="name in a mapping region"):
        table_of(record(region=Annotated[Text, Row("", "fill", ("a",))], part=Annotated[part, Row("", "each")]))


@pytest.mark.parametrize("hint", [Text, Annotated[str, Row("", "fill")]])
def test_a_field_without_a_row_or_a_form_is_an_error(hint: Any) -> None:
    with pytest.raises(TypeError, match="region: needs a type"):
        table_of(record(region=hint))


def test_a_part_comes_before_its_fields() -> None:
    paths = [field.path for field in FIELDS]
    assert all(paths.index(path[:-1]) < paths.index(path) for path in paths if len(path) > 1)


def test_an_attribute_that_two_words_of_the_shared_table_claim_is_an_error() -> None:
    """`gateway.rules.conventions.shared` checks its table when it is imported."""
    code = "from gateway.rules.conventions import who; who.NAMES['more'] = ('gen_ai.usage.raw',)"
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}; import gateway.rules.conventions.shared"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "two fields claim the attribute gen_ai.usage.raw" in ran.stderr
