"""Everything in one file, from a gateway under load: after kill -9 and a restore elsewhere nothing
that was acknowledged by then is lost or counted twice, and keys and devices are known.
"""

import asyncio
import hashlib
import json
import os
import secrets
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.bodies import Shape, Template
from benchmarks.scenario import Sink, fetch, running_sink
from gateway.operate.archive.staging import PREFIX, held, make_folder, remove_left, secret_files
from tests.support.commands import Ended, run_telemetry_gateway
from tests.support.gateway_process import GatewayProcess, Upstream, broken_identities
from tests.support.kill_load import Load
from tests.support.polling import until_true

SHAPE = Shape(spans=5, attributes=15)
WORKERS = 2
PHRASE = f"CANARY-7Q-{secrets.token_hex(8)}"
HEARTBEAT = {"instance_id": "i-1", "sequence": 1, "observed_at": "2026-01-05T10:01:00Z", "status": "healthy"}
NOT_BACKED_UP = {"lock", "reserve", "admin-address", "spool.summary", "state.summary", "spool.check"}


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    with running_sink(tmp_path / "sink.log") as running:
        yield running


def command(*arguments: str, phrase: str | None = None) -> Ended:
    environ = {} if phrase is None else {"TELEMETRY_GATEWAY_BACKUP_PASSPHRASE": phrase}
    return run_telemetry_gateway(*arguments, environ=environ)


@asynccontextmanager
async def sending(load: Load) -> AsyncIterator[None]:
    """*load* sends until the end of the block."""
    load.gateway_is_up()
    task = asyncio.create_task(load.run(WORKERS))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def backed_up(load: Load, *arguments: str, phrase: str | None = None) -> tuple[set[int], Ended]:
    """The requests that were acknowledged before the backup began; how it ended."""
    before = set(load.acked)
    assert len(before) > 10, "the load did not get going"
    ended = await asyncio.to_thread(lambda: command("backup", *arguments, phrase=phrase))
    assert ended.code == 0, ended.err
    return before, ended


async def until_acked(load: Load, more: int) -> None:
    """Until *more* further requests were acknowledged."""
    wanted = len(load.acked) + more
    await until_true(lambda: len(load.acked) >= wanted, what="requests are acknowledged")


def restored(file: Path, folder: Path, phrase: str | None = None) -> dict[str, Any]:
    ended = command("restore", str(file), "--data-dir", str(folder / "data"), "--json", phrase=phrase)
    assert ended.code == 0, ended.err
    done: dict[str, Any] = ended.json
    return done


async def until_counted(gateway: GatewayProcess, calls: int) -> None:
    """Until the usage by the hour holds exactly *calls*; it follows behind the lanes."""
    what = "the usage by the hour"
    await until_true(lambda: calls_by_the_hour(gateway.data_dir) >= calls, what=what)
    assert calls_by_the_hour(gateway.data_dir) == calls


def calls_by_the_hour(data_dir: Path) -> int:
    with closing(sqlite3.connect(data_dir / "control.db")) as connection:
        return int(connection.execute("SELECT sum(calls) FROM usage_hours").fetchone()[0] or 0)


async def test_what_was_acknowledged_before_a_backup_under_load_reaches_the_upstream_after_its_restore(
    tmp_path: Path, sink: Sink
) -> None:
    template, upstream = Template(SHAPE), Upstream(sink.url, secrets.token_hex(16))
    file, other = tmp_path / "gateway.tar.age", tmp_path / "other"
    other.mkdir()
    with GatewayProcess(tmp_path, upstream=upstream) as gateway:
        load = Load(template, lambda: gateway.intake_url)
        async with sending(load):
            await until_acked(load, 20)
            sink.set_mode("refuse")  # from here on everything waits in the spool
            await until_acked(load, 20)
            where = ("--data-dir", str(gateway.data_dir), "--to", str(file), "--encrypt")
            before, _ = await backed_up(load, *where, phrase=PHRASE)
            await until_acked(load, 20)
            gateway.kill()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    done = restored(file, other, PHRASE)
    assert done["pending"]["ai_telemetry"] > 0
    sink.set_mode("accept")
    with GatewayProcess(other, upstream=upstream) as gateway:
        status = await asyncio.to_thread(gateway.wait_until_delivered)
        assert fetch(f"{gateway.admin_url}/readyz") == b"ready\n", "degraded by what is no damage"
        await until_counted(gateway, status["lanes"]["ai_telemetry"]["kept"])
        assert gateway.stop() == 0
    assert broken_identities(status) == []
    counts, seen = sink.counts(), sink.seen()
    first_spans = [number * SHAPE.spans for number in before]
    assert [at for at in first_spans if not seen[at >> 3] >> (at & 7) & 1] == [], "acknowledged, but lost"
    assert (counts.double_counted, counts.bad_requests) == (0, 0)
    assert counts.unique_records == counts.unique_spans >= len(before) * SHAPE.spans
    assert status["lanes"]["ai_telemetry"]["kept"] <= counts.unique_records, "some were delivered after the backup"


async def test_all_databases_are_of_one_moment(tmp_path: Path) -> None:
    """With the embedded service: what it stored, what the spool counts and the usage by the hour
    agree after the restore.
    """
    template, other = Template(SHAPE), tmp_path / "other"
    other.mkdir()
    with GatewayProcess(tmp_path) as gateway:
        load = Load(template, lambda: gateway.intake_url)
        async with sending(load):
            await until_acked(load, 30)
            where = ("--data-dir", str(gateway.data_dir), "--to", str(tmp_path / "gateway.tar"))
            before, _ = await backed_up(load, *where)
            gateway.kill()
    restored(tmp_path / "gateway.tar", other)
    with GatewayProcess(other) as gateway:
        status = await asyncio.to_thread(gateway.wait_until_delivered)
        totals = gateway.summary()["totals"]
        await until_counted(gateway, totals["calls"])
        assert gateway.stop() == 0
    assert broken_identities(status) == []
    assert totals["calls"] == status["edge"]["kept"]
    assert totals["calls"] >= len(before) * SHAPE.spans


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Path]:
    """Data directory of a stopped gateway with a key and a device; the key; an encrypted backup
    that was taken while it ran.
    """
    folder = tmp_path_factory.mktemp("used")
    phrase = folder / "phrase"
    phrase.write_text(f"{PHRASE}\n")
    with GatewayProcess(folder) as gateway:
        where = ("--data-dir", str(gateway.data_dir))
        created = command(
            "keys", "create", "--name", "checkout", "--managed", "send-ai-telemetry", "--yes", "--json", *where
        )
        assert created.code == 0, created.err
        heartbeats = command(
            *("keys", "create", "--name", "beats", "--json", *where),
            *("--scope", "ai-control-plane:enroll-device", "--scope", "ai-control-plane:heartbeat-device"),
        )
        headers = {"Authorization": heartbeats.json["secret"]}
        url = f"{gateway.intake_url}/v1/devices/laptop-7/heartbeat"
        assert httpx.post(url, json=HEARTBEAT, headers=headers).status_code == 202
        file = folder / "gateway.tar.age"
        ended = command("backup", *where, "--to", str(file), "--passphrase-file", str(phrase))
        assert ended.code == 0, ended.err
        assert PHRASE not in ended.out + ended.err + gateway.log.read_text()
        assert gateway.stop() == 0
    phrase.unlink()
    return gateway.data_dir, created.json["secret"], file


def test_keys_work_and_devices_are_known_after_a_restore(tmp_path: Path, used: tuple[Path, str, Path]) -> None:
    _, key, file = used
    restored(file, tmp_path, PHRASE)
    with GatewayProcess(tmp_path) as gateway:
        body = Template(SHAPE)
        headers = {**body.headers(), "Authorization": key}
        assert httpx.post(f"{gateway.intake_url}/v1/traces", content=body.body(0), headers=headers).status_code == 200
        assert httpx.post(f"{gateway.intake_url}/v1/traces", content=body.body(0)).status_code == 401
        listed = command("devices", "list", "--json", "--data-dir", str(gateway.data_dir))
        assert "laptop-7" in listed.out
        assert gateway.stop() == 0


def test_everything_in_a_data_directory_is_in_the_backup_or_is_known_not_to_be(used: tuple[Path, str, Path]) -> None:
    data_dir, _, _ = used
    files = {path.relative_to(data_dir).as_posix() for path in data_dir.rglob("*") if path.is_file()}
    databases = {name for name in files if name.endswith((".db", ".db-wal", ".db-shm"))}
    assert {"spool.db", "control.db", "service/service.db"} <= databases
    assert files - databases - NOT_BACKED_UP == set(secret_files(data_dir))
    assert {"control.pepper", "admin-token", "service/telemetry.key", "machine-secret"} <= set(secret_files(data_dir))


def test_no_byte_of_the_passphrase_or_of_a_secret_is_in_the_file(used: tuple[Path, str, Path]) -> None:
    data_dir, _, file = used
    content = file.read_bytes()
    assert PHRASE.encode() not in content
    for name in secret_files(data_dir):
        assert (data_dir / name).read_bytes().strip() not in content
    for path in data_dir.rglob("*"):
        assert not path.is_file() or PHRASE.encode() not in path.read_bytes()


def test_a_passphrase_is_no_option_and_no_argument(tmp_path: Path, used: tuple[Path, str, Path]) -> None:
    """The process of the command, looked at while it waits for its passphrase."""
    data_dir, _, _ = used
    pipe = tmp_path / "phrase"
    os.mkfifo(pipe)
    arguments = ["backup", "--data-dir", str(data_dir), "--to", str(tmp_path / "x.age"), "--passphrase-file", str(pipe)]
    with subprocess.Popen([sys.executable, "-m", "gateway.cli.main", *arguments], stdout=subprocess.PIPE) as process:
        with pipe.open("w") as written:
            written.write(PHRASE)
            shown = (
                Path(f"/proc/{process.pid}/cmdline").read_bytes() + Path(f"/proc/{process.pid}/environ").read_bytes()
            )
        assert process.wait() == 0
    assert PHRASE.encode() not in shown
    refused = command("backup", "--data-dir", str(data_dir), "--to", "x", "--passphrase", PHRASE)
    assert refused.code == 2


def test_a_restore_is_refused_where_anything_is(tmp_path: Path, used: tuple[Path, str, Path]) -> None:
    data_dir, _, file = used
    before = digest(data_dir)
    ended = command("restore", str(file), "--data-dir", str(data_dir), phrase=PHRASE)
    assert ended.code == 1
    assert "is not empty" in ended.err
    assert "--data-dir" in ended.err
    assert digest(data_dir) == before
    to = tmp_path / "data"
    for phrase, said in (("not the passphrase", "the passphrase is wrong"), (PHRASE, None)):
        ended = command("restore", str(file), "--data-dir", str(to), phrase=phrase)
        assert (ended.code, said is None or said in ended.err) == (int(said is not None), True), ended.err


@pytest.mark.parametrize("share", [0.0, 0.4, 0.999])
def test_a_changed_or_shortened_file_leaves_the_directory_empty(
    tmp_path: Path, used: tuple[Path, str, Path], share: float
) -> None:
    content = bytearray(used[2].read_bytes())
    content[int(share * len(content))] ^= 0x10
    changed, short = tmp_path / "changed", tmp_path / "short"
    changed.write_bytes(content)
    short.write_bytes(used[2].read_bytes()[: int(share * len(content))])
    for file in (changed, short):
        ended = command("restore", str(file), "--data-dir", str(tmp_path / "data"), phrase=PHRASE)
        assert ended.code == 1
        assert "is not restored:" in ended.err
        assert not (tmp_path / "data").exists() or {p.name for p in (tmp_path / "data").iterdir()} <= {"lock"}


def test_what_a_newer_release_wrote_is_refused_by_name(tmp_path: Path, used: tuple[Path, str, Path]) -> None:
    data_dir, _, _ = used
    newer = tmp_path / "newer"
    newer.mkdir(mode=0o700)
    for name in ("spool.db", "control.db", "control.pepper"):
        (newer / name).write_bytes((data_dir / name).read_bytes())
    with closing(sqlite3.connect(newer / "spool.db")) as connection:
        connection.execute("PRAGMA user_version=9000")
    assert command("backup", "--data-dir", str(newer), "--to", str(tmp_path / "newer.tar")).code == 0
    ended = command("restore", str(tmp_path / "newer.tar"), "--data-dir", str(tmp_path / "data"))
    assert ended.code == 1
    assert "restore it with that release or a newer one" in ended.err


def test_a_damaged_spool_is_not_backed_up(tmp_path: Path, used: tuple[Path, str, Path]) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir(mode=0o700)
    for name in ("spool.db", "control.db", "control.pepper"):
        (damaged / name).write_bytes((used[0] / name).read_bytes())
    with (damaged / "spool.db").open("r+b") as file:
        file.seek(2 * 8192)
        file.write(secrets.token_bytes(3 * 8192))
    ended = command("backup", "--data-dir", str(damaged), "--to", str(tmp_path / "x.tar"))
    assert ended.code == 1
    assert "spool.db" in ended.err
    assert not (tmp_path / "x.tar").exists()
    assert not list(damaged.glob(f"{PREFIX}*"))


def test_a_gateway_does_not_start_on_half_a_restore(tmp_path: Path, used: tuple[Path, str, Path]) -> None:
    restored(used[2], tmp_path, PHRASE)
    (tmp_path / "data" / ".unfinished-restore").mkdir()
    ended = command("run", "--data-dir", str(tmp_path / "data"), "--listen-http", "127.0.0.1:0")
    assert ended.code == 1
    assert "restore is under way or was interrupted" in ended.err
    again = command("restore", str(used[2]), "--data-dir", str(tmp_path / "data"), phrase=PHRASE)
    assert "a restore was interrupted" in again.err


def test_what_a_killed_backup_left_goes_with_the_next_and_what_is_in_use_stays(tmp_path: Path) -> None:
    left, used_now = make_folder(tmp_path), tmp_path / f"{PREFIX}of another"
    used_now.mkdir()
    with held(used_now):
        kept = make_folder(tmp_path)
        assert not left.exists()
        assert used_now.exists()
    remove_left(tmp_path)
    assert not kept.exists()
    assert not used_now.exists()


def test_the_config_goes_along_where_asked(tmp_path: Path, used: tuple[Path, str, Path]) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text(json.dumps({"data_dir": str(used[0])}))
    file = tmp_path / "gateway.tar"
    ended = command("backup", "--config", str(config), "--with-config", "--to", str(file), "--json")
    assert ended.code == 0, ended.err
    assert restored(file, tmp_path)["files"] == ended.json["files"]
    assert (tmp_path / "data" / "backup-config.yaml").read_text() == config.read_text()


def digest(folder: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            whole.update(path.name.encode() + path.read_bytes())
    return whole.hexdigest()
