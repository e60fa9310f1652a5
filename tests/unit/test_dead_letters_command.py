"""`spool dead-letters list` on the data of a gateway that does not run."""

from pathlib import Path

import orjson

from gateway.cli.dead_letters import listed
from gateway.config import Config
from spool.store import Refusal
from tests.support.spool_rig import append, open_spool


async def test_more_than_a_page_is_asked_for_page_by_page_and_told_as_one(tmp_path: Path) -> None:
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
