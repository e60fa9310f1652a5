"""What to paste into a sender, with the addresses of the gateway that shows it."""

from pathlib import Path

import pytest

from gateway.admin.parts import Running
from gateway.admin.site import connect
from gateway.admin.site.connect import Addresses, addresses, connected
from gateway.config.loader import load_config
from gateway.config.values import TcpAddress, UnixAddress
from gateway.sources.catalogue import SOURCES
from gateway.sources.otlp_senders import OTLP_SENDERS
from tests.support.shown import shown, text_of

AT = Addresses("https://gw.example:4318/otlp", "gw.example:4317", "https", ())
PAGES = Path(__file__).parents[4] / "docs" / "senders"


def test_every_page_of_the_docs_is_there() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} - {"README"} == {*SOURCES, *OTLP_SENDERS}


@pytest.mark.parametrize("name", [*SOURCES, *OTLP_SENDERS])
def test_the_snippets_hold_the_address_and_a_placeholder_for_the_key(name: str) -> None:
    context = connected(name, AT)
    text = "".join(snippet["text"] for snippet in context["snippets"])
    assert "gw.example" in text
    assert "http://gw.example" not in text
    assert "{url}" not in text
    assert "{grpc}" not in text
    assert context["missing"] == ()
    page = text_of(shown(connect.DETAIL, context))
    for snippet in context["snippets"]:
        assert " ".join(snippet["text"].split()) in page


def test_a_listener_on_every_address_is_reached_by_the_name_of_the_page() -> None:
    config = load_config(None, {"http.base_path": "/otlp/"}, {})
    running = Running(config, TcpAddress("0.0.0.0", 4318), TcpAddress("127.0.0.1", 4317))
    assert addresses(running, "gw.example") == Addresses("http://gw.example:4318/otlp", "127.0.0.1:4317", "http", ())
    v6 = Running(config, TcpAddress("::", 4318), TcpAddress("::1", 4317))
    assert addresses(v6, "2001:db8::1")[:2] == ("http://[2001:db8::1]:4318/otlp", "[::1]:4317")


def test_a_listener_without_an_address_is_stated() -> None:
    running = Running(load_config(None, {}, {}), UnixAddress(Path("/run/gw.sock")), None)
    at = addresses(running, "gw.example")
    assert at.missing == ("listen.http is unix:/run/gw.sock", "listen.grpc is off")
    assert at.http == "http://GATEWAY"
