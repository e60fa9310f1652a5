"""The live runs use what the pages of senders print: snippets, versions, each of them."""

import json
import re

import pytest

from gateway.sources.otlp_senders import OTLP_SENDERS, OtlpSender
from tests.clients.live import APPLICATIONS
from tests.clients.programs import CLIENTS

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
