"""JSON that only some libraries take."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.read.loose_json import loads


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'{"a": "\ud83d", "n": 1}', {"a": "�", "n": 1}),
        (rb'{"a": "\ud83d\n", "n": 1}', {"a": "�\n", "n": 1}),
        (rb'{"a": "x\uDE00\ud83d\ude00", "n": 1}', {"a": "x�😀", "n": 1}),
        (rb'{"a": "\\ud83d", "b": "\ud83d"}', {"a": "\\ud83d", "b": "�"}),
        (
            b'{"a": [NaN, Infinity, -Infinity], "b": "NaN \\" Infinity"}',
            {"a": [None, None, None], "b": 'NaN " Infinity'},
        ),
        (b'{"a": "cut \xe2\x82", "n": 1}', {"a": "cut �", "n": 1}),
        (b'{"a": "\xff\\ud83d", "n": NaN}', {"a": "��", "n": None}),
    ],
)
def test_what_is_nearly_json_is_read(text: bytes, value: object) -> None:
    assert loads(text) == value


@pytest.mark.parametrize(
    "text", [b"", b'{"a": ', b'{"a": 1} {"b": 2}', b"\xff", b"nan", b'{"NaN', b'"' + b"\\" * 99_999]
)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        loads(text)


@given(st.recursive(st.none() | st.floats() | st.text(st.characters(exclude_categories=())), st.lists, max_leaves=20))
def test_all_that_pythons_own_library_writes_is_read(value: object) -> None:
    assert json.dumps(loads(json.dumps(value).encode())).count("[") == json.dumps(value).count("[")
