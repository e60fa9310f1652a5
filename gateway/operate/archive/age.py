"""The age format with a passphrase, version 1 (https://age-encryption.org/v1): `age -d FILE` opens
what is written here.

Header: a random file key, wrapped by a key that scrypt makes of the passphrase, and a MAC of the
header. Payload: a nonce, then chunks of 64 KiB, each with its own tag and number; the last one is
marked, so that a file cut short is noticed.
"""

import base64
import os
import re
from typing import BinaryIO, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import constant_time, hashes, hmac
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from exporters.secret import Secret

MAGIC: Final = b"age-encryption.org/v1\n"
CHUNK_BYTES: Final = 64 << 10
TAG_BYTES: Final = 16
WORK_FACTOR: Final = 17
"""2 to this power is scrypt's N: 128 MiB and half a second."""
MAX_WORK_FACTOR: Final = 20
"""1 GiB of memory; a file that asks for more is refused."""
MAX_HEADER_BYTES: Final = 1024

_SCRYPT_LABEL = b"age-encryption.org/v1/scrypt"
_HEADER = re.compile(
    rb"age-encryption\.org/v1\n-> scrypt ([A-Za-z0-9+/]{22}) ([1-9][0-9]?)\n([A-Za-z0-9+/]{43})\n--- ([A-Za-z0-9+/]{43})\n"
)
_NO_NONCE = bytes(12)


class Undecipherable(ValueError):
    """A wrong passphrase, or bytes that were changed or cut."""


class Encrypting:
    """A stream that writes age to *out*. `close` ends it; without, the file is unreadable."""

    def __init__(self, out: BinaryIO, passphrase: Secret, *, work_factor: int = WORK_FACTOR) -> None:
        file_key, salt, nonce = os.urandom(16), os.urandom(16), os.urandom(16)
        wrapped = ChaCha20Poly1305(_wrap_key(passphrase, salt, work_factor)).encrypt(_NO_NONCE, file_key, None)
        header = b"%s-> scrypt %s %d\n%s\n---" % (MAGIC, _text(salt), work_factor, _text(wrapped))
        out.write(b"%s %s\n" % (header, _text(_mac(file_key, header))))
        out.write(nonce)
        self._out = out
        self._cipher = ChaCha20Poly1305(_derived(file_key, nonce, b"payload"))
        self._chunk = 0
        self._waiting = bytearray()

    def write(self, data: bytes) -> int:
        self._waiting += data
        while len(self._waiting) > CHUNK_BYTES:  # the last chunk is not empty, so a full one waits
            self._put(bytes(self._waiting[:CHUNK_BYTES]), is_last=False)
            del self._waiting[:CHUNK_BYTES]
        return len(data)

    def close(self) -> None:
        self._put(bytes(self._waiting), is_last=True)

    def _put(self, chunk: bytes, *, is_last: bool) -> None:
        self._out.write(self._cipher.encrypt(_nonce(self._chunk, is_last=is_last), chunk, None))
        self._chunk += 1


class Decrypting:
    """Reads what *source*, an age file from its beginning, holds."""

    def __init__(self, source: BinaryIO, passphrase: Secret) -> None:
        """Raises Undecipherable."""
        header = source.read(MAX_HEADER_BYTES)
        found = _HEADER.match(header)
        if found is None:
            raise Undecipherable("it is not an age file for a passphrase, or its header was changed")
        salt, work_factor, wrapped, mac = _bytes(found[1]), int(found[2]), _bytes(found[3]), _bytes(found[4])
        if work_factor > MAX_WORK_FACTOR:
            raise Undecipherable(f"its work factor is {work_factor}, more than {MAX_WORK_FACTOR}")
        try:
            file_key = ChaCha20Poly1305(_wrap_key(passphrase, salt, work_factor)).decrypt(_NO_NONCE, wrapped, None)
        except InvalidTag:
            raise Undecipherable("the passphrase is wrong, or the header was changed") from None
        if not constant_time.bytes_eq(mac, _mac(file_key, header[: found.start(4) - 1])):
            raise Undecipherable("the header was changed")
        source.seek(found.end())
        self._source = source
        self._cipher = ChaCha20Poly1305(_derived(file_key, _exactly(source, 16), b"payload"))
        self._chunk = 0
        self._plain = b""
        self._next = source.read(CHUNK_BYTES + TAG_BYTES)
        self._is_over = False

    def read(self, size: int) -> bytes:
        """Up to *size* bytes; none at the end. Raises Undecipherable."""
        while not self._plain and not self._is_over:
            self._take()
        taken, self._plain = self._plain[:size], self._plain[size:]
        return taken

    def _take(self) -> None:
        chunk, self._next = self._next, self._source.read(CHUNK_BYTES + TAG_BYTES)
        is_last = not self._next
        try:
            self._plain = self._cipher.decrypt(_nonce(self._chunk, is_last=is_last), chunk, None)
        except InvalidTag:
            where = self._chunk * CHUNK_BYTES
            raise Undecipherable(f"it was changed or cut short, at byte {where} of its content or after") from None
        self._chunk += 1
        self._is_over = is_last


def _wrap_key(passphrase: Secret, salt: bytes, work_factor: int) -> bytes:
    scrypt = Scrypt(_SCRYPT_LABEL + salt, length=32, n=1 << work_factor, r=8, p=1)
    return scrypt.derive(passphrase.reveal().encode())


def _derived(file_key: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(hashes.SHA256(), length=32, salt=salt, info=info).derive(file_key)


def _mac(file_key: bytes, header: bytes) -> bytes:
    mac = hmac.HMAC(_derived(file_key, b"", b"header"), hashes.SHA256())
    mac.update(header)
    return mac.finalize()


def _nonce(chunk: int, *, is_last: bool) -> bytes:
    return chunk.to_bytes(11, "big") + bytes([is_last])


def _text(raw: bytes) -> bytes:
    return base64.b64encode(raw).rstrip(b"=")


def _bytes(text: bytes) -> bytes:
    """Raises Undecipherable for bits that no encoder sets."""
    raw = base64.b64decode(text + b"=" * (-len(text) % 4))
    if _text(raw) != text:
        raise Undecipherable("the header was changed")
    return raw


def _exactly(source: BinaryIO, size: int) -> bytes:
    found = source.read(size)
    if len(found) != size:
        raise Undecipherable("it was cut short")
    return found
