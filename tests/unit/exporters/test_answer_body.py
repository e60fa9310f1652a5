"""The bounds of an answer's body: what the worst bytes of an upstream cost in memory and work."""

import gzip
import random
import tracemalloc
import zlib

import orjson
import pytest

from exporters.answer_body import (
    ERROR_BYTES,
    OBJECTS_PER_ITEM,
    Cut,
    UnreadableAnswer,
    answer_bytes,
    read_body,
    whole_json,
)
from tests.support.growth import assert_linear

MIB = 1024 * 1024
JSON = "application/json"


def read(raw: bytes, coding: str = "", content_type: str = JSON, max_bytes: int = MIB) -> tuple[bytes, Cut | None]:
    return read_body(raw, None, coding=coding, content_type=content_type, max_bytes=max_bytes)


def test_the_bound_grows_with_the_items_and_bytes_of_the_request() -> None:
    assert answer_bytes(1000, MIB) >= 1000 * 1156 + MIB
    assert answer_bytes(4000, 4 * MIB) <= 4 * answer_bytes(1000, MIB)
    assert answer_bytes(1, 1000) <= ERROR_BYTES


@pytest.mark.parametrize("layers", [1, 2])
def test_a_bomb_is_unpacked_up_to_the_bound_only(layers: int) -> None:
    raw = bytes(256 * MIB)
    for _ in range(layers):
        raw = gzip.compress(raw, 1)
    tracemalloc.start()
    text, cut = read(raw, ", ".join(["gzip"] * layers))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cut == "is longer than its bound"
    assert len(text) <= MIB
    assert peak_bytes < 8 * MIB


@pytest.mark.parametrize("coding", ["gzip," * 5 + "gzip", "br", "gzip, zstd", "compress", "x" * 1000])
def test_a_coding_that_was_not_asked_for_cannot_be_unpacked(coding: str) -> None:
    assert read(b"anything", coding) == (b"", "cannot be unpacked")


def test_a_body_of_countless_gzip_members_costs_no_more_than_its_bytes() -> None:
    member = gzip.compress(b"")

    def work(members: int) -> None:
        _, cut = read(member * members, "gzip", max_bytes=64 * MIB)
        assert cut == "cannot be unpacked"

    assert_linear(work, 400_000)


def test_objects_beyond_the_bound_are_not_built() -> None:
    text = b'{"rejected":[' + b"{}," * (4 * MIB // 3) + b"{}]}"
    tracemalloc.start()
    with pytest.raises(UnreadableAnswer, match="more objects"):
        whole_json(text, None, content_type=JSON, most_objects=OBJECTS_PER_ITEM * 1001)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 5 * MIB


@pytest.mark.parametrize("coding", ["gzip", "deflate", "identity", "br", "gzip, deflate"])
def test_any_damage_to_an_answer_gives_its_document_or_is_seen(coding: str, chance: random.Random) -> None:
    document = {"accepted": 1, "rejected": [{"index": index, "code": "no", "message": "m"} for index in range(9)]}
    whole = orjson.dumps(document)
    packed = {
        "gzip": gzip.compress,
        "deflate": zlib.compress,
        "gzip, deflate": lambda b: zlib.compress(gzip.compress(b)),
    }
    raw = packed.get(coding, bytes)(whole)
    for _ in range(2000):
        damaged = raw[: chance.randrange(1, len(raw))]
        text, cut = read(damaged, coding)
        with pytest.raises(UnreadableAnswer):
            whole_json(text, cut, content_type=JSON, most_objects=1000)
        flipped = bytearray(raw)
        flipped[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        text, cut = read(bytes(flipped), coding)
        try:
            found = whole_json(text, cut, content_type=JSON, most_objects=1000)
        except UnreadableAnswer:
            continue
        assert coding == "identity" or found == document


@pytest.mark.parametrize(
    "charset", ["utf_7", "punycode", "idna", "base64", "zlib", "rot13", "unicode_escape", "\0", "no-such", ""]
)
def test_a_charset_that_no_json_comes_in_is_passed_over(charset: str) -> None:
    text, cut = read(b'{"message":"\xe9"}', content_type=f"{JSON}; charset={charset}")
    assert (text.decode(), cut) == ('{"message":"�"}', None)
