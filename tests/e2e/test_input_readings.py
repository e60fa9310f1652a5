"""How an input was read that no table knows, as the command, the status and the page show it."""

from pathlib import Path

import httpx

from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess
from tests.unit.pipeline.test_learnt_by_key import EXCLUDES, OPEN, call

LINE = "my.own.scope 1.0, anthropic: excludes the cached tokens."


def test_a_library_whose_input_is_learnt_is_shown_and_known_after_a_restart(tmp_path: Path) -> None:
    any_port = "127.0.0.1:0"
    listen = {"http": any_port, "grpc": "off", "admin": any_port, "service": any_port}
    with GatewayProcess(tmp_path, config={"listen": listen, "counting": {"settle": "1s"}}) as gateway:
        for name, counts in (("open", OPEN), ("proof", EXCLUDES)):
            body, headers = call(name, counts), {"Content-Type": "application/x-protobuf"}
            assert httpx.post(f"{gateway.intake_url}/v1/traces", content=body, headers=headers).status_code == 200
        gateway.wait_until_delivered(at_least=2)
        shown = run_command(gateway, "senders")
        assert f"{LINE} Calls: 1 proved, 1 learnt, 0 assumed" in shown.out
        token = (gateway.data_dir / "admin-token").read_text().strip()
        page = httpx.get(f"{gateway.admin_url}/senders", headers={"Authorization": token}).text
        assert "my.own.scope" in page
        assert gateway.stop() == 0
        stopped = run_command(gateway, "senders")
        assert (stopped.code, LINE in stopped.out) == (0, False)
        gateway.start()
        assert f"{LINE} Calls: 0 proved, 0 learnt, 0 assumed" in run_command(gateway, "senders").out
