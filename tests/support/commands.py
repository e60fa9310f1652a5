"""`telemetry-gateway …` as an operator has it: a process of its own, beside a running gateway
or on the files of a stopped one.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.support.gateway_process import GatewayProcess

TIMEOUT_S = 60


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run_command(gateway: GatewayProcess, *arguments: str, answer: str | None = None) -> Ended:
    """The environment states the data directory; where a gateway runs on
    it, the command finds it.
    """
    environ = {"TELEMETRY_GATEWAY_DATA": str(gateway.data_dir)}
    return run_telemetry_gateway(*arguments, answer=answer, environ=environ)


def run_telemetry_gateway(
    *arguments: str, answer: str | None = None, environ: Mapping[str, str] | None = None
) -> Ended:
    command = [sys.executable, "-m", "gateway.cli.main", *arguments]
    env = {**os.environ, "COLUMNS": "200", **(environ or {})}
    ended = subprocess.run(
        command, env=env, input=answer or "", capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)
