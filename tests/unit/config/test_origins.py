"""Where the value of each option is from."""

from pathlib import Path

from gateway.config.loader import load_config
from gateway.config.origins import Origin


def test_each_value_is_from_where_it_was_set_last(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("log_level: debug\nlisten:\n  http: 127.0.0.1:1\n  admin: 127.0.0.1:2\n")
    environ = {"TELEMETRY_GATEWAY_LISTEN_HTTP": "127.0.0.1:3", "TELEMETRY_GATEWAY_DATA": str(tmp_path)}
    origins = load_config(file, {"listen.admin": "127.0.0.1:4", "listen.grpc": None}, environ).origins
    assert origins.file == file
    assert origins.set_by == {
        "log_level": Origin("file", "line 1"),
        "listen": Origin("file", "line 2"),
        "listen.http": Origin("environment", "TELEMETRY_GATEWAY_LISTEN_HTTP"),
        "listen.admin": Origin("flag"),
        "data_dir": Origin("environment", "TELEMETRY_GATEWAY_DATA"),
    }


def test_an_origin_is_no_option() -> None:
    config = load_config(None, {"log_level": "error"}, {})
    assert "origins" not in " ".join(config.model_dump(mode="json"))
    assert config.origins.set_by == {"log_level": Origin("flag")}
