"""Each fault of a configuration has its file, line and column, and the reason in plain words."""

from pathlib import Path

import pytest

from gateway.config.draft import ConfigFaults
from gateway.config.loader import load_config

SECRET = "CANARY-7Q-secret"


def faults(tmp_path: Path, text: str, environ: dict[str, str] | None = None, **flags: object) -> list[str]:
    path = tmp_path / "gateway.yaml"
    path.write_bytes(text.encode())
    with pytest.raises(ConfigFaults) as caught:
        load_config(path, flags, environ or {})
    return [str(fault).replace(f"{tmp_path}/", "") for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("auth: key\n", "line 1, column 7: auth: must be one of"),
        ("spool:\n  max_bytes: lots\n", "line 2, column 14: spool.max_bytes: must be a size"),
        ("listen: {http: 9, htpp: x}\n", "line 1, column 19: listen.htpp: unknown option; did you mean 'http'?"),
        ("auth: keys\n\nauth: none\n", "line 3, column 1: auth: is given twice, first on line 1"),
        ("http:\n  cors_origins: '*'\n", "line 2, column 17: http.cors_origins: must be a list"),
        ("workers:\n  - 1\n", "line 1, column 1: workers: must be"),
        ("operators:\n  - a@b.c\n  - nobody\n", "line 3, column 5: operators[1]: must match"),
        ("exporters:\n  archive: {type: file}\n", "line 2, column 3: exporters.archive.path: is required"),
    ],
)
def test_a_fault_of_a_value_is_at_the_value_and_that_of_a_name_at_the_name(
    tmp_path: Path, text: str, place: str
) -> None:
    (*_, found) = faults(tmp_path, text)
    assert found.startswith(f"gateway.yaml, {place}")


def test_what_environment_or_a_flag_set_is_named_by_them_and_not_by_the_file(tmp_path: Path) -> None:
    environ = {"TELEMETRY_GATEWAY_AUTH": "open"}
    found = faults(tmp_path, "auth: keys\nlisten: {http: 127.0.0.1:1}\n", environ, **{"listen.http": "nowhere"})
    assert len(found) == 2
    assert any(x.startswith("environment variable TELEMETRY_GATEWAY_AUTH: auth: must be") for x in found)
    assert any(x.startswith("flag --listen-http: listen.http: must be") for x in found)


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("upstream:\n\tbase_url: x\n", "line 2, column 1", "a tab is here"),
        ("upstream:\n  keys:\n  \t- name: a\n", "line 3, column 3", "a tab is here"),
        ("auth:\tkeys\n", "line 1, column 6", "a tab is here"),
        ("auth: keys\t\nworkers: off\n", "line 1, column 11", "a tab is here"),
        (f"auth: *{SECRET}\n", "line 1, column 7", "put the value in quotes"),
        (f"auth: !{SECRET}\n", "line 1, column 7", "put the value in quotes"),
        (f"auth: %{SECRET}\n", "line 1, column 7", "put the value in quotes"),
        (f"auth: a: {SECRET}\n", "line 1, column 8", "put a value that holds `: ` in quotes"),
        ("spool:\n  max_bytes: 1GiB\n max_age: 1d\n", "line 3, column 2", "indented unlike the options of its group"),
        (f'auth: "{SECRET}\nworkers: off\n', "line 1, column 7", "the quote that is opened here is not closed"),
        (f'auth: "\\q{SECRET}"\n', "line 1, column 9", "a backslash begins an escape"),
        ("operators: [a@b.c\nauth: keys\n", "line 1, column 12", "the [ that is opened here is not closed"),
        ("listen: {http: off\n", "line 1, column 9", "the { that is opened here is not closed"),
        ("auth: keys\nworkers\nmcp: off\n", "line 2, column 1", "this line has no `: `"),
        ("auth: {{ value }}\n", "line 1, column 8", "in quotes"),
        ("billing: {since: 2026-13-45}\n", "line 1, column 18", "no date or number is written so"),
        ("billing: {since: !!timestamp x}\n", "line 1, column 18", "no date or number is written so"),
        ("auth: a\x00b\n", "line 1, column 8", "the character U+0000 is not allowed"),
        ("auth: keys\n---\nauth: none\n", "line 2, column 1", "a second document begins here"),
        ("- auth\n", "line 1, column 1", "the file must hold options"),
    ],
)
def test_what_is_no_yaml_has_its_place_and_its_reason_and_quotes_nothing(
    tmp_path: Path, text: str, place: str, reason: str
) -> None:
    (found,) = faults(tmp_path, text)
    assert found.startswith(f"gateway.yaml, {place}: ")
    assert reason in found
    assert SECRET not in found
