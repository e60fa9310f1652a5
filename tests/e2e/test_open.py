"""`open` gives a link to the status page that works once, and shows no token."""

from pathlib import Path

import httpx

from tests.support.commands import run_telemetry_gateway
from tests.support.gateway_process import GatewayProcess


def test_the_link_opens_the_page_once(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        ended = run_telemetry_gateway("open", "--print", "--data-dir", str(gateway.data_dir))
        assert ended.code == 0, ended.err
        link = ended.out.strip()
        assert link.startswith(f"{gateway.admin_url}/login?once=")
        with httpx.Client(follow_redirects=True) as browser:
            assert "AI telemetry gateway" in browser.get(link).text
            assert browser.get(gateway.admin_url).status_code == 200, "the session stays"
        assert httpx.get(link).status_code == 401, "it was used"
        assert (gateway.data_dir / "admin-token").read_text().strip() not in ended.out + ended.err
        assert gateway.stop() == 0


def test_a_link_for_a_viewer_opens_a_page_without_buttons(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        ended = run_telemetry_gateway("open", "--print", "--viewer", "--data-dir", str(gateway.data_dir))
        with httpx.Client(follow_redirects=True) as browser:
            assert ">Viewer<" in browser.get(ended.out.strip()).text
            assert browser.get(gateway.admin_url + "/v2/status").status_code == 200
            assert browser.get(gateway.admin_url + "/v2/keys").status_code == 403
            own = {"Origin": gateway.admin_url}
            assert browser.post(gateway.admin_url + "/v2/login-links", headers=own).status_code == 403
        assert gateway.stop() == 0


def test_without_a_gateway_it_says_how_to_start_one(tmp_path: Path) -> None:
    ended = run_telemetry_gateway("open", "--print", "--data-dir", str(tmp_path / "data"))
    assert ended.code == 1
    assert "start it with `telemetry-gateway run`" in ended.err


def test_an_admin_listener_on_a_socket_has_no_link(tmp_path: Path) -> None:
    listen = {
        "http": "127.0.0.1:0",
        "grpc": "off",
        "admin": f"unix:{tmp_path / 'admin.sock'}",
        "service": "127.0.0.1:0",
    }
    with GatewayProcess(tmp_path, config={"listen": listen}) as gateway:
        ended = run_telemetry_gateway("open", "--print", "--data-dir", str(gateway.data_dir))
        assert ended.code == 1
        assert "no browser opens" in ended.err
        assert gateway.stop() == 0
