"""Requests, cursors and the envelope of service-interface parts 2.3 and 4.2."""

import base64
import json
import re
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.common.lists.conventions import BadListRequest, ListRequest, ListShape, Page, Sort, envelope, read_request
from gateway.common.lists.cursor import MAX_CHARS, NotACursor, opened, sealed
from tests.unit.common.lists.stones import SHAPE, Ask, Stone, ask_memory, each_home, pairs_of

ROWS = [Stone(n, ("red", "green", "blue")[n % 3], n % 5, f"stone {n % 7}", f"{n % 4}.5") for n in range(1, 24)]
NAME = SHAPE.full_name


def first(query: str = "limit=5", name: str = "next_cursor") -> str:
    cursor: str = ask_memory(pairs_of(query), ROWS)["pagination"]["cursor"][name]
    return cursor


def forged(*content: object) -> str:
    return sealed(NAME, content)


@each_home
def test_an_empty_list_has_every_key_of_the_envelope(ask: Ask) -> None:
    assert ask([], []) == {
        "stones": [],
        "pagination": {
            "page_count": 0,
            "item_count": 0,
            "total_count": 0,
            "cursor": {"next_cursor": None, "previous_cursor": None, "has_next": False, "has_previous": False},
        },
        "filtering": {
            "available": [
                {"field": "colour", "valid_values": ["red", "green", "blue"], "valid_types": ["string"]},
                {"field": "name", "valid_values": [], "valid_types": ["string"]},
            ],
            "current": {},
        },
        "sorting": {
            "available": ["colour", "cost", "name", "size"],
            "current": [{"sort_key": "size", "sort_order": "asc"}],
            "ordering": ["asc", "desc"],
        },
    }


def test_a_list_without_filters_has_no_filtering_key() -> None:
    shape = ListShape(root="stones", sort_keys=("size",), default_sort=Sort("size", "asc"))
    body = envelope(shape, ListRequest(shape.default_sort), Page([], 0, None, None))
    assert set(body) == {"stones", "pagination", "sorting"}


@each_home
def test_a_repeated_filter_selects_several_values_and_is_shown_as_current(ask: Ask) -> None:
    body = ask(pairs_of("colour=red&colour=blue&colour=red&limit=100"), ROWS)
    assert body["filtering"]["current"] == {"colour": ["red", "blue"]}
    assert len(body["stones"]) == 15


def test_a_page_has_fifty_items_unless_asked_and_five_hundred_at_most() -> None:
    assert read_request(SHAPE, []).limit == 50
    assert read_request(SHAPE, [("limit", "500")]).limit == 500
    assert read_request(SHAPE, [("limit", "7"), ("limit", "7")]).limit == 7
    with pytest.raises(BadListRequest, match=r"limit: a whole number from 1 to 500"):
        read_request(SHAPE, [("limit", "501")])


def test_a_sort_key_without_an_order_begins_ascending() -> None:
    shape = ListShape("stones", ("name", "size"), Sort("size", "desc"))
    assert read_request(shape, []).sort == ("size", "desc")
    assert read_request(shape, [("sort_key", "size")]).sort == ("size", "desc")
    assert read_request(shape, [("sort_key", "name")]).sort == ("name", "asc")
    assert read_request(shape, [("sort_order", "asc")]).sort == ("size", "asc")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("colour=pink", "colour: one of red, green, blue is needed"),
        ("colour=", "colour: one of red, green, blue is needed"),
        ("colour=red&colour=RED", "colour: "),
        ("name=", "name: a value is needed"),
        ("sort_key=weight", "sort_key: one of colour, cost, name, size is needed"),
        ("sort_key=", "sort_key: "),
        ("sort_order=up", "sort_order: one of asc, desc is needed"),
        ("sort_order=ASC", "sort_order: "),
        ("sort_order=asc&sort_order=desc", "sort_order: it is given more than once"),
        ("sort_key=size&sort_key=name", "sort_key: it is given more than once"),
        *((f"limit={limit}", "limit: a whole number from 1 to 500 is needed") for limit in (
            "0", "-1", "1.5", "ten", "²", "٣", "501", "1e2", "%2B5", "%205", "5%20", "0x10", "", "05", "9" * 5000, "true",
        )),
        ("limit=5&limit=6", "limit: it is given more than once"),
        ("cursor=", "cursor: it is no cursor of this list"),
        ("cursor=%00", "cursor: "),
        ("cursor=abc", "cursor: "),
        ("cursor=%C3%A9%F0%9F%98%80", "cursor: "),
        ("cursor=" + "A" * 7000, "cursor: "),
        ("cursor=a&cursor=b", "cursor: it is given more than once"),
        ("statsu=red", "query: only colour, cursor, limit, name, sort_key, sort_order can be asked"),
        ("Limit=5", "query: only "),
        ("colour[]=red", "query: only "),
        ("=x", "query: only "),
        (f"name={'x' * 1025}", "name: at most 1024 characters"),
    ],
)  # fmt: skip
def test_what_the_list_does_not_offer_is_refused_by_name_with_what_it_offers(query: str, expected: str) -> None:
    with pytest.raises(BadListRequest) as refused:
        read_request(SHAPE, pairs_of(query))
    assert str(refused.value).startswith(expected)


def test_a_refusal_quotes_nothing_that_was_asked() -> None:
    secret = "tgk_0123456789_canary"
    for pairs in (
        [(secret, "1")],
        [("colour", secret)],
        [("limit", secret)],
        [("cursor", secret)],
        [("sort_key", secret)],
    ):
        with pytest.raises(BadListRequest) as refused:
            read_request(SHAPE, pairs)
        assert "canary" not in str(refused.value)


def test_half_a_surrogate_pair_is_no_value() -> None:
    with pytest.raises(BadListRequest, match="name: a value is needed, in UTF-8"):
        read_request(SHAPE, [("name", "x\ud800")])


# ---- cursors


def test_a_cursor_needs_no_encoding_in_a_url_and_fits_into_one() -> None:
    name = "\x01\U0001f600" * 128
    stones = [Stone(n, name=name) for n in (1, 2)]
    filters = "&".join(f"name={'é' * 100}{n}" for n in range(4))
    query = pairs_of(f"sort_key=name&limit=1&{filters}")
    stones += [Stone(n, name="é" * 100 + str(n - 3)) for n in (3, 4, 5)]
    short = ask_memory(query, stones)["pagination"]["cursor"]["next_cursor"]
    long = ask_memory(pairs_of("sort_key=name&limit=1"), stones)["pagination"]["cursor"]["next_cursor"]
    for cursor in (short, long):
        assert re.fullmatch(r"[A-Za-z0-9_-]+", cursor)
        assert len(cursor) < MAX_CHARS


@pytest.mark.parametrize("cursor", [first(), first("limit=5&colour=red&sort_key=name&sort_order=desc")])
def test_a_damaged_cursor_is_refused_wherever_the_damage_is(cursor: str) -> None:
    assert read_request(SHAPE, [("cursor", cursor)]).limit == 5
    damaged = [cursor[:n] for n in range(len(cursor))] + [cursor[n:] for n in range(1, len(cursor))]
    damaged += [cursor[:n] + ("A" if cursor[n] != "A" else "B") + cursor[n + 1 :] for n in range(len(cursor))]
    damaged += [cursor + more for more in ("=", "==", "A", "\n", " ", "%3D", "\0", "é")]
    for text in damaged:
        with pytest.raises(BadListRequest, match="cursor: it is no cursor of this list"):
            read_request(SHAPE, [("cursor", text)])


def test_a_cursor_of_another_list_is_refused() -> None:
    cursor = first()
    for other in (SHAPE.of("north"), ListShape("pebbles", SHAPE.sort_keys, SHAPE.default_sort, SHAPE.filters)):
        with pytest.raises(BadListRequest, match="cursor: it is no cursor of this list"):
            read_request(other, [("cursor", cursor)])


def test_a_cursor_goes_on_under_what_it_was_made_under() -> None:
    cursor = first("limit=5&colour=red&colour=blue&sort_key=name&sort_order=desc")
    alone = read_request(SHAPE, [("cursor", cursor)])
    assert (alone.sort, alone.limit, alone.filters) == (("name", "desc"), 5, {"colour": ("red", "blue")})
    for same in (
        "limit=5",
        "sort_key=name&sort_order=desc",
        "colour=blue&colour=red",
        "colour=red&colour=blue&limit=5",
    ):
        assert read_request(SHAPE, pairs_of(f"cursor={cursor}&{same}")) == alone


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ("limit=6", "limit"),
        ("sort_key=size", "sort_key"),
        ("sort_order=asc", "sort_order"),
        ("colour=blue", "colour"),
        ("colour=red&colour=green", "colour"),
        ("colour=red&name=x", "name"),
        ("sort_key=size&limit=6", "limit, sort_key"),
    ],
)
def test_a_cursor_is_refused_under_anything_else(other: str, named: str) -> None:
    cursor = first("limit=5&colour=red&sort_key=name&sort_order=desc")
    with pytest.raises(BadListRequest, match=rf"cursor: it was made under another .*{named}.*; leave that out"):
        read_request(SHAPE, pairs_of(f"cursor={cursor}&{other}"))


def test_a_cursor_made_without_a_filter_is_refused_under_one() -> None:
    with pytest.raises(BadListRequest, match="another colour"):
        read_request(SHAPE, pairs_of(f"cursor={first()}&colour=red"))


def test_a_request_that_is_wrong_by_itself_is_refused_with_a_cursor_too() -> None:
    with pytest.raises(BadListRequest, match="limit: "):
        read_request(SHAPE, pairs_of(f"cursor={first()}&limit=0"))


SOUND: list[Any] = ["size", "asc", 5, {}, 1, 1, False]


@pytest.mark.parametrize(
    ("index", "content"),
    [
        (0, "weight"), (0, 1), (0, ["size"]), (0, None), (1, "up"), (1, {}), (2, 0), (2, 501), (2, 1.5), (2, "5"), (2, None),
        (2, True), (3, []), (3, {"colour": ["pink"]}), (3, {"colour": "red"}), (3, {"colour": [1]}), (3, {"weight": ["1"]}),
        (3, {"limit": ["6"]}), (3, {"name": ["x" * 2000]}), (3, {"name": ["\ud800"]}), (3, None), (4, [1]), (4, None), (4, True),
        (4, 2**63), (4, float("nan")), (4, "x" * 257), (4, "\ud800"), (4, {}), (5, 2**62 + 1), (5, 1.0), (5, "1"), (5, True),
        (5, None), (6, 1), (6, None), (6, "false"),
    ],
)  # fmt: skip
def test_a_forged_cursor_is_looked_at_like_any_parameter(index: int, content: object) -> None:
    assert read_request(SHAPE, [("cursor", forged(*SOUND))]).position is not None
    with pytest.raises(BadListRequest, match="cursor: "):
        read_request(SHAPE, [("cursor", forged(*SOUND[:index], content, *SOUND[index + 1 :]))])


@each_home
@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize(("key", "value"), [("size", "x"), ("size", ""), ("cost", "1"), ("name", 7), ("colour", -0.5)])
def test_numbers_are_before_texts_where_a_forged_cursor_has_the_other_type(
    ask: Ask, key: str, value: object, order: str
) -> None:
    for backwards in (False, True):
        query = [("cursor", forged(key, order, 3, {}, value, 2, backwards))]
        assert ask(query, ROWS) == ask_memory(query, ROWS)


@pytest.mark.parametrize("content", [b"", b"[" * 3000, b"null", b"{}", b"[]", b"\xff", b"[1,2", b"9" * 4400])
def test_a_forged_cursor_that_is_no_sound_json_is_refused(content: bytes) -> None:
    check = blake2b(NAME.encode() + b"\0" + content, digest_size=8, person=b"list cursor 1").digest()
    cursor = base64.urlsafe_b64encode(check + content).decode().rstrip("=")
    with pytest.raises(BadListRequest, match="cursor: "):
        read_request(SHAPE, [("cursor", cursor)])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300) | st.sampled_from(SHAPE.parameters),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
PLAUSIBLE = st.tuples(
    st.sampled_from(SHAPE.sort_keys) | JSON,
    st.sampled_from(["asc", "desc"]) | JSON,
    st.integers(1, 500) | JSON,
    st.just({})
    | st.dictionaries(st.sampled_from(["colour", "name"]), st.lists(st.text(max_size=4), max_size=2))
    | JSON,
    st.text() | st.integers() | st.floats() | JSON,
    st.integers() | JSON,
    st.booleans() | JSON,
)


@each_home
@settings(max_examples=150, deadline=None)
@given(content=PLAUSIBLE | JSON)
def test_any_forged_cursor_is_a_page_or_a_bad_request(ask: Ask, content: object) -> None:
    try:
        cursor = sealed(NAME, content)
    except ValueError:
        return
    try:
        body = ask([("cursor", cursor)], ROWS)
    except BadListRequest:
        return
    assert body["pagination"]["item_count"] <= body["pagination"]["total_count"]


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_random_bytes_are_never_taken_for_a_cursor(content: bytes) -> None:
    with pytest.raises(BadListRequest):
        read_request(SHAPE, [("cursor", content.decode("utf-8", "replace"))])


@given(JSON, st.text(max_size=8))
def test_what_is_sealed_opens_again_for_its_list_alone(content: object, name: str) -> None:
    cursor = sealed(NAME, content)
    if len(cursor) <= MAX_CHARS and "\ud800" not in json.dumps(content, ensure_ascii=False):
        assert json.dumps(opened(NAME, cursor)) == json.dumps(content)
    with pytest.raises(NotACursor):
        opened(NAME + name + "x", cursor)
