"""The live runs use what the pages of senders print: snippets, versions, each of them."""

import json
import re
from typing import Any

import pytest

from gateway.sources.otlp_senders import OTLP_SENDERS, OtlpSender
from tests.clients.live import APPLICATIONS
from tests.clients.programs import CLIENTS
from tests.support.mock_llm import Served
from tests.support.truth import any_call, differences, without_attribution

PINNED = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)
_PROGRAMS = [*(CLIENTS / "apps").glob("*.py"), *CLIENTS.glob("*/sender.*")]


def environments() -> list[set[str]]:
    """What each environment of the live runs holds, as `name version`."""
    of_python = [PINNED.findall(file.read_text()) for file in CLIENTS.glob("requirements-*.txt")]
    of_node = [json.loads(file.read_text())["dependencies"].items() for file in CLIENTS.glob("*/package.json")]
    of_go = re.findall(r"(otlp\w*exporter) v([\d.]+)", (CLIENTS / "collector/go.mod").read_text())
    return [{f"{name} {version}" for name, version in pins} for pins in (*of_python, *of_node, of_go)]


@pytest.mark.parametrize("sender", OTLP_SENDERS.values(), ids=lambda sender: sender.name)
def test_a_page_states_the_versions_of_its_live_run(sender: OtlpSender) -> None:
    assert sender.name in {application.sender for application in APPLICATIONS.values()} | {"collector"}
    versions = {part.strip() for part in sender.run_with.split(",")}
    assert any(versions <= environment for environment in environments())


@pytest.mark.parametrize("sender", OTLP_SENDERS.values(), ids=lambda sender: sender.name)
def test_the_code_of_a_page_stands_in_the_program_that_is_run(sender: OtlpSender) -> None:
    programs = ["\n" + program.read_text() for program in _PROGRAMS]
    for paste in sender.pastes:
        if paste.language in ("python", "javascript"):
            lines = [line for line in paste.text.splitlines() if line]
            assert any(all(f"\n{line}\n" in text for line in lines) for text in programs)


def test_every_package_lock_is_free_of_the_place_it_came_from() -> None:
    for lock in CLIENTS.glob("*/package-lock.json"):
        assert '"resolved"' not in lock.read_text()


SERVED: Served = {
    "scenario": "shop",
    "provider": "openai",
    "operation": "chat",
    "request_model": "gpt-4o",
    "response_model": "gpt-4o-2024-08-06",
    "response_id": "chatcmpl-1",
    "stream": False,
    "status": 200,
    "prompt_canary": True,
    "asked_for_tool": False,
    "input_tokens": 2003,
    "output_tokens": 1009,
    "cache_read_tokens": 601,
    "cache_creation_tokens": None,
    "reasoning_tokens": 101,
}


def record(**usage: int | None) -> dict[str, Any]:
    counts = {"input_tokens": 2003, "output_tokens": 1009, "cache_read_input_tokens": 601}
    return {
        "kind": "call",
        "provider": "openai",
        "request_model": "gpt-4o",
        "response_model": "gpt-4o-2024-08-06",
        "status": "ok",
        "usage": {**counts, "reasoning_output_tokens": 101, **usage},
        "attribution": {"user": "user-7"},
    }


def test_what_was_served_and_delivered_once_has_no_difference() -> None:
    assert differences([SERVED], [record()], {}) == []


@pytest.mark.parametrize(
    "delivered",
    [
        [],
        [record(), record()],
        [record(input_tokens=1402)],
        [record(input_tokens=None)],
        [record(cache_read_input_tokens=0)],
        [record(reasoning_output_tokens=0)],
        [record() | {"response_model": "gpt-4o"}],
        [record() | {"status": "error"}],
        [record(), record() | {"kind": "aggregate", "source": {}}],
    ],
)
def test_a_call_that_is_missing_or_counted_otherwise_is_a_difference(delivered: list[dict[str, Any]]) -> None:
    assert differences([SERVED], delivered, {}) != []


def test_what_a_sender_does_not_report_must_not_be_made_up() -> None:
    assert differences([SERVED], [record(reasoning_output_tokens=None)], {"reasoning": any_call}) == []
    assert differences([SERVED], [record()], {"reasoning": any_call}) != []


def test_each_call_has_the_attribution_that_the_application_states() -> None:
    assert without_attribution([record()], {"user": "user-7"}) == []
    assert len(without_attribution([record(), record()], {"user": "user-7", "session": "session-7"})) == 2
