"""`spool replay` asks before it sends much again."""

from typing import Any

import click
import pytest

from gateway.cli import dead_letters
from gateway.cli.dead_letters import ASKS_ABOVE, replay_delivered
from gateway.config.loader import load_config


class Gateway:
    """What the command asks it, with *records* that were delivered."""

    def __init__(self, records: int) -> None:
        self.records = records
        self.asked: list[dict[str, Any]] = []

    async def ask(self, *_: object, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        return {"would_replay" if body.get("dry_run") else "replayed": {"ai_telemetry": self.records}}


async def replayed(
    monkeypatch: pytest.MonkeyPatch, records: int, *, says: bool = True, is_sure: bool = False
) -> tuple[list[str], bool]:
    """The questions, and whether anything was sent again; *says* is the operator's word."""
    gateway, questions = Gateway(records), []

    def confirm(text: str, **_: object) -> None:
        questions.append(text)
        if not says:
            raise click.Abort

    monkeypatch.setattr(dead_letters, "ask", gateway.ask)
    monkeypatch.setattr(click, "confirm", confirm)
    try:
        await replay_delivered(load_config(None, {}, {}), [], "1h", is_sure=is_sure, as_json=True)
    except click.Abort:
        assert not says
    return questions, {"since": "1h", "lane": []} in gateway.asked


async def test_much_is_sent_again_only_after_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await replayed(monkeypatch, ASKS_ABOVE) == ([], True)
    questions, sent = await replayed(monkeypatch, 60_384)
    assert ("60384 delivered records" in questions[0], sent) == (True, True)
    assert (await replayed(monkeypatch, 60_384, says=False))[1] is False
    assert await replayed(monkeypatch, 60_384, is_sure=True) == ([], True)
