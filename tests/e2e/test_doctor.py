"""`doctor` finds what is broken, and names what to do."""

import asyncio
import json
import secrets
import shutil
import socket
import sqlite3
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.cli import doctor_probes
from gateway.cli.doctor import REMEDIES
from gateway.common.native import READER, WHY_NOT, described
from tests.e2e.test_check import (
    FREE,
    Setup,
    damaged,
    empty_pepper,
    empty_token,
    exchange_certificates,
    exchange_pepper,
    lose_a_key,
    open_to_all,
    remove_keys,
    renew_spool,
    state,
    trust_no_certificate,
    turn_the_service_off,
    use_a_folder_of_many,
)
from tests.support.certificates import Authority, Pair
from tests.support.commands import Ended, run_telemetry_gateway
from tests.support.gateway_pair import gateway_pair
from tests.support.gateway_process import GatewayProcess
from tests.support.polling import until_true
from tests.support.upstream import Reply, Upstream, running_upstream

KEY = secrets.token_hex(16)
UNUSED_PORT = 1
"""Nothing listens there; a port that was free a moment ago may be another test's by now."""
TELEMETRY = {"name": "telemetry", "secret": KEY, "managed": ["send-ai-telemetry"]}


@pytest.fixture(scope="module")
def once_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a gateway ran once; copied, not used."""
    folder = tmp_path_factory.mktemp("once")
    with GatewayProcess(folder) as gateway:
        assert gateway.stop() == 0
    return folder


@pytest.fixture
def setup(tmp_path: Path, once_run: Path) -> Setup:
    shutil.copytree(once_run / "data", tmp_path / "data", copy_function=shutil.copy2)
    return Setup(tmp_path)


def named(ended: Ended) -> list[dict[str, Any]]:
    """What is not well; each with a remedy."""
    found = [x for x in json.loads(ended.out)["findings"] if x["level"] != "ok"]
    assert all(x["remedy"] for x in found)
    return found


def damage_spool(setup: Setup) -> None:
    damaged(setup.data_dir / "spool.db")


def misspell_an_option(setup: Setup) -> None:
    setup.options["spool"] = {"max_byte": "1GiB"}


def name_no_secret(setup: Setup) -> None:
    key = {**TELEMETRY, "secret": "${env:NO_SUCH_VARIABLE}"}
    setup.options["upstream"] = {"base_url": "http://127.0.0.1:9", "keys": [key]}


def name_a_proxy_that_is_down(setup: Setup) -> None:
    upstream = {"base_url": "https://service.example", "proxy": "http://127.0.0.1:9", "keys": [TELEMETRY]}
    setup.options["upstream"] = upstream


def lose_the_price_file(setup: Setup) -> None:
    setup.options["pricing"] = {"file": str(setup.folder / "prices.yaml")}


def want_more_than_the_disk_has(setup: Setup) -> None:
    setup.options["spool"] = {"max_bytes": "900000GiB"}


def let_a_certificate_end(setup: Setup) -> None:
    setup.options["tls"] = {"http": Authority(setup.folder / "tls").signed("ended", days=0).files}


def name_a_long_socket(setup: Setup) -> None:
    setup.options["listen"] = {**FREE, "http": f"unix:{setup.folder}/{'x' * 110}"}


def reach_no_upstream(setup: Setup) -> None:
    setup.options["upstream"] = {"base_url": f"http://127.0.0.1:{UNUSED_PORT}", "keys": [TELEMETRY]}


def reach_no_collector(setup: Setup) -> None:
    endpoint = f"http://127.0.0.1:{UNUSED_PORT}"
    setup.options["exporters"] = {"traces": {"type": "otlp", "endpoint": endpoint}}


def push_telemetry_nowhere(setup: Setup) -> None:
    setup.options["telemetry"] = {"endpoint": f"http://127.0.0.1:{UNUSED_PORT}", "protocol": "grpc"}


def write_records_nowhere(setup: Setup) -> None:
    setup.options["exporters"] = {"archive": {"type": "file", "path": str(setup.folder / "none" / "records.ndjson")}}


def set_the_clock_back(setup: Setup) -> None:
    """The spool was written by a clock that was an hour ahead."""
    for name in ("spool.summary", "state.summary"):
        summary = json.loads((setup.data_dir / name).read_text())
        summary["written_ms"] += 3_600_000
        (setup.data_dir / name).write_text(json.dumps(summary))


BROKEN: dict[Callable[[Setup], None], tuple[str, str, str]] = {
    misspell_an_option: ("configuration", "spool.max_byte: unknown option", "correct it in"),
    name_no_secret: ("configuration", "NO_SUCH_VARIABLE is not set", "correct it in"),
    lose_the_price_file: ("configuration", "pricing.file", "correct it in"),
    use_a_folder_of_many: ("data directory", "many use it", "name a folder of the gateway's own"),
    remove_keys: ("keys", "control.db is gone", "restore control.db and control.pepper"),
    exchange_pepper: ("keys", "the pepper file is not the one", "restore control.db and control.pepper"),
    empty_pepper: ("keys", "does not hold a pepper", "restore control.db and control.pepper"),
    empty_token: ("secrets", "admin-token holds no token", "is made again"),
    renew_spool: ("spool", "run a newer release", "run the release that wrote it"),
    damage_spool: ("spool", "is damaged", "is salvaged by `run`"),
    name_a_proxy_that_is_down: ("upstream key telemetry", "the proxy cannot be reached", "correct upstream.proxy"),
    exchange_certificates: ("TLS", "tls.grpc.key_file", "of one pair"),
    lose_a_key: ("TLS", "tls.http.key_file", "of one pair"),
    let_a_certificate_end: ("TLS", "it end", "renewed"),
    trust_no_certificate: ("upstream", "upstream.ca_file", "correct upstream.base_url or upstream.ca_file"),
    reach_no_upstream: ("upstream key telemetry", "Connection refused", "see whether the upstream runs"),
    turn_the_service_off: ("listeners", "listen.service must be host:port", "set another address"),
    name_a_long_socket: ("listeners", "the path is longer", "set another address"),
    open_to_all: ("open intake", "no key is enabled", "keys create"),
    reach_no_collector: ("exporter traces", "cannot be reached: Connection refused", "correct its endpoint"),
    push_telemetry_nowhere: ("telemetry", "cannot be reached: Connection refused", "correct its endpoint"),
    write_records_nowhere: ("exporter archive", "none does not exist", "make the folder"),
    set_the_clock_back: ("clock", "behind what the spool noted last", "by NTP"),
    want_more_than_the_disk_has: ("disk", "spool.max_bytes", "set spool.max_bytes below"),
}
"""What is broken -> where it is found, what is said of it, and what to do."""


@pytest.mark.parametrize("arrange", BROKEN, ids=lambda arrange: arrange.__name__)
def test_what_is_broken_is_found_with_its_remedy(setup: Setup, arrange: Callable[[Setup], None]) -> None:
    arrange(setup)
    before = state(setup.data_dir)
    what, text, remedy = BROKEN[arrange]
    found = named(setup.command("doctor", "--json"))
    assert [x for x in found if x["what"] == what and text in x["text"] and remedy in x["remedy"]], found
    assert state(setup.data_dir).keys() == before.keys(), "nothing is left there"


def test_a_port_that_is_taken_and_a_misspelt_variable_are_found(setup: Setup) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        setup.options["listen"] = {**FREE, "http": f"127.0.0.1:{taken.getsockname()[1]}"}
        file = setup.folder / "gateway.yaml"
        file.write_text(json.dumps(setup.options))
        environ = {"TELEMETRY_GATEWAY_LOGLEVEL": "debug"}
        ended = run_telemetry_gateway("doctor", "--config", str(file), environ=environ)
    assert ended.code == 1
    assert "FAULT   listeners: listen.http: 127.0.0.1:" in ended.out
    assert "-> stop what listens there" in ended.out
    assert "TELEMETRY_GATEWAY_LOGLEVEL sets no option\n        -> rename it to TELEMETRY_GATEWAY_LOG_LEVEL" in ended.out


@pytest.mark.parametrize(
    ("reply", "level", "remedy"),
    [
        (Reply(202), "ok", None),
        (Reply(401), "fault", "put a key that the service knows in its place"),
        (Reply(403), "fault", "have the key given ai-telemetry-ingest:ingest-ai-telemetry at the service"),
        (Reply(301), "fault", "the address that it redirects to"),
        (Reply(404), "fault", "correct upstream.base_url, and upstream.preset"),
        (Reply(502), "fault", "fails on its own side"),
    ],
    ids=str,
)
async def test_what_the_upstream_makes_of_a_key_is_reported(
    setup: Setup, reply: Reply, level: str, remedy: str | None
) -> None:
    async with running_upstream() as upstream:
        upstream.respond = lambda _: reply
        ended = await asyncio.to_thread(with_upstream, setup, upstream)
    (found,) = [x for x in json.loads(ended.out)["findings"] if x["what"] == "upstream key telemetry"]
    assert found["level"] == level
    assert (found["remedy"] is None) if remedy is None else (remedy in found["remedy"])
    lanes = {x["what"] for x in named(ended) if "no configured key grants" in x["text"]}
    assert lanes == {"lane usage_events", "lane devices", "lane unit_cost"}
    assert "a POST without records to the path of calls, /v2/ai-telemetry/records" in found["text"]
    assert KEY not in ended.out + ended.err


async def test_a_clock_that_is_off_and_a_certificate_of_nobody_are_found(setup: Setup) -> None:
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(running_upstream())
        upstream.respond = lambda _: Reply(202, headers={"Date": "Mon, 05 Jan 2026 10:00:00 GMT"})
        ended = await asyncio.to_thread(with_upstream, setup, upstream)
        assert any(x["what"] == "clock" and "ahead of the upstream's" in x["text"] for x in named(ended))
        authority = Authority(setup.folder / "tls")
        secure = await stack.enter_async_context(running_upstream(shown(authority.signed("upstream"))))
        ended = await asyncio.to_thread(with_upstream, setup, secure)
        (found,) = [x for x in named(ended) if x["what"] == "upstream key telemetry"]
        assert "is not trusted" in found["text"]
        assert "upstream.ca_file" in found["remedy"]


async def test_plain_http_where_tls_is_expected_is_named(setup: Setup) -> None:
    async with running_upstream() as upstream:
        setup.options["upstream"] = {"base_url": upstream.base_url.replace("http:", "https:"), "keys": [TELEMETRY]}
        endpoint = upstream.base_url.replace("http:", "https:")
        setup.options["exporters"] = {"traces": {"type": "otlp", "endpoint": endpoint}}
        ended = await asyncio.to_thread(setup.command, "doctor", "--json")
    found = {x["what"]: x for x in named(ended)}
    assert "no TLS is spoken there" in found["upstream key telemetry"]["remedy"]
    assert "write http:// in its endpoint" in found["exporter traces"]["remedy"]


async def test_lanes_that_are_not_wanted_warn_nowhere(setup: Setup) -> None:
    async with running_upstream() as upstream:
        upstream.respond = lambda _: Reply(202)
        lanes = ["usage_events", "unit_cost", "devices"]
        setup.options["upstream"] = {"base_url": upstream.base_url, "keys": [TELEMETRY], "unused_lanes": lanes}
        ended = await asyncio.to_thread(setup.command, "doctor", "--json")
        assert [x["what"] for x in named(ended)] == ["gateway"], "that none runs"
        checked = await asyncio.to_thread(setup.command, "check")
    assert "what needs it is accepted and waits" not in checked.out
    assert "lane unit_cost: off, not wanted here (upstream.unused_lanes)" in checked.out


def test_a_gateway_with_lanes_that_are_not_wanted_starts_without_a_warning(tmp_path: Path) -> None:
    lanes = ["usage_events", "unit_cost", "devices"]
    upstream = {"base_url": f"http://127.0.0.1:{UNUSED_PORT}", "keys": [TELEMETRY], "unused_lanes": lanes}
    with GatewayProcess(tmp_path, config={"upstream": upstream}) as gateway:
        status = gateway.status()["lanes"]
        assert {
            name: (lane["state"], lane["pending"]) for name, lane in status.items() if name in lanes
        } == dict.fromkeys(lanes, ("off", 0))
        file = str(tmp_path / "config.yaml")
        before = named(run_telemetry_gateway("doctor", "--config", file, "--json"))
        assert [x["what"] for x in before if x["what"].startswith("lane ")] == []
        assert httpx.post(f"{gateway.intake_url}/v1/events", json={"title": "a", "source": "b"}).status_code == 202
        after = {x["what"]: x for x in named(run_telemetry_gateway("doctor", "--config", file, "--json"))}
        assert "take usage_events out of upstream.unused_lanes" in after["lane usage_events"]["remedy"], (
            "it would expire"
        )
        assert gateway.stop() == 0
        assert "lane off" not in gateway.process.log_tail(100_000)


def shown(pair: Pair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    return context


def with_upstream(setup: Setup, upstream: Upstream) -> Ended:
    setup.options["upstream"] = {"base_url": upstream.base_url, "keys": [TELEMETRY]}
    return setup.command("doctor", "--json")


def test_of_a_running_gateway_it_reports_lanes_and_refusals(tmp_path: Path) -> None:
    config = {"upstream": {"base_url": f"http://127.0.0.1:{UNUSED_PORT}", "keys": [TELEMETRY]}}
    with GatewayProcess(tmp_path, config=config) as gateway:
        file = str(tmp_path / "config.yaml")
        quiet = named(run_telemetry_gateway("doctor", "--config", file, "--json"))
        assert any(x["what"] == "senders" and "none has sent anything" in x["text"] for x in quiet)
        with httpx.Client(base_url=gateway.intake_url) as client:
            assert client.post("/v1/trace", json={}).status_code == 404
            refused = named(run_telemetry_gateway("doctor", "--config", file, "--json"))
            assert [x["text"] for x in refused if "sent anything" in x["text"]] == [], "its requests were refused"
            assert client.post("/v1/events", json={"title": "a", "source": "b"}).status_code == 202
        ended = run_telemetry_gateway("doctor", "--config", file, "--json")
        assert ended.code == 1
        found = {x["what"]: x for x in named(ended)}
        assert "off, 1 record waits: no configured key grants" in found["lane usage_events"]["text"]
        assert "add a key with events_v1:create_event" in found["lane usage_events"]["remedy"]
        assert "1 request on a path that is not served from 127.0.0.1" in found["senders"]["text"]
        assert "404 (not_found)" in found["senders"]["text"]
        (sender,) = run_telemetry_gateway("senders", "--warning", "refused", "--config", file, "--json").json["senders"]
        assert [each["remedy"] for each in sender["warnings"]] == [
            "correct its path: `sources` lists those that there are"
        ]
        assert gateway.stop() == 0


def test_a_sound_gateway_has_no_faults(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        ended = run_telemetry_gateway("doctor", "--config", str(tmp_path / "config.yaml"))
        assert ended.code == 0, ended.out
        assert "FAULT" not in ended.out
        sound = [line.split(maxsplit=1)[1] for line in ended.out.splitlines() if line.endswith(": as `run` needs it")]
        assert sound == [f"{part}: as `run` needs it" for part in REMEDIES if f"{part}: as `run` needs it" in sound]
        assert len(sound) > 5, "in one order at every run"
        assert f"gateway: process {gateway.process.pid} answers" in ended.out
        assert f"reader: {described(READER, WHY_NOT)}" in " ".join(ended.out.split())
        assert gateway.stop() == 0


async def test_at_a_hub_it_names_the_edges_and_those_that_fell_silent(tmp_path: Path) -> None:
    async with gateway_pair(tmp_path) as pair:
        control = pair.hub.data_dir / "control.db"

        def edges(change: str | None = None) -> int:
            with closing(sqlite3.connect(control)) as connection, connection:
                where = "WHERE kind = 'gateway' AND origin <> 'gateway'"
                if change is not None:
                    return connection.execute(f"UPDATE devices SET {change} {where}").rowcount
                return int(connection.execute(f"SELECT count(*) FROM devices {where}").fetchone()[0])

        def found() -> list[Any]:
            ended = run_telemetry_gateway("doctor", "--config", str(tmp_path / "hub/config.yaml"), "--json")
            return [x for x in json.loads(ended.out)["findings"] if x["what"] == "edges"]

        await asyncio.to_thread(pair.hub.start)
        assert await asyncio.to_thread(found) == []
        edge = pair.edge(profile="server")
        await asyncio.to_thread(edge.start)
        await until_true(lambda: edges() == 1, what="the edge enrolled at the hub")
        (sound,) = await asyncio.to_thread(found)
        assert sound["level"] == "ok"
        assert sound["text"].startswith("1 gateway forwards to this one; version ")
        edge.kill()
        pair.hub.kill()
        assert edges("state = 'offline'") == 1
        await asyncio.to_thread(pair.hub.start)
        _, silent = await asyncio.to_thread(found)
        assert silent["level"] == "warning"
        assert "is silent since" in silent["text"]
        assert silent["remedy"] == "start it, or look at its network: what it holds is forwarded when it is back"
        pair.hub.kill()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("server:/export /srv/data nfs4 rw 0 0", "nfs4"),
        ("/dev/sda1 /srv/data ext4 rw 0 0", None),
        ("//files/share /srv/data\\040b cifs rw 0 0", None),
    ],
)
def test_a_network_file_system_is_known_by_the_mount_that_is_nearest(tmp_path: Path, line: str, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/root / ext4 rw 0 0\n{line}\n")
    assert doctor_probes.network_file_system(Path("/srv/data/gateway"), mounts) == kind


def test_a_collector_that_listens_is_well_and_one_of_an_unknown_authority_is_not(setup: Setup) -> None:
    pair = Authority(setup.folder / "tls").signed("collector")
    with socket.create_server(("127.0.0.1", 0)) as plain, tls_server(shown(pair)) as port:
        setup.options["exporters"] = {
            "plain": {"type": "otlp", "endpoint": f"http://127.0.0.1:{plain.getsockname()[1]}"},
            "secret": {"type": "otlp", "endpoint": f"https://127.0.0.1:{port}"},
        }
        found = {x["what"]: x for x in json.loads(setup.command("doctor", "--json").out)["findings"]}
    assert found["exporter plain"]["level"] == "ok"
    assert found["exporter secret"]["level"] == "fault"
    assert "its certificate is not trusted" in found["exporter secret"]["text"]
    assert "ca_file" in found["exporter secret"]["remedy"]


@contextmanager
def tls_server(context: ssl.SSLContext) -> Iterator[int]:
    """Takes TLS connections, and closes them; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with suppress(OSError), context.wrap_socket(connection, server_side=True):
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
