"""Payloads of the corpus, damaged at random: the same of the same random numbers."""

import gzip
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from tests.support.corpus import Payload, scenarios

LARGEST_BYTES = 64 * 1024
PUZZLING = (
    *(b"\xff", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", b"\0", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(b"null", b"NaN", b"1e999", b"-0", b"9" * 400, b'"\\ud83d"', b"[[[[", b"{}", b'""', b","),
)
"""Put in anywhere: ends of varints, halves of characters, JSON that is not quite."""


class Damaged(NamedTuple):
    signal: str
    is_json: bool
    body: bytes


def damaged_payloads(random: Random, *, with_json: bool) -> Iterator[Damaged]:
    """Without end."""
    corpus = [
        payload
        for signal in ("traces", "logs", "metrics")
        for scenario in scenarios(signal)
        for payload in scenario.payloads
        if len(payload.body) <= LARGEST_BYTES and (with_json or not payload.is_json)
    ]
    while True:
        payload = random.choice(corpus)
        body = payload.body
        for _ in range(random.choice((0, 1, 1, 1, 1, 2, 5))):
            body = random.choice(DAMAGES)(body, random, corpus)
        yield Damaged(payload.signal, payload.is_json, body)


def zipped(body: bytes, random: Random) -> bytes:
    """As gzip, one in five of it damaged."""
    made = gzip.compress(body, 1)
    return random.choice((flipped, cut, without))(made, random, []) if random.random() < 0.2 else made


Damage = Callable[[bytes, Random, list[Payload]], bytes]


def flipped(body: bytes, random: Random, corpus: list[Payload]) -> bytes:
    """One to four bytes become others."""
    made = bytearray(body)
    for _ in range(random.randint(1, 4) if made else 0):
        made[random.randrange(len(made))] = random.randrange(256)
    return bytes(made)


def cut(body: bytes, random: Random, corpus: list[Payload]) -> bytes:
    return body[: random.randint(0, len(body))]


def without(body: bytes, random: Random, corpus: list[Payload]) -> bytes:
    """A stretch is gone."""
    at = random.randint(0, len(body))
    return body[:at] + body[at + random.randint(1, 64) :]


def repeated(body: bytes, random: Random, corpus: list[Payload]) -> bytes:
    """A stretch comes several times."""
    at = random.randint(0, len(body))
    end = at + random.randint(1, 256)
    return body[:end] + body[at:end] * random.randint(1, 20) + body[end:]


def interrupted(body: bytes, random: Random, corpus: list[Payload]) -> bytes:
    """Something puzzling is put in."""
    at = random.randint(0, len(body))
    return body[:at] + random.choice(PUZZLING) + body[at:]


def joined(body: bytes, random: Random, corpus: list[Payload]) -> bytes:
    """The beginning of one payload, the end of another."""
    other = random.choice(corpus).body
    return body[: random.randint(0, len(body))] + other[random.randint(0, len(other)) :]


def renumbered(body: bytes, random: Random, corpus: list[Payload]) -> bytes:
    """A digit of a text, or a length, grows or shrinks by one."""
    made = bytearray(body)
    if made:
        at = random.randrange(len(made))
        made[at] = (made[at] + random.choice((-1, 1))) % 256
    return bytes(made)


DAMAGES: tuple[Damage, ...] = (flipped, cut, without, repeated, interrupted, joined, renumbered)
