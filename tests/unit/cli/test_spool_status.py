"""`spool status` on the data of a gateway that does not run."""

from pathlib import Path

import pytest

from gateway.cli.requests import STATUS, ask
from gateway.cli.spool import print_tables
from gateway.config.model import Config
from gateway.operate.spool_files import STATUS as SHOW
from tests.support.spool_rig import append, frozen, open_spool


async def test_asked_without_the_gateways_config_it_gives_up_no_exporters_records(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, exporters=["archive"])
    await append(spool, [b"1", b"2"])
    await spool.close()
    await ask(Config(data_dir=tmp_path), STATUS, SHOW)
    status = await ask(Config(data_dir=tmp_path), STATUS, SHOW)
    assert (status["lanes"]["archive"]["pending"], status["lanes"]["archive"]["expired"]) == (2, 0)
    again = open_spool(tmp_path, exporters=["archive"])
    assert (await frozen(again, "archive")).records == (b"1", b"2")
    await again.close()


async def test_the_table_fits_a_narrow_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    await open_spool(tmp_path).close()
    print_tables(await ask(Config(data_dir=tmp_path), STATUS, SHOW))
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert "ai_telemetry" in shown
    assert "off: no gateway runs" in shown
