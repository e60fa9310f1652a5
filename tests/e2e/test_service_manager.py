"""The gateway as a service of systemd: what it reports to the notify socket, and when; and the
probe of a container.
"""

import asyncio
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.common.service_manager import ServiceManager
from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess

WAIT_S = 120


@pytest.fixture(params=["a path", "an abstract name"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A service manager's socket, and its name in NOTIFY_SOCKET."""
    is_path = request.param == "a path"
    name = str(tmp_path / "notify") if is_path else f"@telemetry-gateway-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name if is_path else f"\0{name[1:]}")
        listening.settimeout(WAIT_S)
        yield listening, name


def next_report(listening: socket.socket) -> str:
    """The next one that is no sign of life."""
    while (report := listening.recv(4096).decode()) == "WATCHDOG=1":
        pass
    return report


def test_ready_follows_the_listeners_and_a_reload_and_a_stop_are_reported(
    tmp_path: Path, manager: tuple[socket.socket, str]
) -> None:
    listening, name = manager
    gateway = GatewayProcess(tmp_path)
    gateway.env |= {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "300000"}
    process = gateway.spawn()
    try:
        assert next_report(listening) == "READY=1"
        ports = gateway.ports_file.read_text()
        for port in re.findall(r"\d+", ports):
            socket.create_connection(("127.0.0.1", int(port)), timeout=1).close()
        signs = [listening.recv(4096) for _ in range(4)]
        assert signs == [b"WATCHDOG=1"] * 4
        os.kill(process.pid, signal.SIGHUP)
        reloading = next_report(listening)
        since = re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)", reloading)
        assert since is not None
        assert 0 <= time.monotonic_ns() // 1000 - int(since[1]) < WAIT_S * 1_000_000
        assert next_report(listening) == "READY=1"
        os.kill(process.pid, signal.SIGTERM)
        assert next_report(listening) == "STOPPING=1"
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()


async def test_a_loop_that_hangs_gives_no_sign_of_life(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "60000"})
        living = asyncio.create_task(manager.keep_alive())
        await asyncio.sleep(0)  # the first one
        listening.settimeout(0)
        assert listening.recv(64) == b"WATCHDOG=1"
        listening.settimeout(0.2)  # the loop waits here for three times the limit
        with pytest.raises(TimeoutError):
            listening.recv(64)
        living.cancel()


def test_without_a_manager_nothing_is_sent_and_another_process_is_not_watched() -> None:
    asyncio.run(ServiceManager({}).keep_alive())
    asyncio.run(ServiceManager({"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}).keep_alive())
    ServiceManager({"NOTIFY_SOCKET": "/nowhere/notify"}).ready()


def test_the_probe_of_a_container_states_whether_the_gateway_is_ready(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        probed = run_command(gateway, "healthcheck")
        assert (probed.code, probed.out) == (0, "ready\n")
        assert run_command(gateway, "healthcheck", "--live").code == 0
        gateway.stop()
        gone = run_command(gateway, "healthcheck")
        assert gone.code == 1
        assert "no gateway was found here" in gone.err


def test_signals_without_a_meaning_end_nothing_and_sigquit_ends_it_in_order(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGIO, signal.SIGRTMIN, signal.SIGPROF):
            os.kill(gateway.process.pid, number)
        assert gateway.status()["edge"]["received"] == 0, "it answers"
        os.kill(gateway.process.pid, signal.SIGQUIT)
        assert gateway.process.wait_until(gateway.process.returncode, timeout_s=WAIT_S, what="ended") == 0


def test_a_signal_that_comes_while_it_starts_ends_nothing(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path)
    process = gateway.spawn()
    try:
        process.wait_until(lambda: (gateway.data_dir / "lock").exists() or None, timeout_s=WAIT_S, what="locked")
        os.kill(process.pid, signal.SIGUSR1)
        assert process.wait_until(
            lambda: (gateway.data_dir / "admin-address").exists() or None, timeout_s=WAIT_S, what="up"
        )
    finally:
        process.kill()
