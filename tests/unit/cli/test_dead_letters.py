"""`spool dead-letters` on the data of a gateway that does not run."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import click
import orjson
import pytest

from gateway.cli.dead_letters import Choice, drop, listed, replay
from gateway.cli.options import Faulty, config_of
from gateway.cli.spool import print_verified
from gateway.config.model import Config
from spool.store import Refusal
from tests.support.spool_rig import append, frozen, open_spool


async def test_more_than_a_page_is_asked_for_page_by_page_and_shown_as_one(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    names = [f"r{n}" for n in range(1, 1206)]
    await append(spool, [orjson.dumps({"record_id": name}) for name in names])
    while (batch := await spool.freeze("ai_telemetry", max_records=1000, max_bytes=1 << 20)) is not None:
        await spool.ack(batch, [Refusal(i, "bad", "no good") for i in range(len(batch.records))])
    await spool.close()
    config = Config(data_dir=tmp_path)
    for most, pages in ((1, 1205), (500, 3), (501, 3), (1200, 2), (1205, 1), (5000, 1)):
        answer = await listed(config, [("reason", "bad")], most)
        shown = min(most, len(names))
        assert [letter["record_id"] for letter in answer["dead_letters"]] == names[:shown]
        counts = answer["pagination"]
        assert (counts["item_count"], counts["total_count"], counts["page_count"]) == (shown, len(names), pages)


async def test_ids_that_do_not_exist_are_reported_and_when_none_does_the_command_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = open_spool(tmp_path)
    await append(spool, [b"{}", b"{}"])
    batch = await frozen(spool)
    await spool.ack(batch, [Refusal(i, "bad", "no good") for i in range(2)])
    await spool.close()
    config = Config(data_dir=tmp_path)
    assert await replay(config, Choice(), (1, 17, 18), as_json=False) == 0
    assert "no dead letter has the id 17, 18:" in capsys.readouterr().err
    assert await replay(config, Choice(), (1, 17), as_json=False) == 1, "1 is put back"
    assert await drop(config, Choice(), (2, 17), is_sure=True, as_json=False) == 0
    assert "the id 17:" in capsys.readouterr().err
    assert await drop(config, Choice(), (2, 17), is_sure=True, as_json=False) == 1
    assert await drop(config, Choice(), (), is_sure=True, as_json=False) == 0, "none was named"


@pytest.mark.parametrize("command", [replay, partial(drop, is_sure=True)])
async def test_a_lane_that_does_not_exist_is_refused_and_one_whose_letters_are_left_is_not(
    tmp_path: Path, command: Callable[..., Awaitable[int]]
) -> None:
    spool = open_spool(tmp_path, exporters=["archive"])
    await append(spool, [b"{}"])
    await spool.ack(await frozen(spool, "archive"), [Refusal(0, "bad", "no good")])
    await spool.close()
    await open_spool(tmp_path).close()
    config = Config(data_dir=tmp_path)
    with pytest.raises(click.ClickException, match="lane: one of ai_telemetry, archive, devices"):
        await command(config, Choice(lane=("foo",)), (), as_json=False)
    stays = command is replay
    assert await command(config, Choice(lane=("archive",)), (), as_json=False) == stays


@pytest.mark.parametrize(
    ("letters", "verified", "dropped"),
    [
        (1, "all is well: 1 record in 1 chunk holds together", "1 dead letter is dropped for good"),
        (2, "all is well: 2 records in 1 chunk hold together", "2 dead letters are dropped for good"),
    ],
)
async def test_one_is_reported_as_one_and_two_as_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], letters: int, verified: str, dropped: str
) -> None:
    spool = open_spool(tmp_path)
    await append(spool, [orjson.dumps({"record_id": f"r{n}"}) for n in range(letters)])
    await spool.close()
    config = Config(data_dir=tmp_path)
    assert await print_verified(config, as_json=False) == 0
    assert capsys.readouterr().out.strip() == verified
    spool = open_spool(tmp_path)
    batch = await spool.freeze("ai_telemetry", max_records=10, max_bytes=1 << 20)
    assert batch is not None
    await spool.ack(batch, [Refusal(i, "bad", "no good") for i in range(letters)])
    await spool.close()
    await drop(config, Choice(reason=("bad",)), [], is_sure=True, as_json=False)
    assert capsys.readouterr().out.startswith(dropped)


def test_one_fault_of_a_configuration_is_reported_as_one(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("spool: {nothing: 1}\n")
    with pytest.raises(Faulty, match="has 1 fault\n"):
        config_of(file, None)
