"""`sources`: what it prints is for the address that was asked about."""

import json

from click.testing import CliRunner

from gateway.cli.main import main

ADDRESS = "https://telemetry.example"


def output(*arguments: str) -> str:
    return CliRunner().invoke(main, ["sources", *arguments, "--address", ADDRESS]).stdout


def test_the_address_is_that_of_the_list_as_well() -> None:
    assert f"{ADDRESS}/v1/sources/NAME" in output()
    assert {x["url"].partition("/v1/")[0] for x in json.loads(output("--json"))} == {ADDRESS}


def test_one_source_is_reported_with_the_address_in_what_to_paste() -> None:
    assert f"http_endpoint: {ADDRESS}/v1/sources/kong" in output("kong")


def test_a_sender_of_otlp_is_shown_with_both_addresses_and_the_key() -> None:
    shown = output("claude-code", "--grpc-address", "telemetry.example:4317")
    assert 'export OTEL_EXPORTER_OTLP_ENDPOINT="http://telemetry.example:4317"' in shown
    assert "x-api-key=YOUR_KEY" in shown
    assert f'export OTEL_EXPORTER_OTLP_ENDPOINT="{ADDRESS}"' in output("logfire")
    assert "in the program:\n\nimport logfire" in output("logfire")


def test_an_unknown_name_is_refused_with_the_nearest_of_either_kind() -> None:
    refused = CliRunner().invoke(main, ["sources", "claude-cod"])
    assert refused.exit_code == 2
    assert "claude-code" in refused.output
