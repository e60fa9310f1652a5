"""Webhooks reach no link-local address and no metadata service, whatever name leads there, unless
their configuration says so.
"""

from ipaddress import ip_address

import pytest
from structlog.testing import capture_logs

from exporters.secret import Secret
from gateway.usage.budgets import addresses
from gateway.usage.budgets.addresses import METADATA, is_link_local
from gateway.usage.budgets.delivering import DEFAULT
from gateway.usage.budgets.webhook import Webhook
from tests.unit.usage.budgets.test_book import KEY, Receiver, Rig, receivers, rig, until_called

__all__ = ["receivers", "rig"]

NUMBERS = ("0xA9FEA9FE", "0xa9.254.0xa9fe")
"""169.254.169.254 as a resolver reads it; other ways to write it are no URL to the client."""


@pytest.mark.parametrize(
    "host",
    [
        *("169.254.169.254", "169.254.170.2", "fe80::1", "fe80::1%eth0", *sorted(map(str, METADATA))),
        *("::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::ffff:100.100.100.200", "::169.254.169.254"),
        *("64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"),
    ],
)
def test_link_local_addresses_and_metadata_services_are_known_in_every_form(host: str) -> None:
    assert is_link_local(host)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "::1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "fd00::1", "203.0.113.1", "::", "hooks.example"],
)
def test_loopback_private_and_public_addresses_are_not_among_them(host: str) -> None:
    assert not is_link_local(host)


@pytest.mark.parametrize("host", [*NUMBERS, "[::ffff:169.254.169.254]", "169.254.169.254"])
async def test_a_webhook_that_leads_there_is_not_called_and_the_log_says_why(rig: Rig, host: str) -> None:
    rig.webhooks[DEFAULT] = Webhook(Secret(f"http://{host}/latest"), KEY)
    await rig.start()
    core = await rig.create()
    await rig.spend("5")
    with capture_logs() as lines:
        await until_called(rig, "retried")
    (reason,) = {line["reason"] for line in lines if line["event"] == "the webhook of a budget was not taken"}
    assert "link_local: true" in reason
    assert host not in reason
    (alert,) = (await rig.ask("GET", f"/{core}"))["budget"]["alerts"]
    assert alert["webhook"]["outcome"] == "pending"


@pytest.fixture
def named(receivers: tuple[Receiver, ...], monkeypatch: pytest.MonkeyPatch) -> Receiver:
    """A receiver at a name, whose addresses are among those that are refused."""
    monkeypatch.setattr(addresses, "METADATA", METADATA | {ip_address("127.0.0.1"), ip_address("::1")})
    receiver = receivers[3]
    url = receiver.webhook.url.reveal().replace("127.0.0.1", "localhost")
    receiver.webhook = Webhook(Secret(url), KEY)
    return receiver


async def test_a_name_is_checked_by_the_address_that_is_connected_to(rig: Rig, named: Receiver) -> None:
    rig.webhooks[DEFAULT] = named.webhook
    await rig.start()
    await rig.create()
    await rig.spend("5")
    await until_called(rig, "retried")
    assert named.seen == []


async def test_one_whose_configuration_says_so_is_called_there(rig: Rig, named: Receiver) -> None:
    rig.webhooks[DEFAULT] = Webhook(named.webhook.url, KEY, link_local=True)
    await rig.start()
    await rig.create()
    await rig.spend("5")
    await until_called(rig, "delivered")
    assert len(named.seen) == 1


async def test_a_redirect_to_another_address_is_not_followed(rig: Rig, receivers: tuple[Receiver, ...]) -> None:
    to, from_ = receivers[3], receivers[1]
    from_.redirect = to.webhook.url.reveal()
    rig.webhooks[DEFAULT] = from_.webhook
    await rig.start()
    await rig.create()
    await rig.spend("5")
    await until_called(rig, "retried")
    assert to.seen == []
