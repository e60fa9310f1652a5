"""The live runs use what the pages of senders print: commands, settings, code, versions."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gateway.products.otlp_senders import OTLP_SENDERS, OtlpSender
from tests.clients.applications import SNIPPET_LINE, NodeProgram, Places, PythonProgram, with_snippet
from tests.clients.catalogue import APPLICATIONS
from tests.clients.environments import NPM, PIP, words_after
from tests.clients.live import after_shell
from tests.clients.programs import CLIENTS
from tests.clients.recipes import NAMES, PAGE, TABLE, Recipe, Sums, fingerprint, kept, line, rows, table, ways
from tests.support.mock_llm import Served
from tests.support.ports import OtlpPorts
from tests.support.truth import any_call, differences, without_attribution

PINNED = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)


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


@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_program_is_run_with_the_code_that_is_printed(name: str) -> None:
    program = APPLICATIONS[name].program
    printed = places(APPLICATIONS[name].sender).snippets("python", "javascript")
    if isinstance(program, PythonProgram | NodeProgram):
        comment = "# " if isinstance(program, PythonProgram) else "// "
        written = with_snippet(program.code(), comment, printed)
        assert all(text in written for text in printed)
        assert SNIPPET_LINE not in written
    else:
        assert printed == []


@pytest.mark.parametrize("name", APPLICATIONS)
def test_pinned_are_the_packages_that_the_page_installs(name: str) -> None:
    """With those that the program itself needs. A further one would hide that one is missing."""
    program = APPLICATIONS[name].program
    printed = places(APPLICATIONS[name].sender).snippets("console")
    if isinstance(program, PythonProgram):
        pins = (CLIENTS / f"requirements-{program.environment}.txt").read_text()
        installs = [words for command in printed if command.startswith("pip") for words in words_after(PIP, command)]
        assert set(re.findall(r"^#   (.*)$", pins, re.MULTILINE)) == {*program.needs, *installs}
    elif isinstance(program, NodeProgram):
        pinned = json.loads((CLIENTS / program.folder / "package.json").read_text())["dependencies"]
        installs = [words for command in printed if command.startswith("npm") for words in words_after(NPM, command)]
        assert set(pinned) == {re.sub(r"(?<=.)@[^/]*$", "", each) for each in [*program.needs, *installs]}


def places(sender: str) -> Places:
    return Places(sender, "pinned", "http://127.0.0.1:1", OtlpPorts(4318, 4317), "tgk_key", Path("home"), "none")


def test_settings_are_what_a_shell_makes_of_the_printed_ones() -> None:
    printed = places("litellm").snippets("sh")
    assert "#" in printed[0]
    made = after_shell(printed, {"HOME": "/nowhere"})
    assert {name: made[name] for name in made if name != "HOME"} == {
        "DEFAULT_BATCH_SIZE": "1",
        "LOGGING_WORKER_MAX_TIME_PER_COROUTINE": "600",
    }


RECIPES = kept()


def test_the_page_of_senders_has_the_results_of_the_recipes() -> None:
    assert TABLE.findall(PAGE.read_text()) == [table(RECIPES)]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_printed_was_executed_with_the_pinned_and_the_newest_versions(name: str) -> None:
    """Repeat it with `python -m tests.clients recipes NAME --write` once a snippet changes."""
    executed = {each.key: each.snippets for each in RECIPES if each.application == name}
    assert executed == {
        (name, way.versions, way.transport): fingerprint(APPLICATIONS[name].sender) for way in ways(APPLICATIONS[name])
    }


def test_the_table_shows_what_was_counted_and_what_was_served_where_they_differ() -> None:
    counted, served = Sums(5, 1000, 0, 10, "0.5"), Sums(7, 1000, 20, 10, "0.50")
    (row,) = rows([Recipe("python", "newest", "openai 3.54.0", "grpc", counted, served, "")])
    assert "| grpc | **5 of 7** | 1,000 | **0 of 20** | 10 | 0.500000 |" in line(row)


def test_versions_and_transports_with_one_result_share_a_row() -> None:
    sums = Sums(7, 1000, 0, 10, "0.5")
    one = Recipe("python", "pinned", "openai 3.54.0", "grpc", sums, sums, "")
    same = [one._replace(versions=versions, transport=by) for versions in ("pinned", "newest") for by in ("a", "b")]
    (row,) = rows(same)
    assert "| pinned, newest: openai 3.54.0 | a, b |" in line(row)
    assert len(rows([*same, one._replace(packages="openai 4")])) == 2


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
