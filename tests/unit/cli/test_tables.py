"""Tables of commands: what they hold is whole, on any terminal and on none."""

import io
from collections.abc import Callable

import pytest

from gateway.cli.devices import print_devices
from gateway.cli.keys import print_found, print_senders

DEVICE_ID = "workstation-" + "0123456789abcdef" * 7
KEY_NAME = "the key of the team that calls more models than any other one in the house"
PATHS = ["/v1/sources/generic/nightly-batches-of-the-analytics-team/v1/traces", "/v1/traces"]


def devices_table() -> None:
    contact = "2026-01-05T10:00:00.000Z"
    device = {"device_id": DEVICE_ID, "state": "enrolled", "kind": "workstation", "reason": "it is a clone of another"}
    device |= {"last_contact_at": contact, "enrolled_at": contact}
    print_devices({"devices": [device], "pagination": {"total_count": 1, "item_count": 1}})


def keys_table() -> None:
    key = {"name": KEY_NAME, "status": "Enabled", "managed": ["send-ai-telemetry"], "scope_count": 1, "id": "k" * 26}
    times = dict.fromkeys(("last_accessed", "last_modified"), "2026-01-05T10:00:00Z")
    print_found([{**key, **times, "updated_by": "ops@example.com", "created_by": "ops@example.com"}])


def senders_table() -> None:
    sender = {"peer": "10.0.0.1", "product": "OTel-OTLP-Exporter-Python/1.39.1", "requests": 7}
    print_senders([{**sender, "last_seen": "2026-01-05T10:00:00Z", "paths": PATHS}])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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
    assert [text for text in whole if text not in out.getvalue()] == []


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
