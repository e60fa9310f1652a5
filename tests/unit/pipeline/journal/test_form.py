"""What an edge writes into the journal comes back equal, and makes nothing but plain values."""

import pickle
from collections.abc import Callable

import pytest

from gateway.fleet.senders.noting import SenderNotes
from gateway.pipeline.journal.form import (
    FORMS,
    OLDEST,
    Entry,
    Form,
    JournalCorrupt,
    SentBy,
    read_row,
    shared_form,
    write_row,
)
from gateway.pipeline.parsing.parse import ParseRules, Payload, parse
from gateway.rules.context import Context
from gateway.usage.pricing.prices import Prices
from tests.support.corpus import scenarios

CONTEXT = Context(
    1_767_607_200_000, "2026-01-05T10:00:00.000Z", "a key", "key-1", key_fixes={"team": "core"}, peer="10.0.0.7"
)
NOTES = SenderNotes(
    [(("a key", "otlp.traces", "sdk/1"), [("app", 1, 2, 1, 0, 300)])], [((None, "litellm", ""), "no", 2)]
)


@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
def test_every_captured_payload_comes_back_equal(signal: str) -> None:
    rules = ParseRules(Prices())
    entries = [
        Entry(signal, parse(Payload(signal, payload.body, payload.is_json), CONTEXT, rules), SentBy.of(CONTEXT), 3)
        for scenario in scenarios(signal)
        for payload in scenario.payloads
    ]
    assert len(entries) > 20
    assert read_row(write_row(entries, NOTES)) == (entries, NOTES)


def test_the_context_of_a_payload_comes_back_with_what_is_the_same_for_all() -> None:
    base = Context(0, "", device_id="hub", own_device="this one")
    assert SentBy.of(CONTEXT).context(base) == CONTEXT._replace(device_id="hub", own_device="this one")


def of_a_class() -> bytes:
    return pickle.dumps(([Payload("traces", b"")], ([], [])), protocol=5)


def cut() -> bytes:
    return write_row([], NOTES)[:-3]


def of_another_shape() -> bytes:
    return pickle.dumps(([("traces",)], ([], [])), protocol=5)


@pytest.mark.parametrize("damaged", [of_a_class, cut, of_another_shape, bytes, lambda: b"\x80\x05garbage"])
def test_a_row_that_is_not_ours_is_refused(damaged: Callable[[], bytes]) -> None:
    with pytest.raises(JournalCorrupt):
        read_row(damaged())


@pytest.mark.parametrize(
    ("known", "form"),
    [([], OLDEST), ([[1, 2]], 2), ([[1, 2], [1]], 1), ([[1, 2], [1, 2, 3]], 2), ([[1, 2], [3]], OLDEST)],
    ids=["nobody known", "this release", "an older one too", "a newer one too", "none in common"],
)
def test_the_newest_form_that_all_gateways_read_is_written(
    monkeypatch: pytest.MonkeyPatch, known: list[list[int]], form: int
) -> None:
    monkeypatch.setitem(FORMS, 2, Form(write_row, read_row))
    assert shared_form(known) == form
