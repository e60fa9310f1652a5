"""`sources`: what it prints is for the address that was asked about."""

import json

from click.testing import CliRunner

from gateway.cli.main import main

ADDRESS = "https://telemetry.example"


def output(*arguments: str) -> str:
    return CliRunner().invoke(main, ["sources", *arguments, "--address", ADDRESS]).stdout


def test_the_address_is_that_of_the_list_as_well() -> None:
    assert f"{ADDRESS}/v1/sources/NAME" in output()
    assert {x["url"].rpartition("/v1/")[0] for x in json.loads(output("--json"))} == {ADDRESS}


def test_one_source_is_told_with_the_address_in_what_to_paste() -> None:
    assert f"http_endpoint: {ADDRESS}/v1/sources/kong" in output("kong")
