"""The configuration in force as the page shows it."""

from pathlib import Path

import pytest

from exporters.secret import Secret
from gateway.common.release import release
from gateway.config.changes import options_of
from gateway.config.loader import load_config
from gateway.config.model import Config
from gateway.config.origins import DEFAULT, Origin
from gateway.operate.parts import Running
from gateway.operate.site import settings
from gateway.operate.site.rendering import steps
from gateway.operate.site.settings import Setting, settings_of, value_text
from gateway.pipeline.delivery.lanes import upstream_settings
from tests.support.shown import shown, text_of

SECRET = "CANARY-7Q-secret"
FILE = f"""
upstream:
  base_url: https://service.example
  proxy: http://user:{SECRET}@proxy.example:8080
  keys: [{{name: telemetry, secret: "{SECRET}", managed: [send-ai-telemetry]}}]
sources: {{vercel: {{secret: {SECRET}}}}}
exporters:
  backend: {{type: otlp, endpoint: "https://b.example", headers: {{Authorization: {SECRET}}}, proxy: "http://u:{SECRET}@p"}}
spool: {{max_bytes: 2GiB}}
log_level: debug
"""


def loaded(folder: Path, text: str, **environ: str) -> Config:
    file = folder / "config.yaml"
    file.write_text(text)
    return load_config(file, {"listen.http": "127.0.0.1:1"}, environ)


def by_option(config: Config) -> dict[str, Setting]:
    return {each.option: each for each in settings_of(config)}


def test_each_option_is_listed_once_with_where_it_was_set(tmp_path: Path) -> None:
    config = loaded(tmp_path, FILE, TELEMETRY_GATEWAY_LOG_FORMAT="json")
    found = by_option(config)
    assert list(found) == list(options_of(config, "json"))
    assert found["spool.max_bytes"] == Setting("spool.max_bytes", "2GiB", Origin("file", "line 9"), is_reloaded=False)
    assert found["log_level"] == Setting("log_level", "debug", Origin("file", "line 10"), is_reloaded=True)
    assert found["log_format"].origin == Origin("environment", "TELEMETRY_GATEWAY_LOG_FORMAT")
    assert found["listen.http"].origin == Origin("flag")
    assert found["spool.max_age"] == Setting("spool.max_age", "7d", DEFAULT, is_reloaded=False)


def test_no_secret_is_shown(tmp_path: Path) -> None:
    config = loaded(tmp_path, FILE)
    html = shown(settings.VIEW, settings.settings(Running(config, None, None)))
    assert SECRET not in html
    assert "http://***@proxy.example:8080" in html
    assert "send-ai-telemetry" in text_of(html)


@pytest.mark.parametrize(
    ("reader", "why_not", "text"),
    [
        ("native", "", "native for the Python reader, start with TELEMETRY_GATEWAY_READER=python"),
        ("python", "not installed", "python (not native: not installed) for the native reader, install the wheel"),
    ],
)
def test_release_and_reader_are_shown_with_how_to_get_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str, why_not: str, text: str
) -> None:
    monkeypatch.setattr(settings, "READER", reader)
    monkeypatch.setattr(settings, "WHY_NOT", why_not)
    html = shown(settings.VIEW, settings.settings(Running(loaded(tmp_path, FILE), None, None)))
    found = " ".join(text_of(html).split())
    assert f"Reader {text}" in found
    assert f"Release {release()}" in found


@pytest.mark.parametrize("password", ["p@CANARY", "p%40%2FCANARY", "CANARY@@", "p@CANARY:9"])
def test_of_a_proxy_host_and_port_alone_are_shown(tmp_path: Path, password: str) -> None:
    proxy = f"http://CANARY-user:{password}@proxy.example:8080"
    config = loaded(tmp_path, FILE.replace(f"http://user:{SECRET}@proxy.example:8080", proxy))
    assert by_option(config)["upstream.proxy"].value == "http://***@proxy.example:8080"
    assert "CANARY" not in f"{config!r} {config.model_dump()} {config.model_dump_json()}"
    assert upstream_settings(config.upstream).proxy == Secret(proxy)


def test_the_defaults_of_a_profile_are_from_it(tmp_path: Path) -> None:
    upstream = "{base_url: 'https://gateway.example', keys: [{name: k, secret: s, managed: [send-ai-telemetry]}]}"
    found = by_option(loaded(tmp_path, f"profile: device\nupstream: {upstream}\nspool: {{max_bytes: 1GiB}}"))
    assert found["limits.max_items"] == Setting(
        "limits.max_items", "10000", Origin("profile", "device"), is_reloaded=True
    )
    assert found["upstream.sum_retry"].origin == Origin("profile", "device")
    assert found["spool.max_bytes"].origin == Origin("file", "line 3")
    assert found["spool.max_age"].origin == DEFAULT


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("limits.max_body_bytes", 64 * 1024 * 1024, "64MiB"),
        ("limits.max_body_bytes", 1025, "1025"),
        ("counting.settle", "90s", "90s"),
        ("counting.window", "600s", "10m"),
        ("counting.settle", "0s", "0s"),
        ("counting.settle", "0.2s", "0.2s"),
        ("counting.max_keys", 1_000_000, "1000000"),
        ("http.cors_origins", ["https://a.example"], '["https://a.example"]'),
        ("pricing.file", None, "none"),
        ("upstream.knows_event_ids", True, "true"),
    ],
)
def test_a_value_is_shown_as_in_the_file(name: str, value: object, text: str) -> None:
    assert value_text(name, value) == text


def test_a_path_ends_its_lines_after_its_steps() -> None:
    assert steps("/etc/a<b/gateway.yaml") == "/<wbr>etc/<wbr>a&lt;b/<wbr>gateway.<wbr>yaml"
