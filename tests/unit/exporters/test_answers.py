import orjson
import pytest
from multidict import CIMultiDict

from exporters.accounting import Sent
from exporters.answer_body import Cut
from exporters.base import Delivered, Hold, NotUnderstood, Outcome, Refused, Retry
from exporters.cost_service.answers import fault, outcome
from spool.store import Refusal

NOW_UNIX_S = 1_767_607_200.0  # Mon, 05 Jan 2026 10:00:00 GMT
SENT = Sent(3)


def answer(status: int, body: bytes = b"", *, repeatable: bool = True, **headers: str) -> Outcome:
    named = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return outcome(status, named, body, "lane", sent=SENT, now_unix_s=NOW_UNIX_S, repeatable=repeatable)


@pytest.mark.parametrize("status", [200, 201, 202, 204])
@pytest.mark.parametrize("body", [b"", b" \n", b"{}", b'{"accepted":3,"rejected":[]}'])
def test_a_success_that_accounts_for_the_batch_is_delivered(status: int, body: bytes) -> None:
    assert answer(status, body) == Delivered()


@pytest.mark.parametrize("status", [203, 205, 206, 207, 208, 226, 299])
@pytest.mark.parametrize("body", [b"", b'{"accepted":3,"rejected":[]}', b"text", b"{"])
def test_a_2xx_that_the_contract_does_not_have_is_not_understood(status: int, body: bytes) -> None:
    found = answer(status, body)
    assert isinstance(found, NotUnderstood)
    assert f"HTTP {status}" in found.reason


@pytest.mark.parametrize("body", [b"<html>", b"OK", b"[]", b'"rejected"', b"\xff", b'{"accepted":0}', b'{"error":"x"}'])
def test_a_success_that_does_not_account_for_the_batch_is_not_understood(body: bytes) -> None:
    found = answer(200, body)
    assert isinstance(found, NotUnderstood)
    assert found.reason.startswith("HTTP 200: the answer is not understood: it ")


def test_rejected_records_are_taken_from_a_2xx_body_by_index() -> None:
    body = orjson.dumps(
        {"accepted": 1, "rejected": [{"index": 2, "code": "invalid_model", "message": "no\nsuch"}, {"index": 0}]}
    )
    assert answer(202, body) == Delivered((Refusal(0, "rejected", ""), Refusal(2, "invalid_model", "no such")))


@pytest.mark.parametrize(
    "status", [301, 302, 307, 308, 304, 401, 402, 403, 404, 405, 406, 407, 410, 415, 418, 421, 451, 501]
)
def test_what_an_operator_has_to_correct_holds_the_lane_and_never_buries(status: int) -> None:
    held = answer(status, b'{"message":"User is not authorized to access this resource"}')
    assert isinstance(held, Hold)
    assert f"HTTP {status}" in held.reason


@pytest.mark.parametrize("status", [408, 425, 500, 502, 504, 507, 511, 599])
def test_what_may_pass_is_tried_again_with_the_back_off(status: int) -> None:
    assert answer(status, b"oops", Retry_After="9") == Retry(f"HTTP {status}: oops", answered=True)


@pytest.mark.parametrize("status", [429, 503])
def test_a_target_that_asks_for_time_pauses_the_lane(status: int) -> None:
    assert answer(status) == Retry(f"HTTP {status}", answered=True, after_s=None, throttled=True)
    assert answer(status, retry_after="9") == Retry(f"HTTP {status}", answered=True, after_s=9.0, throttled=True)


def test_a_retry_after_date_counts_from_the_answers_own_date() -> None:
    wish = answer(429, Retry_After="Mon, 05 Jan 2026 10:01:00 GMT", Date="Mon, 05 Jan 2026 10:00:50 GMT")
    assert wish == Retry("HTTP 429", answered=True, after_s=10.0, throttled=True)
    assert answer(429, Retry_After="Mon, 05 Jan 2026 10:01:00 GMT") == Retry(
        "HTTP 429", answered=True, after_s=60.0, throttled=True
    )


@pytest.mark.parametrize("status", [400, 422])
def test_a_refused_payload_carries_the_services_words(status: int) -> None:
    body = b'{"error":{"message":"model is missing","type":"invalid_record"}}'
    assert answer(status, body) == Refused("invalid_record", "model is missing")
    assert answer(status) == Refused(f"http_{status}", "")


def test_too_large_is_a_refusal_of_the_size() -> None:
    assert answer(413, b'{"message":"too big"}') == Refused("too_large", "HTTP 413: too big", too_large=True)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b'{"error":{"type":"already_accepted","message":"seen"}}', Delivered()),
        (b'{"message":"Batch was already accepted"}', Delivered()),
        (b'{"error":{"type":"conflict","message":"no"}}', Refused("conflict", "no")),
        (b"", Refused("http_409", "")),
        (b"already accepted", Delivered()),
        (
            b'{"message":"2 records already accepted, the rest is invalid"}',
            Refused("http_409", "2 records already accepted, the rest is invalid"),
        ),
        (
            b'{"code":"duplicate","accepted":2,"rejected":[{"index":1,"code":"c","message":"m"}]}',
            Delivered((Refusal(1, "c", "m"),)),
        ),
        (
            b'{"code":"duplicate","accepted":0}',
            NotUnderstood("HTTP 409: the answer is not understood: it names 0 accepted and 0 rejected of 3 records"),
        ),
    ],
)
def test_a_409_is_an_ack_only_when_it_says_so(body: bytes, wanted: Outcome) -> None:
    assert answer(409, body) == wanted


@pytest.mark.parametrize("status", [500, 502, 504])
def test_what_cannot_be_repeated_safely_is_set_aside_after_an_ambiguous_answer(status: int) -> None:
    assert answer(status, repeatable=False) == Refused("ambiguous_answer", f"HTTP {status}", may_be_there=True)
    assert isinstance(answer(503, repeatable=False), Retry), "503 says that nothing was done"
    assert isinstance(answer(408, repeatable=False), Retry)


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b'{"error":{"message":"m","type":"t"}}', "t", "m"),
        (b'{"error":{"message":"m","code":"c"}}', "c", "m"),
        (b'{"message":"m","code":"c"}', "c", "m"),
        (b'{"error":"m"}', None, "m"),
        (b"plain\r\n\x1b[31mtext", None, "plain   [31mtext"),
        (b"\xff\xfe", None, "\ufffd\ufffd"),
        (b"", None, ""),
        (b"x" * 2000, None, "x" * 512),
        (orjson.dumps({"message": "y" * 2000, "code": "z" * 2000}), "z" * 64, "y" * 512),
    ],
)
def test_the_services_words_are_found_cut_and_made_printable(body: bytes, code: str | None, message: str) -> None:
    said = fault(body)
    assert (said.code, said.message) == (code, message)


@pytest.mark.parametrize("status", [200, 202, 409])
@pytest.mark.parametrize("cut", ["broke off", "cannot be unpacked"])
def test_a_success_that_was_not_read_whole_states_nothing(status: int, cut: Cut) -> None:
    for body in (b"", b"text", b'{"accepted":3,"rejected":[]}'):
        unsure = outcome(status, CIMultiDict(), body, "lane", sent=SENT, now_unix_s=NOW_UNIX_S, cut=cut)
        reason = f"HTTP {status}: the answer {cut}"
        assert unsure == Retry(reason, answered=False, may_be_there=True, unreadable=True)


@pytest.mark.parametrize("status", [400, 403, 413, 429, 500])
def test_the_status_of_an_error_states_enough_when_its_body_was_cut(status: int) -> None:
    body = b'{"message":"cut he'
    whole = answer(status, body)
    assert outcome(status, CIMultiDict(), body, "lane", sent=SENT, now_unix_s=NOW_UNIX_S, cut="broke off") == whole
