"""Sources and exporters of another distribution, which pip installs: tests/data/plugins/example."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.processes import Process
from tests.e2e.test_sources import send
from tests.support.gateway_process import GatewayProcess, broken_identities

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "tests/data/plugins/example"
CALL = {
    "id": "c-1",
    "at": "2026-01-05T10:00:01Z",
    "took_ms": 840,
    "vendor": "openai",
    "model": "gpt-4o-mini",
    "tokens": {"in": 1200, "out": 120},
    "tags": {"team": "core"},
}


def installed(folder: Path, changes: Mapping[str, tuple[str, str]] | None = None) -> dict[str, str]:
    """The environment in which the distribution is installed in *folder*. *changes*: file -> a text
    of it, and what takes its place.
    """
    source, target = folder / "source", folder / "installed"
    shutil.copytree(EXAMPLE, source)
    for name, (before, after) in (changes or {}).items():
        text = (source / name).read_text()
        assert before in text
        (source / name).write_text(text.replace(before, after))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, *offline, "--target", str(target), str(source)], check=True, timeout=300)
    return {"PYTHONPATH": os.pathsep.join((str(target), *filter(None, [os.environ.get("PYTHONPATH")])))}


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return installed(tmp_path_factory.mktemp("plugin"))


class PluggedGateway(GatewayProcess):
    """Started again, not forked: its import path is another one."""

    def spawn(self) -> Process:
        return Process(self.command(), log=self.log, env=self.env)


def command(environ: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gateway.cli.main", *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def checked(folder: Path, environ: Mapping[str, str], options: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """`check` of a configuration with the exporter, set up with *options*."""
    exporter = {"type": "plugin", "plugin": "example-archive", "options": options}
    file = folder / "gateway.yaml"
    file.write_text(json.dumps({"data_dir": str(folder / "data"), "exporters": {"archive": exporter}}))
    return command(environ, "check", "--config", str(file))


@pytest.mark.parametrize("workers", ["auto", "off"])
def test_a_plugged_source_is_read_and_a_plugged_exporter_gets_its_records(
    environ: dict[str, str], tmp_path: Path, workers: str
) -> None:
    file = tmp_path / "archive.ndjson"
    exporter = {"type": "plugin", "plugin": "example-archive", "options": {"path": str(file)}}
    config = {"exporters": {"archive": exporter}, "workers": workers, "sources": {"example-proxy": {"url_token": True}}}
    with PluggedGateway(tmp_path, config=config, environ=environ) as gateway:
        url = f"{gateway.intake_url}/v1/sources/example-proxy"
        body = json.dumps({"calls": [CALL, {"event": "started"}, {**CALL, "id": "c-2"}]}).encode()
        assert send(url, body) == (200, {"accepted": 3, "rejected": [], "ignored": 1})
        assert send(url, json.dumps(CALL).encode())[0] == 200
        status = gateway.wait_until_delivered("archive", at_least=2)
        assert not broken_identities(status)
        assert status["lanes"]["archive"]["upstream"] == "plug-in example-archive"
        records = [json.loads(line) for line in file.read_bytes().splitlines()]
        assert [record["usage"]["input_tokens"] for record in records] == [1200, 1200]
        assert {record["source"]["convention"] for record in records} == {"example-proxy"}
        assert {record["attribution"]["team"] for record in records} == {"core"}
        assert gateway.summary()["totals"]["calls"] == 2


def test_commands_know_a_plugged_source(environ: dict[str, str], tmp_path: Path) -> None:
    assert "example-proxy" in command(environ, "sources").stdout
    assert "log_url: http://" in command(environ, "sources", "example-proxy").stdout
    payload = tmp_path / "payload.json"
    payload.write_text(json.dumps(CALL))
    path = ("--path", "/v1/sources/example-proxy", "--content-type", "application/json", str(payload))
    assert json.loads(command(environ, "normalise", *path).stdout)["request_model"] == "gpt-4o-mini"
    assert "no source is named" in command({}, "normalise", *path).stderr


def test_options_that_a_plugged_exporter_refuses_are_a_fault_of_the_configuration(
    environ: dict[str, str], tmp_path: Path
) -> None:
    sound = checked(tmp_path, environ, {"path": str(tmp_path / "a")})
    assert sound.returncode == 0, sound.stdout + sound.stderr
    refused = checked(tmp_path, environ, {"folder": "x"})
    assert refused.returncode == 1
    assert "exporters.archive: plug-in example-archive of example-telemetry 1.2.3" in refused.stdout + refused.stderr
    assert "path is needed" in refused.stdout + refused.stderr
    assert "Traceback" not in refused.stdout + refused.stderr
    absent = checked(tmp_path, {}, {"path": "x"})
    assert absent.returncode == 1
    assert "exporters.archive.plugin: unknown installed exporter plug-in 'example-archive'" in absent.stderr


@pytest.mark.parametrize(
    ("file", "change", "text"),
    [
        ("example_telemetry/source.py", ("from gateway.plugin", "from gateway.plug"), "cannot be loaded: ModuleNotFoundError"),
        ("pyproject.toml", ("source:SOURCE", "source:TABLE"), "is no gateway.products.source.Source"),
        ("example_telemetry/source.py", ('name="example-proxy"', 'name="litellm"'), "its source is named 'litellm'"),
        ("example_telemetry/exporter.py", ("import asyncio", "import asynchronous"), "cannot be loaded: ModuleNotFoundError"),
    ],
    ids=("import", "type", "name", "exporter"),
)  # fmt: skip
def test_a_broken_plug_in_is_an_error_that_names_it(
    tmp_path: Path, file: str, change: tuple[str, str], text: str
) -> None:
    environ = installed(tmp_path, {file: change})
    ended = checked(tmp_path, environ, {"path": "a"})
    assert ended.returncode == 1
    assert " of example-telemetry 1.2.3 (example_telemetry." in ended.stderr
    assert text in ended.stderr
    assert "Traceback" not in ended.stderr
    assert command(environ, "--version").returncode == 0


def test_the_page_shows_the_distribution_that_is_tested() -> None:
    page = (ROOT / "docs/plugins.md").read_text()
    shown = [block.strip() for block in re.findall(r"```(?:python|toml)\n(.*?)```", page, re.DOTALL)]
    held = [file.read_text() for file in EXAMPLE.rglob("*") if file.suffix in {".py", ".toml"}]
    assert len(shown) == 3
    assert [block for block in shown if not any(block in text for text in held)] == []
