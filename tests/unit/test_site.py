"""The documentation as a site: it builds strictly, loads nothing from elsewhere, and its snippets
are those of the program.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
import yaml

from gateway.cli.main import main
from gateway.config.draft import ConfigFaults
from gateway.config.loader import load_config
from gateway.config.model import Config

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"^(?:\.venv/bin/)?telemetry-gateway +(.*)$")


class Snippet(NamedTuple):
    page: str
    language: str
    marks: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text.strip().splitlines()[0][:40]}"


def snippets() -> list[Snippet]:
    return [
        Snippet(str(page.relative_to(ROOT)), language, marks, re.sub(f"^{indent}", "", text, flags=re.MULTILINE))
        for page in PAGES
        for indent, language, marks, text in FENCE.findall(page.read_text())
    ]


SNIPPETS = snippets()
YAML = [each for each in SNIPPETS if each.language == "yaml"]
SHELL = [each for each in SNIPPETS if each.language == "sh"]
OF_OTHERS = {
    "docs/senders/collector.md": "exporters of the Collector, which has a key of that name too",
    "docs/allocation.md": "allocation rules; tests/unit/cli/test_allocation.py reads them",
    "docs/plugins.md": "an exporter of a plug-in; tests/e2e/test_plugins.py installs it",
}
NOT_OURS = {
    "pricing.file": "a price list; tests/unit/usage/pricing loads those",
    "litellm_settings:": "LiteLLM's own",
    "# Vector:": "Vector's own",
    "llmRequestCosts": "Envoy AI Gateway's own",
    "config:\n": "agentgateway's own",
}
"""Page, or what stands in a snippet -> why the loader cannot validate it."""


def is_ours(snippet: Snippet) -> bool:
    """Whether all its keys are groups of the configuration."""
    documents = list(yaml.safe_load_all(snippet.text))
    return all(isinstance(each, dict) and set(each) <= set(Config.model_fields) for each in documents)


@pytest.mark.parametrize("snippet", YAML, ids=str)
def test_yaml_is_a_configuration_that_loads_or_is_known_to_be_of_another_program(
    snippet: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_ours(snippet) or snippet.page in OF_OTHERS:
        assert snippet.page in OF_OTHERS or [why for text, why in NOT_OURS.items() if text in snippet.text], (
            "name it in NOT_OURS, with why"
        )
        return
    for name in re.findall(r"\$\{env:(\w+)\}", snippet.text):
        monkeypatch.setenv(name, "a-secret-of-the-test")
    text = snippet.text
    for name in set(re.findall(r"\$\{file:([^}]+)\}", text)):
        (tmp_path / Path(name).name).write_text("a-secret-of-the-test\n")
        text = text.replace(name, str(tmp_path / Path(name).name))
    file = tmp_path / "gateway.yaml"
    file.write_text(text)
    try:
        load_config(file, {})
    except ConfigFaults as error:
        unmade = [fault for fault in error.faults if not re.search(r"cannot be read|No such file", str(fault))]
        assert unmade == []


def command_lines(snippet: Snippet) -> Iterator[str]:
    """What follows `telemetry-gateway` on each of its lines."""
    for line in snippet.text.replace("\\\n", " ").splitlines():
        found = PROGRAM.match(line.strip())
        if found is not None:
            yield found[1]


@pytest.mark.parametrize("snippet", [each for each in SHELL if list(command_lines(each))], ids=str)
def test_every_command_with_its_options_exists(snippet: Snippet) -> None:
    for line in command_lines(snippet):
        words = shlex.split(re.split(r" (?:[|<>]|&&|2>)", line)[0], comments=True)
        command: click.Command = main
        context = click.Context(main, info_name="telemetry-gateway")
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = command.get_command(context, words.pop(0))
            assert found is not None, line
            command, context = found, click.Context(found, parent=context)
        if isinstance(command, click.Group):
            assert words in (["--help"], ["--version"], []), line
            continue
        if words and words[-1] == "…":
            words.pop()
        command.make_parser(context).parse_args(words)  # raises UsageError for what is not there


RUN = [each for each in SHELL if "run" in each.marks.split()]


def test_snippets_that_are_marked_run_as_they_are(tmp_path: Path) -> None:
    """In order, page by page, against one gateway on the ports that they name."""
    assert {each.page for each in RUN} == {"docs/start/platform.md", "docs/start/finops.md", "docs/start/developers.md"}
    from tests.support.gateway_process import GatewayProcess  # noqa: PLC0415 only this test needs it

    with GatewayProcess(tmp_path) as gateway:
        environ = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "TELEMETRY_GATEWAY_DATA": str(gateway.data_dir),
            "COLUMNS": "100",
        }
        for snippet in sorted(RUN, key=lambda each: "platform" not in each.page):
            text = snippet.text.replace("http://127.0.0.1:4318", gateway.intake_url)
            done = subprocess.run(
                ["bash", "-eu", "-o", "pipefail", "-c", text],
                cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{snippet}\n{done.stdout}\n{done.stderr}"
    assert (tmp_path / "gateway-backup.tar").stat().st_size > 0
    for shell, text in (("bash", "complete -o nosort"), ("zsh", "#compdef telemetry-gateway"), ("fish", "complete ")):
        assert text in (tmp_path / f"telemetry-gateway.{shell}").read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make docs` does."""
    to = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(to)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return to


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)")
    for page in site.rglob("*.html"):
        found = [url for url in loaded.findall(page.read_text()) if not url.endswith("/")]
        assert found == [], page.name
    assert "fonts.googleapis" not in "".join(path.read_text() for path in site.rglob("*.html"))


def test_the_search_works_without_a_server(site: Path) -> None:
    assert "backup" in (site / "search/search_index.js").read_text()


def test_the_reference_has_every_option_command_and_path(site: Path) -> None:
    options = (site / "reference/options.html").read_text()
    commands = (site / "reference/commands.html").read_text()
    paths = (site / "reference/http.html").read_text()
    assert "TELEMETRY_GATEWAY_SPOOL_MAX_BYTES" in options
    for name in ("backup", "restore", "top", "tap", "doctor", "spool dead-letters replay"):
        assert f"telemetry-gateway {name}" in commands
    assert "/v2/backup" in paths
    assert "/v1/traces" in paths


def test_every_page_links_to_the_glossary(site: Path) -> None:
    pages = [page for page in site.rglob("*.html") if page.name not in ("404.html", "glossary.html")]
    missing = [page.name for page in pages if not re.search(r'<p><a href="(\.\./)*glossary\.html">', page.read_text())]
    assert missing == []


def test_the_glossary_has_at_most_25_words() -> None:
    rows = re.findall(r"^\| (?!word \|)\w", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    assert 0 < len(rows) <= 25
