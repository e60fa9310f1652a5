"""The pictures of the docs: `python -m tests.browser.pictures docs/images` makes them again, from a
day of made-up traffic.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tests.browser.traffic import post, send_json
from tests.support.browser import WIDE_PX, Browser, Scheme, installed, running_browser
from tests.support.calls import EPOCH_MS
from tests.support.gateway_process import GatewayProcess
from tests.support.spans import call_span

MODELS: Final = (
    ("openai", "gpt-4o", 6),
    ("openai", "gpt-4o-mini", 9),
    ("anthropic", "claude-sonnet-4-5", 8),
    ("anthropic", "claude-haiku-4-5", 5),
    ("gcp.gemini", "gemini-2.5-flash", 4),
    ("self-hosted", "house-llm-7b", 1),
)
"""Provider, model, share of the calls; the last one has no price."""
TEAMS: Final = ("search", "support", "checkout", "research")
USERS: Final = ("ada", "grace", "edsger", "barbara", "donald")
CALLS: Final = 900
DAY_S: Final = 24 * 3600
HEIGHT_PX: Final = 900
MAX_BYTES: Final = 150_000


class Picture(NamedTuple):
    name: str
    path: str | Callable[[Browser], str]
    scheme: Scheme = "light"


def first_insight(browser: Browser) -> str:
    return str(browser.visit("/insights").find("tbody th a").get_attribute("href")).removeprefix(browser.base_url)


PICTURES: Final = (
    Picture("overview", "/?range=24h"),
    Picture("explore", "/usage?range=last_24_hours&group_by=team,model&time_zone=UTC"),
    Picture("delivery", "/delivery"),
    Picture("insight", first_insight, "dark"),
    Picture("key", "/keys/new"),
    Picture("connect", "/connect/claude-code"),
)


def send_day(gateway: GatewayProcess) -> None:
    """Calls of the last 24 hours, more of them by day; a failure now and then."""
    chance = random.Random(7)
    now_s = time.time() - EPOCH_MS / 1000
    for number in range(CALLS):
        provider, model, _ = chance.choices(MODELS, [share for *_, share in MODELS])[0]
        team = chance.choice(TEAMS)
        at_s = now_s - 5 - DAY_S * chance.betavariate(1.3, 1.6)
        more: dict[str, object] = {
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
            "gen_ai.response.model": model,
            "gen_ai.response.id": f"answer-{number}",
            "user.id": chance.choice(USERS),
        }
        if chance.random() < 0.02:
            more["error.type"] = "rate_limit_exceeded"
        tokens = (chance.randrange(400, 9000), chance.randrange(50, 1400))
        if chance.random() < 0.6:
            more["gen_ai.usage.cache_read.input_tokens"] = tokens[0] * chance.randrange(2, 8) // 10
        resource = {"service.name": f"{team}-assistant", "team.id": team, "deployment.environment.name": "prod"}
        body = call_span(f"picture-{number}", tokens, at=at_s, resource=resource, more=more)
        post(gateway.intake_url + "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
    for name in ("build-server", "ada-laptop", "grace-laptop"):
        send_json(gateway, f"/v1/devices/{name}/heartbeat", {"instance_id": "one", "sequence": 1})
    gateway.wait_until_delivered(at_least=CALLS)


def take(browser: Browser, picture: Picture) -> bytes:
    path = picture.path if isinstance(picture.path, str) else picture.path(browser)
    browser.show_as(picture.scheme, WIDE_PX, HEIGHT_PX)
    browser.visit(path)
    browser.until(lambda: "Live" in browser.text, "live")
    return browser.picture(whole=False, form="webp")


def main(folder: Path) -> None:
    """Raises AssertionError for a picture that is too large."""
    programs = installed()
    assert programs is not None, "apt-get install chromium chromium-driver"
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "listen": {"http": "127.0.0.1:4318", "grpc": "127.0.0.1:4317", "admin": "127.0.0.1:0", "service": "127.0.0.1:0"}
    }
    with tempfile.TemporaryDirectory() as scratch, GatewayProcess(Path(scratch), config=config) as gateway:
        send_day(gateway)
        with running_browser(programs, Path(scratch) / "browser") as browser:
            browser.log_in(gateway)
            for picture in PICTURES:
                content = take(browser, picture)
                assert len(content) < MAX_BYTES, picture.name
                (folder / f"{picture.name}.webp").write_bytes(content)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="docs/images")
    main(parser.parse_args().folder)
