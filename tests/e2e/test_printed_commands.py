"""Snippets that are commands for a shell, executed as they are printed."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.products.connecting import connection
from tests.support.gateway_process import GatewayProcess
from tests.support.keys_beside import inbound_key
from tests.support.truth import records_in


class Printed:
    """A gateway with a key, and a shell in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.delivered = folder / "delivered.ndjson"
        self.key = inbound_key(folder / "data")
        exporters = {"records": {"type": "file", "path": str(self.delivered)}}
        self.gateway = GatewayProcess(folder, config={"exporters": exporters})

    def execute(self, source: str, *, in_all: int) -> list[dict[str, Any]]:
        """The records that were delivered once there are so many."""
        found = connection(source, self.gateway.intake_url, "none", self.key)
        assert found is not None
        env = {"PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1"}
        subprocess.run(["/bin/sh", "-ec", found["snippet"]], cwd=self.folder, env=env, check=True, capture_output=True)
        self.gateway.wait_until_delivered("records", at_least=in_all)
        return records_in(self.delivered)


@pytest.fixture
def printed(tmp_path: Path) -> Iterator[Printed]:
    made = Printed(tmp_path)
    with made.gateway:
        yield made


def test_the_command_for_any_json_is_one_call(printed: Printed) -> None:
    (record,) = printed.execute("generic", in_all=1)
    assert (record["request_model"], record["attribution"]["key"]) == ("gpt-5-mini", "senders")
    assert (record["usage"]["input_tokens"], record["usage"]["output_tokens"]) == (12, 3)
    assert record["cost"]["source"] == "estimated"


def test_the_command_for_records_sends_what_an_exporter_wrote(printed: Printed, tmp_path: Path) -> None:
    (first,) = printed.execute("generic", in_all=1)
    lines = [json.dumps({**first, "record_id": f"{n:032x}", "response_id": f"r-{n}"}) for n in (1, 2)]
    (tmp_path / "records.ndjson").write_text("".join(line + "\n" for line in lines))
    found = printed.execute("records", in_all=3)
    assert [record["usage"] for record in found] == [first["usage"]] * 3
    assert len({record["record_id"] for record in found}) == 3
