"""Tables of commands: what they hold is whole, on any terminal and on none."""

import io
import re
from collections.abc import Callable

import pytest

from gateway.cli.dead_letters import print_letters
from gateway.cli.devices import print_devices
from gateway.cli.keys import print_found, print_senders
from gateway.cli.senders import print_list
from gateway.cli.spool import print_tables
from gateway.cli.usage import print_answer

DEVICE_ID = "workstation-" + "0123456789abcdef" * 7
KEY_NAME = "the key of the team that calls more models than any other one in the house"
PATHS = ["/v1/sources/generic/nightly-batches-of-the-analytics-team/v1/traces", "/v1/traces"]


def devices_table() -> None:
    contact = "2026-01-05T10:00:00.000Z"
    device = {"device_id": DEVICE_ID, "state": "enrolled", "kind": "workstation", "reason": "it is a clone of another"}
    device |= {"last_contact_at": contact, "enrolled_at": contact}
    print_devices({"devices": [device], "pagination": {"total_count": 1, "item_count": 1}})


def keys_table() -> None:
    key = {
        "name": KEY_NAME,
        "status": "Enabled",
        "managed": ["send-ai-telemetry"],
        "scope_count": 1,
        "limits": {},
        "id": "k" * 26,
    }
    times = dict.fromkeys(("last_accessed", "last_modified"), "2026-01-05T10:00:00Z")
    print_found([{**key, **times, "updated_by": "ops@example.com", "created_by": "ops@example.com"}])


def senders_table() -> None:
    sender = {"peer": "10.0.0.1", "product": "OTel-OTLP-Exporter-Python/1.39.1", "requests": 7}
    print_senders([{**sender, "last_seen": "2026-01-05T10:00:00Z", "paths": PATHS}])


LONG = "the-service-of-a-team-with-the-longest-name-of-all"
SUMS = {"calls": 123_456, "calls_without_cost": 3, "calls_without_usage": 2, "calls_missing_usage": 2}
SUMS |= {"input_tokens": 10**12, "output_tokens": None, "costs": {"USD": "123456.123456", "EUR": "3.5"}}
SUMS |= {"failed_calls": 1, "calls_without_price": 1, "cache_read_tokens": None, "cache_creation_tokens": None}
SUMS |= {"reasoning_tokens": None, "cacheable_tokens": None, "cached_tokens": None, "estimated_costs": {}}


def dead_letters_table() -> None:
    letter = {"id": 17, "lane": "ai_telemetry", "reason": "invalid_started_at", "message": "the time is in the future"}
    letters = [{**letter, "buried_at": "2026-01-05T10:00:00.000Z"}]
    print_letters({"dead_letters": letters, "pagination": {"total_count": 1, "item_count": 1}})


def status_table() -> None:
    edge = dict.fromkeys(("received", "kept", "duplicate", "suppressed", "rejected", "ignored"), 10**9)
    lane = dict.fromkeys(("kept", "delivered", "pending", "dead_lettered", "expired"), 10**9)
    lane |= {"oldest_pending_age_s": 86_400.0, "state": "retrying", "reason": None}
    print_tables({"edge": edge, "lanes": {"ai_telemetry": lane, "an-exporter-of-our-own": lane}})


def sender_activity_table() -> None:
    sender = {"service_name": LONG, "format": "otlp.traces", "key": "checkout of the shop", "silent_s": 3600.0}
    sender |= {"calls": 10**9, "calls_without_usage": 10**6, "refused": 10**6, "warnings": []}
    print_list({"senders": [sender], "pagination": {"total_count": 1, "item_count": 1}})


def usage_table() -> None:
    row = {**SUMS, "provider": "gcp.vertex_ai", "model": LONG}
    totals = {"totals": SUMS, "rest": None, "usage": [row], "pagination": {"total_count": 1}}
    times = dict.fromkeys(("from", "to", "counted_through", "hours_from"), "2026-01-05T10:00:00Z")
    print_answer({**totals, **times}, ("provider", "model"))


def usage_table_with_latency() -> None:
    took = {"calls": 10**6, "p50_ms": 12_345, "p90_ms": 10**5, "p99_ms": 123_456}
    sums = {**SUMS, "latency": {"duration": took, "time_to_first_token": None}}
    row = {**sums, "team": "checkout"}
    totals = {"totals": sums, "rest": None, "usage": [row], "pagination": {"total_count": 1}}
    times = dict.fromkeys(("from", "to", "counted_through", "hours_from"), "2026-01-05T10:00:00Z")
    print_answer({**totals, **times}, ("team",))


TABLES = [
    usage_table_with_latency,
    devices_table,
    keys_table,
    senders_table,
    dead_letters_table,
    status_table,
    sender_activity_table,
    usage_table,
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("table", TABLES)
def test_every_table_fits_a_terminal_of_80_columns(table: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """But for a single word that is longer itself: it is never broken. Sentences below a table are
    wrapped by the terminal.
    """
    monkeypatch.setenv("COLUMNS", "80")
    out = Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", out)
    table()
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in out.getvalue().splitlines()]
    wide = [line for line in lines if len(line) > 80 and len(line.split()) > 2 and not line.startswith("From 2026")]
    assert wide == []


@pytest.mark.parametrize("to", [io.StringIO, Terminal])
@pytest.mark.parametrize(
    ("table", "whole"),
    [(devices_table, [DEVICE_ID, "enrolled"]), (keys_table, [KEY_NAME, "Enabled"]), (senders_table, PATHS)],
)
def test_a_table_wider_than_80_columns_cuts_nothing(
    table: Callable[[], None], whole: list[str], to: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = to()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", out)
    table()
    assert "…" not in out.getvalue()
    shown = " ".join(out.getvalue().split())  # it may be wrapped at blanks
    assert [text for text in whole if text not in shown] == []


def test_a_terminal_that_is_wide_enough_wraps_at_blanks_only_and_a_pipe_gets_a_line_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "210")
    for out, lines in ((Terminal(), 3), (io.StringIO(), 2)):
        monkeypatch.setattr("sys.stdout", out)
        devices_table()
        table, counted = out.getvalue().rstrip().rsplit("\n", 1)
        assert (len(table.splitlines()) >= lines, counted) == (True, "1 of 1 devices")
        assert (len(table.splitlines()) == 2) == (lines == 2)


def test_a_sender_without_a_name_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    warning = {"text": "two calls came without usage", "remedy": "switch it on"}
    sender = {"service_name": None, "format": "otlp.traces", "key": None, "silent_s": 3.0, "warnings": [warning]}
    sender |= {"calls": 2, "calls_without_usage": 2, "refused": 0}
    print_list({"senders": [sender], "pagination": {"total_count": 1, "item_count": 1}})
    assert "\notlp.traces: two calls came without usage\n" in capsys.readouterr().out


def test_the_dated_names_of_a_model_stand_indented_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    versions = [{**SUMS, "model": "gpt-4o-2024-08-06", "calls": 7}, {**SUMS, "model": "gpt-4o", "calls": 5}]
    row = {**SUMS, "provider": "openai", "model": "gpt-4o", "calls": 12, "versions": versions}
    totals = {"totals": SUMS, "rest": None, "usage": [row], "pagination": {"total_count": 1}}
    times = dict.fromkeys(("from", "to", "counted_through", "hours_from"), "2026-01-05T10:00:00Z")
    print_answer({**totals, **times}, ("provider", "model"))
    head, model, first, second, *_ = capsys.readouterr().out.splitlines()
    place = head.index("model")
    assert (model[place : place + 8], model.split()[:3]) == ("gpt-4o  ", ["openai", "gpt-4o", "12"])
    assert (first[place : place + 19], first.split()[:2]) == ("  gpt-4o-2024-08-06", ["gpt-4o-2024-08-06", "7"])
    assert second.split()[:2] == ["gpt-4o", "5"]
