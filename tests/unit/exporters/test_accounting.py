"""What a document accounts for, of three records. How whole answers are read over a socket is in
`tests/conformance/exporters/test_table_of_answers.py`.
"""

import json

import orjson
import pytest

from exporters.accounting import Sent, accounted, sent_in
from exporters.answer_body import AnswerNotUnderstood
from spool.record import Batch
from tests.support.growth import assert_linear

SENT = Sent(3, record_ids=lambda: ["a", "b", "c"])


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"id": 7},
        {"batchId": "0199", "received_at": "2026-01-05T10:00:05Z", "took_ms": 12, "version": "1.2"},
        {"message": "Records accepted", "status": 200, "code": "ok"},
        {"success": True, "data": {"request_id": "x"}},
        {"error": None, "errors": [], "failed": 0, "rejected_count": 0},
        {"accepted": 3},
        {"accepted": 3, "rejected": None, "errors": []},
        {"accepted": 3, "rejected": 0, "duplicates": 2, "message": "2 failed before"},
        {"records": 3},
        {"partialSuccess": None},
        {"partialSuccess": {}},
        {"partialSuccess": {"rejectedSpans": "0", "errorMessage": "a warning"}},
    ],
)
def test_an_answer_that_accounts_for_all_of_them(document: object) -> None:
    found = accounted(document, SENT)
    assert (found.refused, found.unplaced) == ((), 0)


@pytest.mark.parametrize(
    ("entries", "places"),
    [
        ([{"index": 1}], [1]),
        ([{"record_id": "c"}, {"index": 0}], [0, 2]),
        ([{"index": 1, "record_id": "b"}], [1]),
        ([{"index": None, "record_id": "b"}], [1]),
        ([{"index": 2}, {"index": 1}, {"index": 0}], [0, 1, 2]),
    ],
)
def test_refusals_are_placed_by_index_and_by_record_id(entries: list[dict[str, object]], places: list[int]) -> None:
    found = accounted({"accepted": 3 - len(entries), "rejected": entries}, SENT)
    assert [each.index for each in found.refused] == places


@pytest.mark.parametrize(
    "entries",
    [
        [{}],
        [None],
        ["b"],
        [1],
        [{"index": "1"}],
        [{"index": 1.0}],
        [{"index": True}],
        [{"index": 3}],
        [{"index": -1}],
        [{"index": [1]}],
        [{"index": 10**30}],
        [{"record_id": "z"}],
        [{"record_id": 1}],
        [{"record_id": "b", "index": 2}],
        [{"record_id": "b", "index": "1"}],
        [{"id": "b"}],
        [{"position": 1}],
        [{"index": 1}, {"index": 1}],
        [{"index": 1}, {"record_id": "b"}],
    ],
)
def test_a_refusal_that_is_not_placed_once_leaves_the_whole_answer_open(entries: list[object]) -> None:
    with pytest.raises(AnswerNotUnderstood):
        accounted({"accepted": 3 - len(entries), "rejected": entries}, SENT)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        [{"accepted": 3}],
        3,
        "ok",
        True,
        {"accepted": 0},
        {"accepted": 2},
        {"accepted": 4},
        {"accepted": -3, "rejected": [{"index": 0}] * 6},
        {"accepted": None},
        {"accepted": True},
        {"accepted": "3"},
        {"accepted": 3.0},
        {"accepted": [0, 1, 2]},
        {"accepted": 3, "rejected": 1},
        {"accepted": 0, "rejected": 3},
        {"accepted": 3, "rejected": False},
        {"accepted": 3, "rejected": {}},
        {"accepted": 3, "rejected": ""},
        {"accepted": 2, "rejected": {"index": 1}},
        {"rejected": []},
        {"rejected": "everything"},
        {"rejected": [{"index": 1}]},
        {"accepted": 3, "failed": 1},
        {"accepted": 3, "errors": [{"index": 1}]},
        {"accepted": 3, "rejected": [], "error": {"message": "m"}},
        {"accepted": 3, "success": False},
        {"accepted": 3, "result": {"failures": 3}},
        {"error": {"type": "invalid"}},
        {"errors": ["x"]},
        {"error": "x"},
        {"error": True},
        {"exception": {}, "failure": "x"},
        {"code": "invalid_field"},
        {"status": "error"},
        {"status": 500},
        {"message": "nothing was taken"},
        {"ok": False},
        {"stored": False},
        {"result": {"accepted": 3, "rejected": []}},
        {"result": {"accepted": 0}},
        {"Accepted": 3},
        {"accepted_count": 3},
        {"acceptedIds": []},
        {"items": [{"status": 400}]},
        {"count": "0"},
        {"records": 2},
        {"records": []},
        {"body": '{"accepted":0}'},
        {"partialSuccess": 1},
        {"partialSuccess": {"rejectedSpans": 4}},
        {"partialSuccess": {"rejectedSpans": -1}},
        {"partialSuccess": {"rejectedSpans": "-1"}},
        {"partialSuccess": {"rejectedSpans": True}},
        {"partialSuccess": {"rejectedSpans": 1.5}},
        {"partialSuccess": {"rejected_spans": 1}},
        {"partialSuccess": {"rejectedLogRecords": 1}},
        {"partialSuccess": {"rejectedSpans": 1}, "accepted": 3},
        {"partial_success": {"rejected_spans": 1}},
    ],
)
def test_anything_else_accounts_for_nothing(document: object) -> None:
    with pytest.raises(AnswerNotUnderstood) as raised:
        accounted(document, SENT)
    assert len(str(raised.value)) < 250


def test_a_record_id_that_two_records_have_places_nothing() -> None:
    with pytest.raises(AnswerNotUnderstood, match="of no record"):
        accounted({"accepted": 1, "rejected": [{"record_id": "a"}]}, Sent(2, record_ids=lambda: ["a", "a"]))


def test_the_ids_are_those_of_the_records_or_the_events() -> None:
    records = (b'{"record_id":"r"}', b'{"title":"t","metadata":{"event_id":"e"}}', b'{"record_id":7}', b"{}")
    assert sent_in(Batch("b", "lane", 0, 0, "", records)).record_ids() == ["r", "e", None, None]


def test_an_index_is_of_the_request_where_that_has_another_order() -> None:
    found = accounted({"accepted": 2, "rejected": [{"index": 1}]}, Sent(3, order=[2, 0, 1]))
    assert [each.index for each in found.refused] == [0]


@pytest.mark.parametrize(
    "document",
    [
        {"stream": {"name": "errors", "dimensions": ["a"], "records": 0}},
        {"rows": 7, "connection": {"state": "partial", "drop_id": "x"}},
    ],
)
def test_an_answer_about_one_thing_may_describe_it(document: object) -> None:
    accounted(document, Sent(1, is_one_thing=True))


@pytest.mark.parametrize("document", [{"error": "x"}, {"status": "failed"}, {"accepted": 0}, {"rejected": [1]}, []])
def test_an_answer_about_one_thing_names_no_failure(document: object) -> None:
    with pytest.raises(AnswerNotUnderstood):
        accounted(document, Sent(1, is_one_thing=True))


def test_reading_is_linear_in_the_refusals() -> None:
    def read(count: int) -> None:
        ids = [f"{number:032x}" for number in range(count)]
        rejected = [{"record_id": each} for each in reversed(ids)]
        assert len(accounted({"rejected": rejected}, Sent(count, record_ids=lambda: ids)).refused) == count

    assert_linear(read, 3_000)


def test_what_is_shown_of_an_answer_is_short_and_printable() -> None:
    document = orjson.loads(json.dumps({"error": {"message": "\x1b[31m" + "x" * 10_000}}))
    with pytest.raises(AnswerNotUnderstood) as raised:
        accounted(document, SENT)
    assert len(str(raised.value)) < 150
    assert str(raised.value).isprintable()
