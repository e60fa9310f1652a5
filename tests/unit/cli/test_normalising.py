"""`normalise` without `--explain`: what is asked for, and what is said when nothing can read it."""

from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from gateway.cli.main import main

CORPUS = Path(__file__).parents[2] / "data/corpus"


def run(path: str, body: bytes, content_type: str = "application/x-protobuf") -> Result:
    return CliRunner().invoke(main, ["normalise", "--path", path, "--content-type", content_type], input=body)


@pytest.mark.parametrize("path", ["/v1/sources/kong", "/v1/sources/kong/"])
def test_a_source_is_read_by_its_path(path: str) -> None:
    ran = run(path, (CORPUS / "gateways/kong/http_log_single.json").read_bytes())
    assert (ran.exit_code, ran.stderr) == (0, "received 1, kept 1\n")


def test_the_configurations_own_mapping_and_prices_are_used(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text("prices: [{model: ours, input: '1000000', output: '0'}]")
    config = tmp_path / "gateway.yaml"
    config.write_text(
        "pricing: {file: prices.yaml}\n"
        "attributes: {user: drop}\n"
        "sources: {generic: {fields: {request_model: llm, input_tokens: n.in, output_tokens: n.out, user: who}}}\n"
    )
    body = b'{"llm": "ours", "n": {"in": 2, "out": 1}, "who": "u-1"}'
    arguments = ["normalise", "--path", "/v1/sources/generic", "--config", str(config)]
    ran = CliRunner().invoke(main, arguments, input=body)
    record = orjson.loads(ran.stdout)
    assert (record["usage"]["input_tokens"], record["cost"]["amount"]) == (2, "2")
    assert record["attribution"].get("user") is None


def test_otlp_below_a_source_is_otlp() -> None:
    ran = run("/v1/sources/kong/v1/traces", (CORPUS / "otlp/mlflow/chat.traces.bin").read_bytes())
    assert (ran.exit_code, ran.stderr) == (0, "received 1, kept 1\n")


def test_the_error_of_a_path_that_nothing_reads_names_those_that_are_known() -> None:
    unknown = run("/v1/other", b"{}")
    assert unknown.exit_code == 2
    assert unknown.stderr.endswith(
        "/v1/traces, /v1/logs, /v1/metrics, /v1/events, /v1/unit-cost, /v1/unit-cost/KIND/STREAM/OPERATION and /v1/sources/NAME\n"
    )
    source = run("/v1/sources/nope", b"{}")
    assert source.exit_code == 2
    assert source.stderr.endswith("no source is named 'nope'; `telemetry-gateway sources` lists them\n")
