"""Sums of usage by the native extension, held to those of Python: of any records, well made or
damaged, the same series and sums.
"""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.common.native import NATIVE
from gateway.usage.sums.buckets import BOUNDS
from gateway.usage.sums.tally import HOUR_MS, Tally, hour_text
from spool.clock import rfc3339_ms
from tests.support.calls import EPOCH_MS
from tests.support.growth import assert_linear
from tests.support.native import needs_native

pytestmark = needs_native

NOW_MS = EPOCH_MS + HOUR_MS // 2
few = st.sampled_from
name = few((None, "", "a", "b", "é", 'quo"te', "back\\slash", "line\nend", "x" * 200, "\x85", "\u2028")) | st.text(
    max_size=4
)
odd_value = few((True, 1, 1.5, [], ["a"], {}, {"a": 1}))
count = few((None, 0, 1, 7, 1 << 40, (1 << 40) + 1, 10**18 - 1, 10**18, (1 << 64) - 1, -1, 1.0, 0.5, True, "7"))
plain_count = st.none() | st.integers(0, 1000)
hours = ("2026-01-05T25:00:00Z", "2026-13-05T10:00:00Z", "yesterday, at noon", "2026-01-05", "٢026-01-05T10:00:00Z", 7)
started_at = st.integers(-2, 3).map(lambda h: rfc3339_ms(EPOCH_MS - h * HOUR_MS)) | few(hours)
amounts = (
    "0", "-0", "0.1", "-0.25", "0.000450", "123456789.000000000001", "0.000000000000000001", "0.0000000000000000015",
    "999999999999", "1000000000000", "1000000000001", "1e3", "1E-3", "+1", ".5", "5.", "", " 1", "1_0", "NaN", "1e300", "٣", 1, None,
)  # fmt: skip
cost = st.none() | st.fixed_dictionaries(
    {"amount": few(amounts), "currency": few(("USD", "EUR", "", "x" * 20))},
    optional={"source": few((None, "reported", "estimated", "")), "price_version": name},
)


def object_of(**members: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=members)


counts = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
usage = object_of(
    status=few(("reported", "missing", "none", None)),
    reasoning_output_tokens=plain_count | count,
    total_tokens=count,
    **dict.fromkeys(counts, plain_count | count),
)
who = object_of(**dict.fromkeys(("team", "project", "user", "device_id", "service_name", "key", "region"), name))
record = st.fixed_dictionaries(
    {"kind": few(("call", "call", "call", "aggregate", None)), "started_at": started_at, "usage": usage | odd_value},
    optional={
        "billed": few((True, True, False, None, 0)),
        "operation": few(("chat", "embeddings", "rerank", None)),
        "provider": name | odd_value,
        "request_model": name,
        "response_model": name,
        "status": few(("ok", "error", None)),
        "calls": count,
        "duration_ms": plain_count | count,
        "time_to_first_token_ms": plain_count | count,
        "cost": cost | odd_value,
        "attribution": who | st.none() | odd_value,
        "source": object_of(format=name, version=name) | st.none() | odd_value,
        "other": few(([[[1, -2.5e3], {"a": None}], "\\\u0001\ud7ff"], {"n": 1e300}, -0.0, False)),
    },
)
pages = st.lists(st.lists(record.map(orjson.dumps), max_size=6), max_size=3)


def assert_alike(*pages: list[bytes]) -> Tally:
    python, native = Tally(native=None), Tally(native=NATIVE)
    for page in pages:
        for tally in (python, native):
            tally.add(page, now_ms=NOW_MS)
    assert native.sums == python.sums
    assert native.failed_costs == python.failed_costs
    assert native.latencies == python.latencies
    assert len(native) == len(python)
    assert native.models() == python.models()
    return native


def plain(n: int = 0) -> bytes:
    """A record without anything unusual."""
    call = {
        "kind": "call",
        "billed": True,
        "provider": "openai",
        "request_model": "gpt-4o",
        "response_model": f"model {n % 3}",
        "started_at": rfc3339_ms(EPOCH_MS),
        "duration_ms": 12 + n * n,
        "time_to_first_token_ms": n,
        "usage": {"status": "reported", "input_tokens": 100 + n, "output_tokens": n, "reasoning_output_tokens": None},
        "cost": {"amount": f"0.{n:06}", "currency": "USD", "source": "estimated"},
        "attribution": {"team": "core", "service_name": None},
        "source": {"format": "otlp"},
        "flags": ["a", "b"],
    }
    return orjson.dumps(call)


@given(pages)
@settings(max_examples=300)
def test_any_records_give_the_same_sums(pages: list[list[bytes]]) -> None:
    assert_alike(*pages)


@given(record.map(orjson.dumps) | st.just(plain()), st.data())
@settings(max_examples=300)
def test_damaged_records_are_left_out_alike(record: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(record)))
    piece = data.draw(
        st.binary(max_size=2) | few((b'"', b"\\", b"\\u00e9", b"\\ud800", b"\\x", b",", b"}", b"]", b" ", b"0", b"-"))
    )
    cut = data.draw(st.integers(0, 3))
    assert_alike([record[:at] + piece + record[at + cut :], record])


TWICE = (
    b'"calls":3',
    b'"kind":"call"',
    b'"usage":{}',
    b'"cost":null',
    b'"started_at":"2026-01-05T10:00:00Z"',
    b'"x":{"a":1,"a":2}',
)


@pytest.mark.parametrize("member", TWICE)
def test_a_member_that_comes_twice_is_taken_alike(member: bytes) -> None:
    record = plain()
    assert_alike([b"{" + member + b"," + record[1:], record[:-1] + b"," + member + b"}"])


def test_the_extension_reads_what_is_usual_itself() -> None:
    assert NATIVE is not None
    records = [plain(n) for n in range(50)]
    summed, unread = NATIVE.sum_usage(records, hour_text(NOW_MS))
    assert (len(summed), unread) == (3, [])
    alike = assert_alike(records)
    assert sum(sums[0] for sums in alike.sums.values() if sums[0]) == 50
    assert sum(sum(buckets.values()) for buckets in alike.latencies.values()) == 100


def test_each_bucket_is_the_same_in_both() -> None:
    """At each bound, before it and after it."""
    near = sorted({ms + more for ms in BOUNDS for more in (-1, 0, 1)})
    assert_alike([plain()[:-1].replace(b'"duration_ms":12', b'"duration_ms":%d' % ms) + b"}" for ms in near])


def test_deep_nesting_is_left_to_python() -> None:
    for depth in (10, 20, 2000, 100_000):
        assert_alike([plain()[:-1] + b',"x":' + b"[" * depth + b"]" * depth + b"}", plain()])


def test_work_grows_with_the_records_and_their_size() -> None:
    tally = Tally(native=NATIVE)
    assert_linear(lambda n: tally.add([plain(i) for i in range(n)], now_ms=NOW_MS), 10_000)
    assert_linear(lambda n: tally.add([orjson.dumps({"x": ['\\"' * n] * 100})], now_ms=NOW_MS), 10_000)
