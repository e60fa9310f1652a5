"""`telemetry-gateway …` as an operator has it: a process of its own, beside a running gateway
or on the files of a stopped one.
"""

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gateway.cli.main import main
from tests.support.forked_process import FORKS
from tests.support.gateway_process import GatewayProcess

TIMEOUT_S = 300


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
    """A process of its own, forked off one that has done the imports, most of its time."""
    env = {**os.environ, "COLUMNS": "200", **(environ or {})}
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("in", "out", "err")]
        for stream, text in zip(streams, (answer or "", "", ""), strict=True):
            stream.write_text(text)
        process = FORKS.Process(target=_command, args=(arguments, env, Path.cwd(), streams))
        process.start()
        process.join(TIMEOUT_S)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise AssertionError(f"{arguments} takes more than {TIMEOUT_S} s")
        return Ended(process.exitcode, *(stream.read_text() for stream in streams[1:]))


def _command(arguments: Sequence[str], env: Mapping[str, str], cwd: Path, streams: Sequence[Path]) -> None:
    """In the forked process: the command with *streams* as its standard ones."""
    for number, stream in enumerate(streams):
        opened = os.open(stream, os.O_RDWR)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - a descriptor, open as long as the process runs
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = ["telemetry-gateway", *arguments]
    main()
