"""Faults of a body, beside the fields of a form."""

import pytest

from gateway.access.errors import InvalidKey
from gateway.access.requests import NewKey
from gateway.operate.site.operating import faults_by_field


def test_each_fault_of_a_body_is_at_its_field() -> None:
    body = {"name": "x", "labels": {"team": ""}, "limits": {"bytes_per_minute": 0}, "managed": ["a"], "scopes": ["b"]}
    with pytest.raises(InvalidKey) as refused:
        NewKey.checked(body)
    found = faults_by_field(str(refused.value))
    assert found["name"] == "3 to 256 characters are needed"
    assert found["labels"] == "1 to 256 printable characters are needed"
    assert found["bytes_per_minute"].startswith("a whole number from 1 on is needed")
    assert "never both" in found["managed"]
    assert "never both" in found["scopes"]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("name: it is needed", {"name": "it is needed"}),
        ("name: leave it; or change it; limits.a, b: c", {"name": "leave it; or change it", "a": "c", "b": "c"}),
        (
            "note: too long; rules[2].shares: 90; 100 is needed; rules[0].shares[1].percent: a number is needed",
            {"note": "too long", "shares-2": "90; 100 is needed", "shares-0": "line 2: a number is needed"},
        ),
        ("the device is offline: only a blocked one can be unblocked", {}),
        ("no device has this id; it may have expired", {}),
    ],
)
def test_a_text_without_a_field_names_none(text: str, fields: dict[str, str]) -> None:
    assert faults_by_field(text) == fields
