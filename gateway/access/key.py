"""One key's secret: mint, parse, hash, compare, show. Pure; randomness comes in as an argument.

Form: `<prefix>_<id: 10>_<secret: 43>_<crc: 6>`, base62 in every part. The CRC-32 covers all that
stands before its underscore, so that a typo or a scanner's false hit is recognised without a
look-up. The store holds HMAC-SHA256(pepper, whole text): the secret has 256 random bits, so a fast
hash is enough, and a copied database without the pepper file proves no guess.
"""

import hashlib
import hmac
import re
import zlib
from collections.abc import Callable
from typing import NamedTuple, final

from exporters.secret import Secret

GATEWAY_PREFIX = "tgk"
"""Keys that senders use towards the gateway."""
SERVICE_PREFIX = "csk"
"""Keys of the cost management service's stand-in."""

RandomBytes = Callable[[int], bytes]
"""n -> n random bytes; `secrets.token_bytes` outside of tests."""

ID_CHARS = 10
SECRET_CHARS = 43
"""43 base62 characters hold 256 bits."""
CRC_CHARS = 6

LEGACY_MIN_CHARS = 16
"""A shorter one could be guessed."""
LEGACY_MAX_CHARS = 256

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_UNBIASED = 256 - 256 % len(_ALPHABET)
"""Bytes from here on are discarded, else the alphabet's first characters would be more frequent."""
_FORM = re.compile(
    rf"([a-z]{{2,8}})_([0-9A-Za-z]{{{ID_CHARS}}})_[0-9A-Za-z]{{{SECRET_CHARS}}}_([0-9A-Za-z]{{{CRC_CHARS}}})"
)


@final
class Minted(NamedTuple):
    key_id: str
    secret: Secret


def mint(prefix: str, random_bytes: RandomBytes) -> Minted:
    """A new key; the only moment at which its secret is known."""
    key_id = new_id(random_bytes)
    body = f"{prefix}_{key_id}_{_base62_text(SECRET_CHARS, random_bytes)}"
    return Minted(key_id, Secret(f"{body}_{_crc(body)}"))


def new_id(random_bytes: RandomBytes) -> str:
    return _base62_text(ID_CHARS, random_bytes)


def id_number(key_id: str) -> int:
    """The id as a whole number below 2**63, one to one."""
    number = 0
    for char in key_id:
        number = number * len(_ALPHABET) + _ALPHABET.index(char)
    return number


def parse(prefix: str, text: str) -> str | None:
    """The key id in *text*, or None when it cannot be a key of ours: other prefix, other form,
    wrong CRC.
    """
    form = _FORM.fullmatch(text)
    if form is None or form[1] != prefix:
        return None
    return form[2] if _crc(text[: -CRC_CHARS - 1]) == form[3] else None


def legacy_fault(text: str) -> str | None:
    """Why *text* cannot be a key from before there were several; None when it can. Never quotes
    it.
    """
    if re.fullmatch(rf"[!-~]{{{LEGACY_MIN_CHARS},{LEGACY_MAX_CHARS}}}", text) is None:
        return f"{LEGACY_MIN_CHARS} to {LEGACY_MAX_CHARS} printable ASCII characters without blanks are needed"
    if text.startswith((f"{GATEWAY_PREFIX}_", f"{SERVICE_PREFIX}_")):
        return "it begins like a key of ours: those are made here, not brought along"
    return None


def keyed_hash(pepper: bytes, text: str) -> bytes:
    """The stored hash of a secret: 32 bytes."""
    return hmac.digest(pepper, text.encode(), hashlib.sha256)


def matches(pepper: bytes, text: str, stored: bytes) -> bool:
    """Whether *stored* is the hash of *text*, in constant time."""
    return hmac.compare_digest(keyed_hash(pepper, text), stored)


def display_form(secret: Secret) -> str:
    """`tgk_<id>_…last4`: enough to recognise a key. The last four are of the CRC, so no secret
    character shows.
    """
    text = secret.reveal()
    prefix, key_id, _ = text.split("_", 2)
    return f"{prefix}_{key_id}_…{text[-4:]}"


def _base62_text(length: int, random_bytes: RandomBytes) -> str:
    chars: list[str] = []
    while len(chars) < length:
        chars += [_ALPHABET[byte % len(_ALPHABET)] for byte in random_bytes(length) if byte < _UNBIASED]
    return "".join(chars[:length])


def _crc(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits = []
    for _ in range(CRC_CHARS):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
