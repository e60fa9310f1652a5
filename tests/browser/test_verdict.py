"""The top of the page, and `status`: what is wrong, why, what to do, and what is safe."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.browser.traffic import post, send_calls
from tests.support.browser import Browser, Looks, Programs
from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess, Upstream
from tests.support.polling import wait_until_true
from tests.support.refusing_service import RefusingService
from tests.support.upstream import Reply, Seen
from tests.support.upstream_thread import upstream_in_thread


class Service:
    """Refuses each record, and then the key."""

    def __init__(self) -> None:
        self.refuses_key = False
        self._refusing = RefusingService(lambda record: "bad_model")

    def respond(self, seen: Seen) -> Reply:
        return Reply(401) if self.refuses_key else self._refusing.respond(seen)


@pytest.fixture(scope="module")
def gateway(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With a refused record, a held lane in which one waits, and a sender with a wrong path."""
    service = Service()
    with (
        upstream_in_thread(service.respond) as upstream,
        GatewayProcess(tmp_path_factory.mktemp("gateway"), upstream=Upstream(upstream.base_url, "a-key")) as gateway,
    ):
        send_calls(gateway, 1)
        gateway.wait_until_delivered(at_least=1)
        wait_until_true(lambda: bool(gateway.status()["dead_letters"]), what="the refused record is counted")
        service.refuses_key = True
        send_calls(gateway, 2)
        wait_until_true(lambda: lane(gateway)["state"] == "held" and lane(gateway)["pending"] == 1, what="held")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            post(gateway.intake_url + "/v1/nowhere", b"{}", {"Content-Type": "application/json"})
        yield gateway


def lane(gateway: GatewayProcess) -> dict[str, object]:
    found: dict[str, object] = gateway.status()["lanes"]["ai_telemetry"]
    return found


def test_each_finding_says_why_and_what_to_do_and_leads_there(
    browser: Browser, looks: Looks, gateway: GatewayProcess
) -> None:
    browser.log_in(gateway)
    verdict = browser.find("#verdict").text
    assert verdict.startswith("Not well. 3 things to look at. Nothing that was accepted is lost: ")
    assert "1 record waits on disk, 1 refused record is kept." in verdict
    assert looks.faults("verdict") == []
    browser.show_as("light", 1280)
    held, refused, sender = browser.texts("#verdict li")
    assert held.startswith("Lane ai_telemetry: held, 1 record waits.")
    assert "is refused or lacks the scope ai-telemetry-ingest:ingest-ai-telemetry" in held
    assert "What to do: " in held
    assert "Refused: bad_model." in refused, "the upstream's words"
    assert "1 request on a path that is not served from 127.0.0.1" in sender
    browser.press("Look at them about dead letters")
    assert len(browser.all("input[name=id]")) == 1
    browser.visit("/").press("See the lanes about lane ai_telemetry")
    assert browser.path == "/delivery"


def test_status_and_the_api_say_the_same(browser: Browser, gateway: GatewayProcess) -> None:
    found = run_command(gateway, "status", "--json")
    assert found.code == 1
    browser.log_in(gateway)
    verdict = browser.find("#verdict").text
    assert found.json["safe"] in verdict
    assert len(found.json["findings"]) == len(browser.all("#verdict li"))
    for each, shown in zip(found.json["findings"], browser.texts("#verdict li"), strict=True):
        text = each["text"].partition(": ")[0]
        assert shown.startswith(f"{each['what'][:1].upper()}{each['what'][1:]}: {text}")
        assert each["remedy"].replace("`", "") in shown
    viewer = (gateway.data_dir / "viewer-token").read_text().strip()
    asked = urllib.request.Request(gateway.admin_url + "/v2/verdict", headers={"Authorization": viewer})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        api = json.load(answer)
    assert (api["state"], api["safe"]) == (found.json["state"], found.json["safe"])
    assert [each["remedy"] for each in api["findings"]] == [each["remedy"] for each in found.json["findings"]]
    assert api["findings"][0]["page"] == "/delivery"
    assert api["findings"][1]["why"] == "refused: bad_model"
