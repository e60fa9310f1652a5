"""Whatever a hosted gateway's payload holds: one outcome an item, nothing raised, no content kept.

One sample a source, bent everywhere.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import orjson
import pytest

from gateway.common.contract.errors import BadPayload
from tests.support.source_reading import all_text, read
from tests.unit.products.test_aperture import hook
from tests.unit.products.test_cloudflare import event, log
from tests.unit.products.test_helicone import OPENAI, webhook
from tests.unit.products.test_helicone import row as helicone_row
from tests.unit.products.test_kong import entry, part
from tests.unit.products.test_openrouter import row as openrouter_row
from tests.unit.products.test_portkey import row as portkey_row
from tests.unit.products.test_vercel import ROW

DEEP: Any = "CANARY"
for _ in range(200):
    DEEP = [DEEP]

HOSTILE: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    3.5,
    2**63 - 1,
    1e300,
    -1e300,
    "",
    "²",
    "-5",
    "NaN",
    "Infinity",
    "1_000",
    "9" * 400,
    "CANARY sentence with words",
    "a" * 100_000,
    [],
    [None, [[]]],
    {},
    {"CANARY": "CANARY"},
    {"id": {"id": 1}, "usage": [], "error": "CANARY", "choices": [[]], "data": "CANARY", "result": 7},
    '{"usage": {"prompt_tokens": 1e300, "completion_tokens": -4, "total_tokens": "x"}, "choices": [7], "id": "CANARY"}',
    "{" * 500,
    DEEP,
]

SAMPLES: list[tuple[str, Any]] = [
    (
        "kong",
        entry({"proxy": part(cache={"cache_status": "Miss"}, payload={"response": orjson.dumps(OPENAI).decode()})}),
    ),
    ("portkey", portkey_row()),
    ("cloudflare", event()),
    ("cloudflare", log()),
    ("helicone", webhook(OPENAI)),
    ("helicone", helicone_row()),
    ("openrouter", {"data": openrouter_row()}),
    ("vercel", ROW),
    ("aperture", hook()),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def bent(sample: Any, path: tuple[Any, ...], value: Any) -> Any:
    whole = deepcopy(sample)
    at = whole
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return whole


@pytest.mark.parametrize(("source", "sample"), SAMPLES)
def test_any_value_in_any_place_has_one_outcome_and_can_be_kept(source: str, sample: Any) -> None:
    for path in places(sample):
        for value in HOSTILE:
            out = read(source, bent(sample, path, value))
            for call in out.calls.calls:
                orjson.dumps(call.record)
                assert all(count is None or count >= 0 for count in _counts(call.record["usage"]))


def _counts(usage: Any) -> list[Any]:
    return [value for name, value in usage.items() if name not in {"status", "other"}]


@pytest.mark.parametrize(("source", "sample"), SAMPLES)
def test_fields_that_no_table_lists_are_never_copied(source: str, sample: Any) -> None:
    def planted(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                **{key: planted(inner) for key, inner in value.items()},
                "unlisted": "CANARY",
                "CANARY": {"x": ["CANARY"]},
            }
        return [planted(inner) for inner in value] if isinstance(value, list) else value

    out = read(source, [planted(sample), "CANARY", ["CANARY"]])
    assert len(out.calls.calls) == 1
    assert [each.reason for each in out.calls.rejected] == ["not_an_object", "not_an_object"]
    assert "CANARY" not in all_text(out)


@pytest.mark.parametrize("source", sorted({source for source, _ in SAMPLES}))
@pytest.mark.parametrize(
    "body", [b"", b"\n\n", b"\xff\xfe", b"{", b'{"a": CANARY}', b"\x00" * 50, b'{"a": "CANARY\\ud8']
)
def test_a_body_that_can_never_be_read_is_a_bad_payload_that_quotes_nothing(source: str, body: bytes) -> None:
    with pytest.raises(BadPayload) as caught:
        read(source, body)
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize(("source", "sample"), SAMPLES)
def test_the_same_payload_gives_the_same_records(source: str, sample: Any) -> None:
    ids = [[call.record["record_id"] for call in read(source, sample).calls.calls] for _ in range(2)]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == len(ids[0]) == 1
