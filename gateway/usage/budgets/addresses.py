"""Addresses that a webhook is not to reach: link-local ones, and the services of clouds that state
a machine's credentials. Pure.

Loopback and private networks are not among them: receivers are there. A name is looked up only
when it is connected to, so the address is checked then.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

WHAT: Final = "a link-local address or a cloud's metadata service"

METADATA: Final = frozenset(
    map(
        ip_address,
        (
            "100.100.100.200",  # Alibaba Cloud
            "168.63.129.16",  # Azure
            "192.0.0.192",  # Oracle Cloud
            "fd00:ec2::23",  # AWS, of containers
            "fd00:ec2::254",  # AWS
            "fd00:c1::a9fe:a9fe",  # Oracle Cloud
            "fd00:42::42",  # Scaleway
            "fd20:ce::254",  # Google Cloud
        ),
    )
)
"""Beyond 169.254.0.0/16 and fe80::/10."""
_NAT64: Final = IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = IPv6Network("::/96")


def is_link_local(host: str) -> bool:
    """Whether *host* is such an address, also within an IPv6 address; False for a name."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return any(each.is_link_local or each in METADATA for each in _meant(address))


def _meant(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """*address*, without its zone, and the IPv4 address that it may hold."""
    if isinstance(address, IPv4Address):
        yield address
        return
    yield IPv6Address(int(address))
    embedded = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64 or address in _COMPATIBLE:
        embedded.append(IPv4Address(int(address) & 0xFFFFFFFF))
    yield from (each for each in embedded if each is not None)
