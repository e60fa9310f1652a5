"""Files of another user, and a disk that cannot be read at the start: stated as what they are, with
the command to type; never as damage.
"""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess, Upstream
from tests.support.power import built_shim

ANOTHER = 12345
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner")
"""Root as any other user has it: by owner and mode alone."""


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    """One that was stopped, with a key, so that something is at stake."""
    gateway = GatewayProcess(tmp_path, upstream=Upstream("http://127.0.0.1:9", secrets.token_hex(16)))
    with gateway:
        assert gateway.stop() == 0
        yield gateway


def started(gateway: GatewayProcess, environ: Mapping[str, str] | None = None) -> str:
    """What a start says that ends by itself with 1."""
    as_user = WITHOUT_RIGHTS if os.geteuid() == 0 else ()
    ended = subprocess.run(
        [*as_user, *gateway.command()], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "TEST_UPSTREAM_KEY": "x" * 32, **(environ or {})},
    )  # fmt: skip
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr


def state(data_dir: Path) -> dict[str, tuple[int, int, int]]:
    found = {path.name: path.stat() for path in (data_dir, *data_dir.iterdir())}
    return {name: (status.st_mode, status.st_uid, status.st_size) for name, status in found.items()}


needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can give files to another user"
)
needs_mode = pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root passes every mode without setpriv"
)


@needs_root
@pytest.mark.parametrize("name", ["control.db", "spool.db", "lock", "control.pepper", ""])
def test_files_of_another_user_are_stated_with_the_chown(gateway: GatewayProcess, name: str) -> None:
    os.chown(gateway.data_dir / name, ANOTHER, ANOTHER)
    before = state(gateway.data_dir)
    said = started(gateway)
    assert f"`chown -R root:root {gateway.data_dir}`" in said
    assert (name or "this folder") in said
    assert f"belongs to {ANOTHER}" in said
    assert "away" not in said
    assert state(gateway.data_dir) == before


@needs_mode
@pytest.mark.parametrize("name", ["control.db", "spool.db-wal", ""])
def test_a_mode_that_keeps_the_owner_out_is_stated_with_the_chmod(gateway: GatewayProcess, name: str) -> None:
    (gateway.data_dir / "spool.db-wal").touch(mode=0o600)
    path = gateway.data_dir / name
    path.chmod(0)
    said = started(gateway)
    assert f"`chmod u+rwX {str(path).removesuffix('/')}`" in said
    path.chmod(0o700)


@needs_mode
def test_a_folder_that_cannot_be_made_is_stated_with_the_command(tmp_path: Path) -> None:
    above = tmp_path / "var"
    above.mkdir(mode=0o500)
    gateway = GatewayProcess(tmp_path, config={"data_dir": str(above / "gateway")})
    said = started(gateway)
    assert "`install -d -m 0700 -o " in said
    assert f"{above / 'gateway'}`" in said


def unreadable(folder: Path, path: Path, *, whole: bool) -> dict[str, str]:
    """The environment in which every read of *path* fails with EIO; else those behind its first
    page.
    """
    failing = folder / "failing"
    failing.write_text("all" if whole else "")
    return {
        "LD_PRELOAD": str(built_shim(folder)),
        "DISK_SHIM_LOG": str(folder / "disk.log"),
        "DISK_SHIM_DIR": str(path),
        "DISK_SHIM_FAIL_READS": str(failing),
    }


@pytest.mark.parametrize("name", ["control.db", "spool.db"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_disk_that_cannot_be_read_is_no_damage(
    gateway: GatewayProcess, tmp_path: Path, name: str, *, whole: bool
) -> None:
    before = (gateway.data_dir / name).read_bytes()
    said = started(gateway, unreadable(tmp_path, gateway.data_dir / name, whole=whole))
    assert "EIO" in said
    assert "look at the disk" in said
    assert "move nothing away" in said
    assert "damaged" not in said
    assert "create a key before the start" not in said
    assert not (gateway.data_dir / "quarantine").exists()
    assert (gateway.data_dir / name).read_bytes() == before
    gateway.start()
    assert gateway.stop() == 0
