"""The age format: what we write, another implementation opens, and the other way round."""

import io

import pytest
from pyrage import passphrase as other

from exporters.secret import Secret
from gateway.operate.archive.age import CHUNK_BYTES, Decrypting, Encrypting, Undecipherable

PHRASE = Secret("correct horse battery")
WORK_FACTOR = 4
SIZES = [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES]


def encrypted(plain: bytes, work_factor: int = WORK_FACTOR) -> bytes:
    out = io.BytesIO()
    stream = Encrypting(out, PHRASE, work_factor=work_factor)
    for at in range(0, len(plain), 10_000):
        stream.write(plain[at : at + 10_000])
    stream.close()
    return out.getvalue()


def decrypted(sealed: bytes, phrase: Secret = PHRASE) -> bytes:
    stream, found = Decrypting(io.BytesIO(sealed), phrase), b""
    while piece := stream.read(7_000):
        found += piece
    return found


@pytest.mark.parametrize("size", SIZES)
def test_another_implementation_opens_what_is_written(size: int) -> None:
    plain = bytes(i % 251 for i in range(size))
    assert other.decrypt(encrypted(plain), PHRASE.reveal()) == plain
    assert decrypted(encrypted(plain)) == plain


def test_what_another_implementation_wrote_is_opened() -> None:
    plain = bytes(2 * CHUNK_BYTES)
    assert decrypted(other.encrypt(plain, PHRASE.reveal())) == plain


def test_each_changed_byte_is_refused() -> None:
    sealed = encrypted(b"some bytes of a backup")
    for at in range(len(sealed)):
        changed = bytearray(sealed)
        changed[at] ^= 0x01
        with pytest.raises(Undecipherable):
            decrypted(bytes(changed))


def test_each_shortened_file_is_refused() -> None:
    sealed = encrypted(b"some bytes of a backup")
    for size in range(len(sealed)):
        with pytest.raises(Undecipherable):
            decrypted(sealed[:size])


def test_a_chunk_that_is_missing_repeated_or_moved_is_refused() -> None:
    sealed = encrypted(bytes(3 * CHUNK_BYTES))
    chunk = CHUNK_BYTES + 16
    head, chunks = sealed[: -3 * chunk], [sealed[len(sealed) - n * chunk :][:chunk] for n in (3, 2, 1)]
    for order in ([0, 1], [0, 2], [0, 0, 1, 2], [1, 0, 2], [0, 1, 2, 2]):
        with pytest.raises(Undecipherable):
            decrypted(head + b"".join(chunks[n] for n in order))


def test_a_wrong_passphrase_is_named_as_that() -> None:
    with pytest.raises(Undecipherable, match="the passphrase is wrong"):
        decrypted(encrypted(b"x"), Secret("another one"))


def test_a_file_that_asks_for_gigabytes_of_memory_is_refused() -> None:
    sealed = encrypted(b"x").replace(b" %d\n" % WORK_FACTOR, b" 30\n", 1)
    with pytest.raises(Undecipherable, match="work factor is 30"):
        decrypted(sealed)
