"""Budgets of the real gateway: under load, killed, the same calls sent again by two senders, a
receiver of webhooks that fails at first; and LiteLLM's own class, which asks for the state.
"""

import base64
import hmac
import json
import os
import re
import subprocess
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.client_environments import client_python
from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess, broken_identities

pytestmark = pytest.mark.slow

SECRET = b"a secret of a webhook, 4711"
ENVELOPES, PER_ENVELOPE = 40, 25
REFUSALS = 2
COST = "0.010000000000000001"
SPENT = "10.000000000000001"
"""Of all calls, each counted once."""
ADMIN = "/v2/budgets"
HOOK = re.compile(r"```python\n(# budget_hook\.py.*?)```", re.DOTALL)
DOCS = Path(__file__).parents[2] / "docs" / "budgets.md"


class Receiver:
    """Takes signed webhooks, but for the first ones."""

    def __init__(self) -> None:
        self.tries: Counter[str] = Counter()
        self.bodies: dict[str, set[bytes]] = {}
        self.taken: Counter[str] = Counter()
        self.faults: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook/token-4711"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(receiver.take(self.headers, body))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        return Handler

    def take(self, headers: Mapping[str, str], body: bytes) -> int:
        given = headers["webhook-id"]
        signed = b".".join((given.encode(), headers["webhook-timestamp"].encode(), body))
        signature = "v1," + base64.b64encode(hmac.digest(SECRET, signed, "sha256")).decode()
        if not hmac.compare_digest(headers["webhook-signature"], signature):
            self.faults.append(given)
        self.tries[given] += 1
        self.bodies.setdefault(given, set()).add(body)
        if sum(self.tries.values()) <= REFUSALS:
            return 503
        self.taken[given] += 1
        return 204


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as started:
        yield started


def envelope(number: int, started_at: str) -> bytes:
    """One request of a forwarding gateway, the same whoever sends it."""
    records = [
        {
            "schema": "inference/1", "record_id": f"{number * PER_ENVELOPE + each:032x}", "kind": "call", "billed": True,
            "source": {"format": "otlp.traces", "convention": "gen_ai"}, "operation": "chat", "provider": "own",
            "request_model": "own-model", "started_at": started_at, "duration_ms": 5, "status": "ok",
            "usage": {"status": "reported", "input_tokens": 10, "output_tokens": 1},
            "cost": {"amount": COST, "currency": "USD", "source": "reported", "price_version": None},
            "attribution": {"team": "core"}, "received_at": started_at, "flags": [],
        }
        for each in range(PER_ENVELOPE)
    ]  # fmt: skip
    return json.dumps(
        {"schema": "ai-telemetry/1", "batch_id": f"b{number}", "gateway_id": "edge", "records": records}
    ).encode()


def request(url: str, body: bytes | None = None, **headers: str) -> Any:
    """The JSON of the answer. Raises HTTPError, URLError."""
    asked = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(asked, timeout=20) as answer:
        return json.loads(answer.read())


class Client:
    """An operator of one gateway."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._gateway = gateway

    def ask(self, path: str, body: object = None) -> Any:
        token = (self._gateway.data_dir / "admin-token").read_text().strip()
        sent = None if body is None else json.dumps(body).encode()
        return request(self._gateway.admin_url + path, sent, Authorization=token)

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        return self._gateway.process.wait_until(condition, what=what)


def sender(gateway: GatewayProcess, bodies: list[bytes]) -> None:
    """Sends all of them, some of them to a gateway that is gone."""
    for body in bodies:
        try:
            request(f"{gateway.intake_url}/v2/ai-telemetry/records", body)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return


def test_each_alert_comes_once_through_a_kill_and_replays_of_two_senders(tmp_path: Path, receiver: Receiver) -> None:
    webhook = {"url": receiver.url, "secret": SECRET.decode()}
    started_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    bodies = [envelope(number, started_at) for number in range(ENVELOPES)]
    half = bodies[: ENVELOPES * 11 // 20]
    thresholds = [{"of": "actual", "percent": percent} for percent in (50, 80, 100, 200)]
    with (
        GatewayProcess(tmp_path, config={"budgets": {"webhook": webhook}}) as gateway,
        ThreadPoolExecutor(2) as two,
    ):
        client = Client(gateway)
        new = {"name": "Core", "amount": "10", "currency": "USD", "period": "year", "thresholds": thresholds}
        made = client.ask(ADMIN, {**new, "filter": {"team": ["core"]}, "stop_at": 100})["budget"]
        list(two.map(sender, [gateway] * 2, [half] * 2))
        client.until(lambda: receiver.tries or None, "the first try of a webhook")
        under_way = [two.submit(sender, gateway, bodies) for _ in range(2)]
        gateway.kill()
        for each in under_way:
            each.result()
        gateway.restart()
        list(two.map(sender, [gateway] * 2, [bodies] * 2))
        client.until(lambda: sum(receiver.taken.values()) >= 3 or None, "three webhooks")
        assert not broken_identities(gateway.wait_until_delivered(at_least=ENVELOPES * PER_ENVELOPE))
        budget = client.ask(f"{ADMIN}/{made['id']}")["budget"]
        gateway.kill()
        gateway.restart()
        list(two.map(sender, [gateway] * 2, [bodies] * 2))
        assert not broken_identities(gateway.wait_until_delivered(at_least=ENVELOPES * PER_ENVELOPE))
        client.until(lambda: state_of(client, made["id"])["spent"] == SPENT or None, "all is counted")
        again = client.ask(f"{ADMIN}/{made['id']}")["budget"]
        insights = client.ask("/v2/insights?limit=100")["insights"]
        shown = run_command(gateway, "budgets", "show", "Core", "--json").json["budget"]
        scraped = scrape(gateway, 'telemetry_gateway_budget_crossed_thresholds{budget="Core"}')
        further = client.ask(ADMIN, {**new, "name": "stops later", "stop_at": 200, "thresholds": []})["budget"]["id"]
        check_scopes(gateway, client, made["id"])
        hooked = hook_says(gateway, client, tmp_path, [made["id"], further, "none"])
    assert (again["state"]["spent"], again["state"]["calls"]) == (SPENT, ENVELOPES * PER_ENVELOPE)
    assert again["state"]["hard_stop"] is True
    assert [each["percent"] for each in budget["alerts"]] == [100, 80, 50]
    assert [each["id"] for each in budget["alerts"]] == [each["id"] for each in again["alerts"]]
    assert shown["alerts"] == again["alerts"]
    ids = {each["id"] for each in again["alerts"]}
    assert set(receiver.tries) == set(receiver.taken) == ids, "each arrived, under one id"
    assert all(len(same) == 1 for same in receiver.bodies.values())
    assert receiver.faults == []
    crossed = [each["title"] for each in insights if each["title"].startswith("budget Core")]
    assert sorted(title.split("%")[0] for title in crossed) == [
        "budget Core: 100 ",
        "budget Core: 50 ",
        "budget Core: 80 ",
    ]
    assert scraped == 3
    assert hooked == ["BudgetExceededError", "let through", "let through"]
    said = b"".join(file.read_bytes() for file in [gateway.log, *gateway.data_dir.glob("control.db*")])
    assert SECRET not in said
    assert b"token-4711" not in said


def state_of(client: Client, budget_id: str) -> dict[str, Any]:
    state: dict[str, Any] = client.ask(f"{ADMIN}/{budget_id}/state")["state"]
    return state


def scrape(gateway: GatewayProcess, series: str) -> float:
    with urllib.request.urlopen(f"{gateway.admin_url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.removeprefix(series)) for line in lines if line.startswith(series))


def check_scopes(gateway: GatewayProcess, client: Client, budget_id: str) -> None:
    """The state on the senders' port is for keys with the scope alone."""
    url = f"{gateway.intake_url}{ADMIN}/{budget_id}/state"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        request(url)
    reader, other = (made_key(client, scope) for scope in ("budgets:read_budget", "budgets:read_budgets"))
    assert request(url, Authorization=reader)["state"]["spent"] == SPENT
    with pytest.raises(urllib.error.HTTPError, match="403"):
        request(url, Authorization=other)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        request(url.replace(budget_id, "none"), Authorization=reader)


def made_key(client: Client, scope: str, name: str = "") -> str:
    secret: str = client.ask("/v2/keys", {"name": name or scope, "scopes": [scope], "confirmed": True})["secret"]
    return secret


PROGRAM = """
import asyncio, os, budget_hook
for url in os.environ["URLS"].split():
    os.environ["BUDGET_STATE_URL"] = url
    try:
        asyncio.run(budget_hook.Budget().async_pre_call_hook(None, None, {}, "completion"))
        print("let through")
    except Exception as error:
        print(type(error).__name__)
"""


def hook_says(gateway: GatewayProcess, client: Client, folder: Path, budgets: list[str]) -> list[str]:
    """What the hook of the docs, in LiteLLM's own class, does by the state of each of *budgets*."""
    found = HOOK.search(DOCS.read_text())
    assert found is not None
    (folder / "budget_hook.py").write_text(found[1])
    urls = [f"{gateway.intake_url}{ADMIN}/{each}/state" for each in budgets]
    key = made_key(client, "budgets:read_budget", "for the hook")
    env = {"URLS": " ".join(urls), "BUDGET_STATE_URL": urls[0], "BUDGET_KEY": key}
    said = subprocess.check_output(
        [client_python("litellm"), "-c", PROGRAM],
        cwd=folder,
        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONPATH": str(folder), **env},
        text=True,
    )
    return said.split("\n")[: len(budgets)]
