"""The configuration: what is read, from where, and how faults are reported."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway.cli import passphrase
from gateway.cli.checking import print_check
from gateway.common import native
from gateway.config.draft import ConfigFault, ConfigFaults, expand, parse_draft
from gateway.config.environment import environment_options, misspelt
from gateway.config.loader import load_config, validated
from gateway.config.model import Config, OtlpExporter, config_schema, operators_of, refuse_open_intake
from gateway.config.values import (
    TcpAddress,
    UnixAddress,
    parse_address,
    parse_duration_s,
    parse_size_bytes,
)

FILE = "gateway.yaml"
EXAMPLE = Path(__file__).parents[3] / "deploy" / "examples" / "gateway.yaml"
EXAMPLE_ENVIRON = {"UPSTREAM_TELEMETRY_KEY": "telemetry-secret-1", "UPSTREAM_CONTROL_KEY": "control-secret-2"}

NAMES = [
    "data_dir",
    "listen",
    "http",
    "auth",
    "counting",
    "settle",
    "upstream",
    "keys",
    "secret",
    "exporters",
    "type",
    "x",
]
VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["10s", "file", "${env:X}", "off", ""])
)
plain_data = st.dictionaries(
    st.sampled_from(NAMES),
    st.recursive(
        VALUES,
        lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(NAMES), below, max_size=3),
        max_leaves=8,
    ),
    max_size=5,
)

UPSTREAM = """
upstream:
  base_url: https://service.example
  keys:
    - name: telemetry
      secret: "${env:KEY}"
      managed: [send-ai-telemetry]
"""


def load(tmp_path: Path, text: str, *, environ: dict[str, str] | None = None, **overrides: object) -> Config:
    path = tmp_path / "gateway.yaml"
    path.write_text(text)
    return load_config(path, {k.replace("__", "."): v for k, v in overrides.items()}, environ or {})


def faults(tmp_path: Path, text: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigFaults) as caught:
        load(tmp_path, text, environ=environ)
    return [line_alone(fault) for fault in caught.value.faults]


def line_alone(fault: ConfigFault) -> str:
    """As an operator reads it, with the line alone of its place."""
    if fault.place is None or not fault.place.line:
        return str(fault)
    return str(fault).replace(str(fault.place), f"line {fault.place.line}")


def test_without_a_file_everything_has_its_default() -> None:
    config = load_config(None, {}, {})
    assert config.listen.http == TcpAddress("127.0.0.1", 4318)
    assert config.listen.grpc == TcpAddress("127.0.0.1", 4317)
    assert config.listen.admin == TcpAddress("127.0.0.1", 4319)
    assert config.counting.settle_s == 10
    assert config.spool.max_bytes == 8 * 2**30
    assert config.auth == "keys"
    assert config.upstream is None
    assert config.data_dir.is_absolute()


def test_the_example_loads_and_shows_the_defaults() -> None:
    config = load_config(EXAMPLE, {}, EXAMPLE_ENVIRON)
    default = Config()
    for group in ("listen", "http", "limits", "counting", "attributes", "devices", "spool", "auth"):
        assert getattr(config, group) == getattr(default, group), group
    assert config.upstream is not None
    assert [key.name for key in config.upstream.keys] == ["telemetry", "control"]
    assert config.exporters["archive"].type == "file"


def test_an_empty_file_is_a_configuration(tmp_path: Path) -> None:
    assert load(tmp_path, "# nothing yet\n").auth == "keys"


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    text = 'listen: {http: "127.0.0.1:1", grpc: "127.0.0.1:1", admin: "127.0.0.1:1"}'
    environ = {"TELEMETRY_GATEWAY_LISTEN_HTTP": "127.0.0.1:2", "TELEMETRY_GATEWAY_LISTEN_GRPC": "127.0.0.1:2"}
    config = load(tmp_path, text, environ=environ, listen__http="127.0.0.1:3")
    ports = [
        address.port
        for address in (config.listen.http, config.listen.grpc, config.listen.admin)
        if isinstance(address, TcpAddress)
    ]
    assert ports == [3, 2, 1]


def test_the_data_directory_has_a_short_name_in_the_environment() -> None:
    assert load_config(None, {}, {"TELEMETRY_GATEWAY_DATA": "/var/lib/gateway"}).data_dir == Path("/var/lib/gateway")


def test_what_kubernetes_sets_for_a_service_of_our_name_is_left_alone() -> None:
    environ = {"TELEMETRY_GATEWAY_PORT": "tcp://10.0.0.1:4318", "TELEMETRY_GATEWAY_SERVICE_HOST": "10.0.0.1"}
    assert load_config(None, {}, environ) == load_config(None, {}, {})
    assert not environ.keys() & environment_options().keys()
    assert (
        misspelt([*environ, "TELEMETRY_GATEWAY_PORT_4318_TCP_ADDR", "TELEMETRY_GATEWAY_ADMIN_SERVICE_PORT_HTTP"]) == {}
    )


def test_a_variable_near_an_options_name_is_named_with_it_and_no_other_is() -> None:
    meant = {
        "TELEMETRY_GATEWAY_LISTN_HTTP": "TELEMETRY_GATEWAY_LISTEN_HTTP",
        "TELEMETRY_GATWAY_DATA": "TELEMETRY_GATEWAY_DATA",
        "telemetry_gateway_auth": "TELEMETRY_GATEWAY_AUTH",
        "TELEMETRY_GATEWAY_LOGLEVEL": "TELEMETRY_GATEWAY_LOG_LEVEL",
    }
    others = [
        *environment_options(),
        "PATH",
        "GATEWAY_KEY",
        "TELEMETRY_GATEWAY_TEAM_KEY",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ]
    assert misspelt([*meant, *others]) == meant


def test_a_variable_that_is_read_but_sets_no_option_is_not_named_as_misspelt() -> None:
    assert misspelt([native.VARIABLE, passphrase.VARIABLE]) == {}


def test_every_single_valued_option_has_a_name_in_the_environment() -> None:
    names = environment_options()
    assert names["TELEMETRY_GATEWAY_COUNTING_SETTLE"] == ("counting", "settle")
    assert names["TELEMETRY_GATEWAY_UPSTREAM_BASE_URL"] == ("upstream", "base_url")
    assert names["TELEMETRY_GATEWAY_SPOOL_MAX_BYTES"] == ("spool", "max_bytes")


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0), (0, 0), ("250ms", 0.25), ("10s", 10), ("1.5m", 90), ("24h", 86400), ("7d", 604800)]
)
def test_durations_are_read_as_seconds(text: object, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "10", 10, "s", "-1s", "1w", "1s 2s", True, None, [], "1e3s"])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("8GiB", 8 * 2**30), ("512KiB", 2**19), ("1.5MiB", 3 * 2**19), ("1MB", 10**6), (17, 17), ("17", 17)],
)
def test_sizes_are_read_as_bytes(text: object, n_bytes: int) -> None:
    assert parse_size_bytes(text) == n_bytes


@pytest.mark.parametrize("text", ["", "GiB", "-1", -1, "8 gib", "8Gb/s", True, None])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size_bytes(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:4318", TcpAddress("127.0.0.1", 4318)),
        ("0.0.0.0:0", TcpAddress("0.0.0.0", 0)),
        ("[::1]:4318", TcpAddress("::1", 4318)),
        ("localhost:80", TcpAddress("localhost", 80)),
        ("4318", TcpAddress("127.0.0.1", 4318)),
        (0, TcpAddress("127.0.0.1", 0)),
        ("unix:/run/gateway.sock", UnixAddress(Path("/run/gateway.sock"))),
        ("off", None),
        (False, None),
    ],
)
def test_addresses_are_read_in_every_form(text: object, address: object) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "host", "host:", "host:99999", "host:-1", "::1:80", "unix:", True, None, "http://x"]
)
def test_what_is_no_address_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="host:port"):
        parse_address(text)


def test_a_bare_off_in_yaml_switches_a_listener_off(tmp_path: Path) -> None:
    config = load(tmp_path, "listen: {grpc: off, service: 'off'}\ndevices: {enroll: off}")
    assert config.listen.grpc is None
    assert config.listen.service is None
    assert config.devices.enroll == "off"


def test_all_faults_are_reported_at_once_with_option_and_line(tmp_path: Path) -> None:
    text = """auth: maybe
listen:
  http: nowhere
  htpp: "127.0.0.1:1"
spool:
  max_bytes: lots
counting: {settle: 10s, max_keys: 3}
upstream:
  base_url: http://service.example
  keys:
    - {name: a, secret: "${env:MISSING}", managed: [send-ai-telemetry], scopes: ["events_v1:create_event"]}
    - {name: b, secret: "${env:KEY}", scopes: ["events_v1:create_evnt"]}
exporters:
  archive: {type: file}
  ai_telemetry: {type: console}
"""
    told = faults(tmp_path, text, KEY="k")
    assert "line 1: auth: must be one of 'keys' or 'none'" in told
    assert any(line.startswith("line 3: listen.http: must be") for line in told)
    assert "line 4: listen.htpp: unknown option; did you mean 'http'?" in told
    assert any(line.startswith("line 6: spool.max_bytes: must be a size") for line in told)
    assert any(line.startswith("line 7: counting.max_keys: must be greater than or equal to 1000") for line in told)
    assert any(line.startswith("line 9: upstream.base_url: must be an https URL") for line in told)
    assert any(line.startswith("line 11: upstream.keys[0]: needs exactly one of") for line in told)
    assert any(
        line.startswith(
            "line 12: upstream.keys[1].scopes: unknown scope 'events_v1:create_evnt'; did you mean 'events_v1:create_event'?"
        )
        for line in told
    )
    assert "line 14: exporters.archive.path: is required" in told
    assert "line 11: upstream.keys[0].secret: environment variable MISSING is not set" in told
    assert len(told) == 10, told


def test_a_lane_of_our_own_cannot_be_an_exporters_name(tmp_path: Path) -> None:
    assert faults(tmp_path, "exporters: {ai_telemetry: {type: console}}") == [
        "line 1: exporters: ai_telemetry is the name of one of the gateway's own lanes"
    ]


def test_an_unknown_exporter_type_names_the_known_ones(tmp_path: Path) -> None:
    (told,) = faults(tmp_path, "exporters: {x: {type: carrier-pigeon}}")
    assert "exporters.x" in told
    assert "'file'" in told


def test_an_option_given_twice_is_a_fault(tmp_path: Path) -> None:
    assert faults(tmp_path, "auth: none\nauth: keys\n") == [
        "line 2: auth: is given twice, first on line 1: keep one of them"
    ]


@pytest.mark.parametrize(
    ("text", "line"), [("a: [", 1), ("a: b: c", 1), ("- x\n", 1), ("just text", 1), ("auth: 'x\n", 1)]
)
def test_what_is_no_mapping_is_reported_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    (told,) = faults(tmp_path, text)
    assert told.startswith(f"line {line}: ")


@settings(max_examples=150)
@given(st.text(max_size=200) | plain_data.map(yaml.safe_dump))
def test_any_text_is_a_configuration_or_faults(text: str) -> None:
    with suppress(ConfigFaults):
        assert isinstance(parse_draft(text, FILE).data, dict)


@settings(max_examples=150)
@given(plain_data)
def test_any_plain_data_is_a_configuration_or_faults(data: dict[str, object]) -> None:
    draft = parse_draft(yaml.safe_dump(data), FILE)
    expand(draft, {}, Path())
    before = list(draft.faults)
    assert (validated(draft) is None) == (draft.faults != before)


def test_a_file_that_refers_to_itself_is_a_fault(tmp_path: Path) -> None:
    (told,) = faults(tmp_path, "listen: &a {http: *a}")
    assert "refers to itself" in told


def test_a_file_without_bottom_is_a_fault(tmp_path: Path) -> None:
    (told,) = faults(tmp_path, "[" * 20_000)
    assert "nested too deep" in told


def test_a_flag_that_was_not_given_changes_nothing() -> None:
    assert load_config(None, {"auth": None}, {}).auth == "keys"


def test_a_file_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigFaults, match="cannot be read"):
        load_config(tmp_path / "absent.yaml", {}, {})


def test_references_are_replaced_in_plain_options(tmp_path: Path) -> None:
    (tmp_path / "port").write_text("4999\n")
    config = load(tmp_path, 'listen: {http: "${env:HOST}:${file:port}"}', environ={"HOST": "127.0.0.9"})
    assert config.listen.http == TcpAddress("127.0.0.9", 4999)


def test_a_secret_keeps_its_reference_and_never_shows(tmp_path: Path) -> None:
    config = load(tmp_path, UPSTREAM, environ={"KEY": "very-secret-value"})
    assert config.upstream is not None
    assert config.upstream.keys[0].secret.reveal() == "${env:KEY}"
    assert "very-secret-value" not in repr(config)


def test_a_literal_secret_shows_in_no_repr_dump_or_fault(tmp_path: Path) -> None:
    text = UPSTREAM.replace("${env:KEY}", "very-secret-value")
    config = load(tmp_path, text)
    assert "very-secret-value" not in repr(config) + str(config) + str(config.model_dump())
    told = faults(tmp_path, text.replace("managed", "manged").replace("very-", "Bearer very-"))
    assert "very-secret-value" not in "".join(told)


def test_a_secret_file_is_found_next_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "control.key").write_text("abc\n")
    config = load(tmp_path, UPSTREAM.replace("${env:KEY}", "${file:./control.key}"))
    assert config.upstream is not None
    assert config.upstream.keys[0].secret.reveal() == f"${{file:{tmp_path / 'control.key'}}}"


@pytest.mark.parametrize(
    ("value", "told"),
    [("", "is empty"), ("a\nb", "line break"), ("Bearer abc", "starts with 'Bearer '")],
)
def test_a_secret_that_cannot_be_a_key_is_a_fault(tmp_path: Path, value: str, told: str) -> None:
    (fault,) = faults(tmp_path, UPSTREAM, KEY=value)
    assert fault.startswith("line 6: upstream.keys[0].secret: ")
    assert told in fault


def test_a_missing_secret_is_a_fault_that_names_the_variable(tmp_path: Path) -> None:
    assert faults(tmp_path, UPSTREAM) == ["line 6: upstream.keys[0].secret: environment variable KEY is not set"]


def test_paths_in_the_file_start_at_its_folder_and_those_of_flags_do_not(tmp_path: Path) -> None:
    text = "data_dir: ./data\nexporters: {archive: {type: file, path: out/records.ndjson}}"
    config = load(tmp_path, text)
    assert config.data_dir == tmp_path / "data"
    exporter = config.exporters["archive"]
    assert exporter.type == "file"
    assert exporter.path == tmp_path / "out" / "records.ndjson"
    assert load(tmp_path, text, data_dir="elsewhere").data_dir == Path("elsewhere")


def test_a_price_file_is_found_next_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text("aliases: {ours: openai/gpt-4o}")
    assert load(tmp_path, "pricing: {file: prices.yaml}").pricing.file == tmp_path / "prices.yaml"


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert load(tmp_path, "data_dir: ~/data").data_dir == tmp_path / "home" / "data"


def test_a_file_that_is_needed_at_the_start_is_looked_at_with_the_other_faults(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text("prices: [{model: ours, input: cheap, output: '1'}]")
    text = "auth: maybe\npricing: {file: prices.yaml}" + UPSTREAM + "  ca_file: authority.pem\n"
    told = faults(tmp_path, text, KEY="k")
    assert told[0].startswith("line 1: auth: must be")
    assert told[1].startswith("line 2: pricing.file: prices.0.input: ")
    assert told[2].startswith("line 9: upstream.ca_file: ")
    assert told[2].endswith("cannot be read: No such file or directory")
    assert len(told) == 3


def test_a_price_file_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    (told,) = faults(tmp_path, "pricing: {file: nowhere.yaml}")
    assert told == f"line 1: pricing.file: {tmp_path / 'nowhere.yaml'} cannot be read: No such file or directory"


def test_a_secret_for_a_source_that_does_not_sign_is_a_fault(tmp_path: Path) -> None:
    (told,) = faults(tmp_path, "sources: {kong: {secret: x}}")
    assert told == "line 1: sources: kong: does not sign its requests, so secret would check nothing: give it a key"
    assert load(tmp_path, "sources: {helicone: {secret: x}, vercel: {secret: y}}").sources.keys() == {
        "helicone",
        "vercel",
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("http: {cors_origins: '*'}", "line 1: http.cors_origins: must be a list"),
        ("data_dir: 5", "line 1: data_dir: must be a path"),
        ("http: {base_path: otlp}", "line 1: http.base_path: must match the pattern ^(/[A-Za-z0-9._~-]+)*/?$"),
    ],
)
def test_faults_are_reported_in_words_of_the_file(tmp_path: Path, text: str, told: str) -> None:
    assert faults(tmp_path, text) == [told]


@pytest.mark.parametrize(
    "url", ["https://service.example", "http://127.0.0.1:4320", "http://localhost:1/", "http://[::1]:9"]
)
def test_upstream_is_https_or_loopback(tmp_path: Path, url: str) -> None:
    config = load(tmp_path, UPSTREAM.replace("https://service.example", url), environ={"KEY": "k"})
    assert config.upstream is not None
    assert config.upstream.base_url == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "http://service.example",
        "ftp://service.example",
        "service.example",
        "https://me:pw@service.example",
        "https://s.example?a=b",
        "https://",
    ],
)
def test_other_upstream_urls_are_refused(tmp_path: Path, url: str) -> None:
    (fault,) = faults(tmp_path, UPSTREAM.replace("https://service.example", f'"{url}"'), KEY="k")
    assert "upstream.base_url" in fault
    assert "pw" not in fault


def test_a_preset_takes_only_names_it_has(tmp_path: Path) -> None:
    text = UPSTREAM + "  names: {idempotency_header: X-Once}\n"
    config = load(tmp_path, text, environ={"KEY": "k"})
    assert config.upstream is not None
    assert config.upstream.names == {"idempotency_header": "X-Once"}
    assert "no such name" in faults(tmp_path, text.replace("idempotency_header", "idempotence_header"), KEY="k")[0]


@pytest.mark.parametrize(
    ("listen", "told"),
    [
        ("{http: '127.0.0.1:4319'}", "listen.admin: 127.0.0.1:4319 is listen.http already; set another one"),
        ("{service: '127.0.0.1:4318'}", "listen.service: 127.0.0.1:4318 is listen.http already; set another one"),
        ("{http: 'unix:/tmp/s', admin: 'unix:/tmp/s'}", "listen.admin: unix:/tmp/s is listen.http already; set another one"),
    ],
)  # fmt: skip
def test_two_listeners_on_one_address_are_a_fault(tmp_path: Path, listen: str, told: str) -> None:
    (fault,) = faults(tmp_path, f"listen: {listen}")
    assert fault.endswith(told)


def test_addresses_that_nobody_listens_on_are_no_fault(tmp_path: Path) -> None:
    load(tmp_path, "listen: {http: '127.0.0.1:0', admin: '127.0.0.1:0', service: '127.0.0.1:0'}")
    load(tmp_path, "listen: {http: 'off', admin: 'off'}")
    load(tmp_path, f"listen: {{http: '127.0.0.1:4320'}}{UPSTREAM}", environ={"KEY": "k"})


def test_check_says_off_of_the_service_that_an_upstream_takes_the_place_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_check(load(tmp_path, ""))
    assert "listen.service   127.0.0.1:4320" in capsys.readouterr().out
    print_check(load(tmp_path, UPSTREAM, environ={"KEY": "k"}))
    shown = capsys.readouterr().out
    assert "listen.service   off" in shown
    assert "listen.http      127.0.0.1:4318" in shown


@pytest.mark.parametrize("own_id", ["..", ".", " a", "a "])
def test_the_fault_of_an_own_id_that_is_none_states_all_that_one_must_be(tmp_path: Path, own_id: str) -> None:
    (fault,) = faults(tmp_path, f"devices: {{own_id: '{own_id}'}}")
    assert "without white space at its ends, and neither . nor .." in fault


def test_the_budget_holds_at_least_one_request(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, "limits: {max_in_flight_bytes: 1MiB}")
    assert fault.startswith("line 1: limits: max_in_flight_bytes")


def test_the_configuration_is_frozen() -> None:
    config = Config()
    with pytest.raises(ValueError, match="frozen"):
        config.auth = "none"


@pytest.mark.parametrize(
    ("http", "auth", "enabled_keys", "refused"),
    [
        ("127.0.0.1:4318", "keys", 0, False),
        ("[::1]:4318", "keys", 0, False),
        ("unix:/run/g.sock", "keys", 0, False),
        ("off", "keys", 0, False),
        ("0.0.0.0:4318", "keys", 0, True),
        ("[::]:4318", "keys", 0, True),
        ("gateway.example:4318", "keys", 0, True),
        ("0.0.0.0:4318", "none", 0, False),
        ("0.0.0.0:4318", "keys", 1, False),
    ],
)
def test_open_intake_beyond_loopback_is_refused(http: str, auth: str, enabled_keys: int, refused: bool) -> None:  # noqa: FBT001
    config = load_config(None, {"listen.http": http, "auth": auth}, {})
    assert (refuse_open_intake(config, enabled_keys) is not None) == refused


def test_open_grpc_beyond_loopback_is_refused_too() -> None:
    reason = refuse_open_intake(load_config(None, {"listen.grpc": "0.0.0.0:4317"}, {}), 0)
    assert reason is not None
    assert "listen.grpc (0.0.0.0:4317)" in reason


def test_the_owner_of_a_cell_does_not_take_from_other_machines_what_has_no_key() -> None:
    options = {
        "store.type": "postgres",
        "store.dsn": "host=db",
        "upstream.base_url": "https://service.example",
        "upstream.keys": [{"name": "k", "secret": "s" * 24, "managed": ["send-ai-telemetry"]}],
    }
    assert refuse_open_intake(load_config(None, options, {}), 0) is None
    exposed = load_config(None, {**options, "store.internal.http": "0.0.0.0:4321"}, {})
    assert "store.internal.http (0.0.0.0:4321)" in (refuse_open_intake(exposed, 0) or "")
    assert refuse_open_intake(exposed, 1) is None


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "100.100.100.200"])
def test_a_webhook_at_a_link_local_address_needs_an_option(tmp_path: Path, host: str) -> None:
    text = f'budgets: {{webhooks: {{ops: {{url: "http://{host}/x", secret: "{"s" * 24}"}}}}}}'
    (fault,) = faults(tmp_path, text)
    assert "budgets.webhooks.ops" in fault
    assert "set link_local: true where that is meant" in fault
    assert host not in fault
    assert load(tmp_path, text.replace("url:", "link_local: true, url:")).budgets.webhooks["ops"].link_local


def test_a_metrics_token_that_is_not_there_is_a_fault_and_is_shown_nowhere(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, 'metrics_token: "${file:./none}"')
    assert fault.startswith("line 1: metrics_token: file"), fault
    assert "a-token-of-the-scraper" not in repr(load(tmp_path, "metrics_token: a-token-of-the-scraper"))


CELL = """
upstream: {base_url: "https://service.example", keys: [{name: k, secret: a-key-of-the-service, managed: [send-ai-telemetry]}]}
store: {type: postgres, dsn: host=db, password: "${file:./password}", secret: "${env:CELL_SECRET}"}
"""


def test_secrets_of_a_cell_are_read_when_they_are_needed_and_one_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    """A command that asks a running gateway has neither."""
    (tmp_path / "gateway.yaml").write_text(CELL)
    store = load_config(tmp_path / "gateway.yaml", environ={}, has_secrets=False).store
    assert store.password is not None
    assert store.password.reveal() == f"${{file:{tmp_path}/password}}"
    with pytest.raises(ConfigFaults) as refused:
        load_config(tmp_path / "gateway.yaml", environ={})
    for option in ("store.password: file", "store.secret: environment variable CELL_SECRET"):
        assert option in str(refused.value)


def test_the_schema_is_json_and_names_every_group() -> None:
    schema = json.loads(json.dumps(config_schema()))
    assert set(schema["properties"]) == set(Config.model_fields)
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Counting"]["properties"]["settle"]["type"] == "string"


def test_the_published_schema_is_the_one_of_this_release() -> None:
    """To renew it, write `config_schema()` there, keys sorted, indented by 2."""
    assert json.loads((EXAMPLE.parent / "gateway.schema.json").read_text()) == config_schema()


def test_several_gateways_on_one_stream_are_a_fault_unless_something_keeps_them_apart(tmp_path: Path) -> None:
    said = "totals that each gateway replaces would wipe the others'"
    assert any(said in fault for fault in faults(tmp_path, "unit_cost: {replicas: 2}"))
    for apart in ("suffix: -a", "operation: sum"):
        assert load(tmp_path, f"unit_cost: {{replicas: 2, {apart}}}").unit_cost.replicas == 2
    assert any("keep_totals" in fault for fault in faults(tmp_path, "unit_cost: {keep_totals: 30d}"))


KEY = "keys: [{name: k, secret: x, managed: [send-ai-telemetry]}]"


@pytest.mark.parametrize(
    ("words", "encoding"),
    [
        ("", "records"),
        ("encoding: otlp, ", "otlp"),
        ("preset: cloudzero, ", "otlp"),
        ("preset: cloudzero, encoding: records, ", "records"),
    ],
)
def test_ai_telemetry_goes_as_records_or_as_otlp_by_preset_and_choice(
    tmp_path: Path, words: str, encoding: str
) -> None:
    upstream = load(tmp_path, f"upstream: {{base_url: https://service.example, {words}{KEY}}}").upstream
    assert upstream is not None
    assert upstream.encoding == encoding


def test_a_stream_in_no_currency_is_a_fault_that_names_the_option(tmp_path: Path) -> None:
    config = "exporters: {spend: {type: stream, stream: spend, measure: cost, currency: CRD}}"
    assert faults(tmp_path, config) == ["line 1: exporters.spend.currency: must be a code of ISO 4217 such as USD"]


def test_an_otlp_exporter_keeps_its_headers_secret(tmp_path: Path) -> None:
    text = 'exporters: {a: {type: otlp, endpoint: "https://b.example", headers: {Authorization: "Bearer ${env:T}"}}}'
    config = load(tmp_path, text, environ={"T": "token-4711"})
    (options,) = config.exporters.values()
    assert isinstance(options, OtlpExporter)
    assert options.headers["Authorization"].reveal() == "Bearer token-4711"
    assert "4711" not in f"{config!r} {config.model_dump()} {config.model_dump_json()}"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("{type: otlp}", "exporters.a.endpoint"),
        ("{type: otlp, endpoint: collector}", "must be a URL"),
        ('{type: otlp, endpoint: "ftp://b.example"}', "must be an http or https URL"),
        ('{type: otlp, endpoint: "https://u:p@b.example"}', "put credentials into headers"),
        ('{type: otlp, endpoint: "http://b.example", headers: {A: x}}', "they would travel in the clear"),
        ('{type: otlp, endpoint: "https://b.example", headers: {Content-Type: x}}', "is set by the exporter itself"),
        ('{type: otlp, endpoint: "https://b.example", headers: {"a b": x}}', "must be a token"),
        ('{type: otlp, endpoint: "https://b.example", compression: br}', "exporters.a.compression"),
        ('{type: otlp, endpoint: "https://b.example/v1/traces", protocol: grpc}', "a gRPC endpoint has no path"),
        ('{type: otlp, endpoint: "https://b.example", protocol: grpc, proxy: "http://p"}', "gRPC is sent without one"),
    ],
)
def test_an_otlp_exporter_that_cannot_be_is_a_fault_that_names_the_option(
    tmp_path: Path, options: str, said: str
) -> None:
    assert any(said in fault for fault in faults(tmp_path, f"exporters: {{a: {options}}}"))
    assert load(tmp_path, 'exporters: {a: {type: otlp, endpoint: "http://collector:4318"}}').exporters


@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ("http://user:pass@ss/w@proxy.example:8080", "@ stands as %40, / as %2F"),
        ("http://user:pass?w@proxy.example:8080", "must be a URL, in whose user and password"),
        ("http://proxy.example:8080/path", "must end after the host and port"),
        ("http://proxy.example:8080?x=y", "must end after the host and port"),
        ("socks5://proxy.example:1080", "must be an http or https URL"),
        ("proxy.example:3128", "must be an http or https URL"),
    ],
)
def test_a_proxy_is_the_url_of_a_host(tmp_path: Path, proxy: str, said: str) -> None:
    exporter = f'exporters: {{a: {{type: otlp, endpoint: "https://b.example", proxy: "{proxy}"}}}}'
    (fault,) = faults(tmp_path, exporter)
    assert "exporters.a.proxy" in fault
    assert said in fault
    assert "pass" not in fault.replace("password", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("devices: {gate: hold, enroll: off}", "gate: hold waits for enrolments"),
        ("devices: {gate: hold}\nspool: {max_age: 30m}", "spool.max_age: with devices.gate: hold"),
    ],
)
def test_a_gate_that_would_only_lose_time_or_records_is_a_fault(tmp_path: Path, text: str, said: str) -> None:
    assert any(said in fault for fault in faults(tmp_path, text))
    assert load(tmp_path, "devices: {gate: hold}").devices.gate == "hold"


OF_BILLING = (
    "upstream: {base_url: 'https://service.example', preset: PRESET, keys: ["
    "{name: a, secret: secret-secret-a, managed: [send-billing-data]}, KEY]}\nbilling: {connection: conn-1BILLING}"
)
TELEMETRY = "{name: b, secret: secret-secret-b, managed: [send-ai-telemetry]}"


def of_billing(*, preset: str = "document", key: str = "", billing: str = "") -> str:
    return OF_BILLING.replace("PRESET", preset).replace(", KEY", f", {key}" if key else "").replace("BILLING", billing)


def test_a_cost_that_would_be_billed_twice_is_a_fault(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, of_billing(key=TELEMETRY))
    assert "would count the same calls twice" in fault
    config = load(tmp_path, of_billing(key=TELEMETRY, billing=", beside_ai_telemetry: true, since: 2026-01-05"))
    assert config.billing is not None
    assert (config.billing.connection, str(config.billing.since)) == ("conn-1", "2026-01-05")
    assert load(tmp_path, of_billing()).billing is not None
    assert load(tmp_path, "billing: {connection: conn-1}").billing is not None, "the embedded service keeps both apart"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (of_billing(preset="cloudzero"), "takes no FOCUS drops"),
        ("billing: {connection: a/b}", "billing.connection"),
        ("billing: {}", "billing.connection"),
        ("billing: {connection: c, close_after: 1m}", "billing.close_after"),
        ("billing: {connection: c, since: January}", "billing.since"),
        ("billing: {connection: c}\nexporters: {billing: {type: console}}", "name of the lane of billing drops"),
    ],
)
def test_a_billing_connection_that_cannot_be_is_a_fault(tmp_path: Path, text: str, words: str) -> None:
    assert any(words in fault for fault in faults(tmp_path, text))


OIDC = {
    "issuer": "https://id.example.com",
    "client_id": "gateway",
    "redirect_uri": "https://gateway.example.com/login/callback",
}


def test_operators_are_e_mails_alone_or_with_a_role() -> None:
    config = Config.model_validate({"operators": ["ops@example.com", {"email": "r@example.com", "role": "viewer"}]})
    assert [(each.email, each.role) for each in config.operators] == [
        ("ops@example.com", "operator"),
        ("r@example.com", "viewer"),
    ]
    assert operators_of(config).emails == ("ops@example.com",)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"operators": ["no e-mail"]}, "should match pattern"),
        ({"operators": ["a@example.com", "A@example.com"]}, "twice"),
        ({"operators": [{"email": "a@example.com", "role": "viewer"}]}, "needs the role operator"),
        ({"operator_identity": {"header": "X-Email"}}, "each needs the other"),
        ({"sign_in": {"groups_header": "X-Groups"}}, "roles: at least one is needed"),
        ({"sign_in": {"groups_header": "X-Groups", "roles": [{"group": "a"}]}}, "operator_identity.header"),
        ({"sign_in": {"oidc": OIDC}}, "roles: at least one is needed"),
        ({"sign_in": {"oidc": {**OIDC, "issuer": "http://id.example.com"}}}, "an https URL is needed"),
        ({"sign_in": {"oidc": {**OIDC, "redirect_uri": "https://g.example.com/"}}}, "/login/callback is needed"),
        ({"sign_in": {"oidc": {**OIDC, "scopes": ["email"]}}}, "openid has to be among them"),
        ({"sign_in": {"oidc": {**OIDC, "session": "1d"}}}, "less than or equal to"),
        ({"sign_in": {"roles": [{"role": "viewer"}]}}, "one of group and email is needed"),
        ({"sign_in": {"roles": [{"group": "a", "role": "operator", "limits": {"team": ["x"]}}]}}, "sees everything"),
        ({"sign_in": {"roles": [{"group": "a", "limits": {"user": ["x"]}}]}}, "team, project or a tag is needed"),
        ({"sign_in": {"roles": [{"group": "a", "limits": {"team": []}}]}}, "a list of 1 to 50 names"),
        ({"operator_identity": {"trusted_proxies": ["127.0.0.1"]}}, "each needs the other"),
        ({"operator_identity": {"header": "X-Email", "trusted_proxies": ["proxy"]}}, "does not appear to be"),
        ({"operator_identity": {"certificate": True}}, "client_ca_file is needed"),
    ],
)
def test_operators_who_could_not_be_known_are_refused(options: dict[str, object], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        Config.model_validate(options)


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ("{team: []}", "team: a record has a field of that name"),
        ("{labels: []}", "labels: a record has a field of that name"),
        ("{Cost: []}", "a tag's name is 1 to 32 lower-case letters"),
        ("{customer: [user.id]}", "customer: user.id states a user, of whom attributes.user decides"),
        ("{customer: [metadata.user_id]}", "customer: metadata.user_id states a user"),
        ("{feature: [gen_ai.prompt]}", "feature: gen_ai.prompt may hold a prompt"),
        ("{feature: [gen_ai.input.messages]}", "feature: gen_ai.input.messages may hold a prompt"),
        ("{feature: [http.request.header.authorization]}", "may hold a prompt, an answer or a header"),
        ("{feature: ['a b']}", "feature: an attribute's name is 1 to 128 printable ASCII characters"),
        ("{a: [x], b: [x]}", "x: an attribute states one tag only"),
        ("{a: [b1, b2, b3, b4, b5, b6, b7, b8, b9]}", "a: at most 8 attributes are possible"),
        (f"{{{', '.join(f't{n}: []' for n in range(21))}}}", "20"),
    ],
)
def test_a_tag_that_cannot_be_read_is_a_fault_with_its_remedy(tmp_path: Path, tags: str, said: str) -> None:
    (fault,) = faults(tmp_path, f"tags: {tags}")
    assert fault.startswith("line 1: tags")
    assert said in fault
