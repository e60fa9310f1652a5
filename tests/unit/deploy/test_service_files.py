"""The files by which macOS, Windows and systemd start the gateway: well-formed, and their command
lines are the program's own.
"""

import plistlib
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from gateway.cli.main import main
from gateway.common.http.connection_limits import shares_of
from gateway.common.open_files import OPEN_FILES
from gateway.config.model import Limits
from gateway.serve.listen import SHUTDOWN_S

DEPLOY = Path(__file__).parents[3] / "deploy"
TASK = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"


def of_launchd() -> str:
    plist = plistlib.loads((DEPLOY / "launchd/telemetry-gateway.device.plist").read_bytes())
    _, _, script = plist["ProgramArguments"]
    return script.partition(" 2>> ")[0].partition('telemetry-gateway" ')[2]


def of_winsw() -> str:
    return ET.parse(DEPLOY / "windows/telemetry-gateway-device.xml").findtext("arguments") or ""


def of_task() -> str:
    tree = ET.parse(DEPLOY / "windows/telemetry-gateway-device.task.xml")
    return tree.findtext(f"{TASK}Actions/{TASK}Exec/{TASK}Arguments") or ""


def of_systemd(name: str) -> str:
    return setting(name, "ExecStart").partition("telemetry-gateway ")[2]


def setting(unit: str, name: str) -> str:
    """The one value of *name* in a unit."""
    (found,) = re.findall(rf"^{name}=(.*)$", (DEPLOY / "systemd" / unit).read_text(), re.MULTILINE)
    return str(found)


@pytest.mark.parametrize(
    "arguments",
    [
        of_launchd(),
        of_winsw(),
        of_task(),
        of_systemd("telemetry-gateway.service"),
        of_systemd("telemetry-gateway-device.service"),
    ],
)
def test_a_service_file_starts_the_gateway_with_options_that_it_has(arguments: str) -> None:
    name, *options = shlex.split(arguments.replace("\\", "/"))
    command = main.commands[name]
    assert command.make_context(name, options).params["config_file"] is not None


UNITS = ("telemetry-gateway.service", "telemetry-gateway-device.service")
STARTS, WITHIN_S = 5, 10
"""Of systemd: after so many starts within that time it gives a unit up."""


def test_the_unit_may_have_the_files_of_all_connections() -> None:
    """What the process asks for at most is `OPEN_FILES`."""
    files = min(int(setting("telemetry-gateway.service", "LimitNOFILE")), OPEN_FILES)
    assert shares_of(files).senders >= Limits().max_connections


@pytest.mark.parametrize("name", UNITS)
def test_systemd_never_gives_a_unit_up(name: str) -> None:
    assert setting(name, "Restart") == "always"
    assert int(setting(name, "RestartSec")) * STARTS > WITHIN_S


@pytest.mark.parametrize("name", UNITS)
def test_a_stop_is_given_the_time_that_it_takes(name: str) -> None:
    assert int(setting(name, "TimeoutStopSec")) >= 2 * SHUTDOWN_S, "one listener after the other"


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_leaves_the_metrics_of_the_process(name: str, tmp_path: Path) -> None:
    """`ProcSubset=pid` hides /proc/stat, without which no `process_*` is known."""
    proc = Path("/proc")
    if "\nProcSubset=pid" in (DEPLOY / "systemd" / name).read_text():
        (tmp_path / "self").symlink_to("/proc/self")
        proc = tmp_path
    registry = CollectorRegistry()
    ProcessCollector(proc=str(proc), registry=registry)
    assert b"process_resident_memory_bytes" in generate_latest(registry)
