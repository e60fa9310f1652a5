"""The repr of Python values: read without evaluating, linear, and never raising anything else."""

import ast
from dataclasses import dataclass, field
from enum import Enum
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.read import python_repr

PLAIN = st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\\'\"", exclude_categories=("C", "Z")))
VALUES = st.recursive(
    PLAIN | WORDS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=12
)


@given(st.dictionaries(WORDS, VALUES, max_size=5))
def test_a_dicts_repr_reads_as_python_would(value: dict[str, Any]) -> None:
    assert python_repr.loads(repr(value)) == ast.literal_eval(repr(value)) == value


class Role(Enum):
    USER = "user"


@dataclass
class Details:
    cached_tokens: int = 5
    audio: None = None


@dataclass
class Usage:
    prompt_tokens: int
    details: Details = field(default_factory=Details)
    role: Role = Role.USER
    text: str = "it's (a=1, 'b'), <c> }{ [\"d\"]"
    counts: tuple[int, ...] = (1, 2)
    rate: float = 0.5


def test_an_object_is_its_named_arguments() -> None:
    assert python_repr.loads(repr(Usage(7))) == {
        "prompt_tokens": 7, "details": {"cached_tokens": 5, "audio": None}, "role": "user",
        "text": repr(Usage(7).text)[1:-1], "counts": [1, 2], "rate": 0.5,
    }  # fmt: skip


def test_what_it_cannot_name_is_left_out() -> None:
    text = "Answer(datetime.datetime(2026, 1, 2), at=datetime.datetime(2026, 1, 2, tzinfo=UTC), x=<object at 0x7f>, y=z, n=1)"
    assert python_repr.loads(text) == {"at": {"tzinfo": None}, "x": None, "y": None, "n": 1}


@given(st.text(max_size=200) | st.text("{}[]()'\",:=<>ab1 \\", max_size=200))
def test_any_text_is_a_value_or_a_value_error(text: str) -> None:
    try:
        python_repr.loads(text)
    except ValueError:
        return


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{'a'",
        "}",
        "{'a': 1}}",
        "1 2",
        "'open",
        "{'a': \x00}",
        "[" * 1000,
        "(" * 25 + ")" * 25,
        "[" + "1," * 5000 + "]",
    ],
)
def test_what_is_no_repr_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - every kind of it
        python_repr.loads(text)


def _seconds(text: str) -> float:
    begun = process_time()
    for _ in range(20):
        try:
            python_repr.loads(text)
        except ValueError:
            continue
    return process_time() - begun


@pytest.mark.parametrize("piece", ["'", "'a\\", "<", "<a", "a", "1", "{'a':", "((", " ", "\\", "'a' ", "a=", "<'a"])
def test_four_times_the_text_costs_at_most_some_four_times_the_work(piece: str) -> None:
    _seconds(piece * 4_000)
    assert _seconds(piece * 16_000) < 12 * max(_seconds(piece * 4_000), 0.002)
