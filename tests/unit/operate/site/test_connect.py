"""What to paste into a sender, with the addresses of the gateway that shows it."""

from pathlib import Path

import pytest

from gateway.config.loader import load_config
from gateway.config.values import TcpAddress, UnixAddress
from gateway.fleet.senders.first_call import FirstCall
from gateway.operate.parts import Running
from gateway.operate.role import Role
from gateway.operate.sender_addresses import Addresses, addresses
from gateway.operate.site import connect
from gateway.operate.site.connect import connected
from gateway.products.catalogue import SOURCES
from gateway.products.otlp_senders import OTLP_SENDERS
from tests.support.shown import shown, text_of

AT = Addresses("https://gw.example:4318/otlp", "gw.example:4317", "https", ())
FORM = {"first": None, "key_name": "a new key", "is_open": False, "operators": ()}
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
    page = text_of(shown(connect.DETAIL, {**context, **FORM}))
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


def test_a_first_call_is_shown_with_what_it_became_and_what_to_do() -> None:
    call = {"provider": "openai", "model": "gpt-4o", "input_tokens": 1200, "cache_read_input_tokens": None}
    call |= {"output_tokens": 3, "cost": None, "service": "checkout", "source": "otlp.traces", "status": "ok"}
    first = FirstCall("without_usage", "A call arrived without tokens.", "have it report tokens", call)
    context = {**connected("litellm", AT, "tgk_secret"), **FORM, "first": first}
    page = text_of(shown(connect.DETAIL, context))
    assert "A call arrived without tokens. Model openai gpt-4o Tokens 1,200 input, 3 output Cost unknown" in page
    assert "Have it report tokens" in page
    assert 'Authorization: "tgk_secret"' in page
    assert "Create the key" not in page


def test_a_viewer_is_offered_no_key() -> None:
    page = shown(connect.DETAIL, {**connected("litellm", AT), **FORM}, Role.VIEWER)
    assert "Create the key" not in page
    assert "<form" not in page.partition("<main")[2]
