"""The documents of a body, whatever stands between them."""

import orjson
import pytest

from gateway.common.contract.errors import BadPayload, TooLarge
from gateway.products.documents import MAX_BAD_LINES, documents_in
from gateway.read.limits import DEFAULT_LIMITS

ONE, TWO = {"a": {"b": [1, "}{"]}}, {"c": "é"}


def lines_of(*values: object, indent: bool = False) -> list[bytes]:
    return [orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None) for value in values]


@pytest.mark.parametrize("between", [b"", b" ", b"\r\n", b"\n\n"])
@pytest.mark.parametrize("indent", [False, True])
def test_documents_that_follow_each_other_are_read_one_by_one(between: bytes, *, indent: bool) -> None:
    """Firehose writes its objects without anything between the records, `jq` over several lines."""
    documents = documents_in(between.join(lines_of(ONE, TWO, ONE, indent=indent)))
    assert [found.value for found in documents.found] == [ONE, TWO, ONE]
    assert documents.rejected == []
    assert len({found.position for found in documents.found}) == 3


def test_a_line_of_several_documents_costs_its_neighbours_nothing() -> None:
    one, two = lines_of(ONE, TWO)
    documents = documents_in(one + b"\n" + one + two + b"\n" + two + b'{"cut": ')
    assert [found.value for found in documents.found] == [ONE, ONE, TWO, TWO]
    assert [found.position for found in documents.found] == ["line 1", "line 2[0]", "line 2[1]", "line 3[0]"]
    assert [rejection.position for rejection in documents.rejected] == ["line 3"]


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": 1} and so on',
        b'{"a": 1}, {"a": 2}',
        b"12 13",
        b'"a" "b"',
        b'{"a":' * 100_000,
    ],
)
def test_what_is_no_row_of_objects_is_no_document(text: bytes) -> None:
    with pytest.raises(BadPayload):
        documents_in(text)


@pytest.mark.parametrize("cut", [b'{"a":' * 100_000, b'{"b": "x', b'{"b": "x\n'])
def test_a_cut_end_costs_nothing_before_it(cut: bytes) -> None:
    for before in lines_of(ONE), lines_of(ONE, indent=True):
        documents = documents_in(b"".join([*before, cut]))
        assert [found.value for found in documents.found] == [ONE]
        assert len(documents.rejected) == 1


def test_a_bad_first_line_costs_nothing_behind_it() -> None:
    for first in (b'{"cut": "sh', b'{"cut":', b'{"a": 1} {"cut', b"cut"):
        documents = documents_in(first + b"\n" + b"\n".join(lines_of(ONE, TWO)))
        assert [found.value for found in documents.found][-2:] == [ONE, TWO]
        assert [rejection.position for rejection in documents.rejected] == ["line 1"]


def test_a_later_part_of_a_body_is_never_refused() -> None:
    for part in (b"", b"\r\n", b'{"cut'):
        assert documents_in(part, first_line=7).found == []
    assert [each.position for each in documents_in(b'{"cut', first_line=7).rejected] == ["line 7"]
    assert [each.position for each in documents_in(b"[1, 2]", first_line=7).found] == ["line 7[0]", "line 7[1]"]


def test_a_text_cut_inside_an_emoji_costs_no_call() -> None:
    """JavaScript and Python write half of a surrogate pair as it is,
    and Python a number that is none.
    """
    cut, nan = b'{"a": "\\ud83d"}', b'{"b": NaN}'
    for body in (b"[" + cut + b"," + nan + b"]", cut + b"\n" + nan, cut + nan):
        assert [found.value for found in documents_in(body).found] == [{"a": "�"}, {"b": None}]


def test_more_objects_than_fit_into_memory_are_refused_before_they_are_read() -> None:
    with pytest.raises(TooLarge):
        documents_in(b"[" + b"{}," * (DEFAULT_LIMITS.max_json_values // 2) + b"{}]")


def test_behind_very_many_bad_lines_the_rest_is_one_rejection() -> None:
    read = documents_in(b'{"a":1}\n' + b"{\n" * (MAX_BAD_LINES + 5))
    assert [found.value for found in read.found] == [{"a": 1}]
    assert len(read.rejected) == MAX_BAD_LINES + 1
    assert read.rejected[-1][:2] == ("too_many_bad_lines", f"all behind line {MAX_BAD_LINES + 1}")
