"""A sign-in that is under way, kept by the browser that began it: sealed in a cookie. So nobody
fills the gateway's memory, and no other browser ends it.
"""

import base64
import hmac
import json
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Final, NamedTuple

LIFE_S: Final = 600.0
MAX_USED: Final = 10_000
_SECRET_BYTES: Final = 32


class Pending(NamedTuple):
    state: str
    nonce: str
    verifier: str
    """Of PKCE, RFC 7636."""
    then: str
    """Path that follows."""
    ends_s: float

    @property
    def challenge(self) -> str:
        return without_padding(sha256(self.verifier.encode()).digest())


class PendingSeals:
    """Makes and opens the cookie's value. *now_s* is monotonic: a restart ends all of them."""

    def __init__(self, now_s: Callable[[], float], random_bytes: Callable[[int], bytes]) -> None:
        self._now_s = now_s
        self._random_bytes = random_bytes
        self._key = random_bytes(_SECRET_BYTES)
        self._used: OrderedDict[str, None] = OrderedDict()
        """States, each of which ends one sign-in."""

    def begin(self, then: str) -> tuple[Pending, str]:
        """A new one, and the value of its cookie."""
        state, nonce, verifier = (without_padding(self._random_bytes(_SECRET_BYTES)) for _ in range(3))
        pending = Pending(state, nonce, verifier, then, self._now_s() + LIFE_S)
        text = without_padding(json.dumps(pending).encode())
        return pending, f"{text}.{self._proof(text)}"

    def finish(self, cookie: str, state: str) -> Pending | None:
        """The one that *cookie* holds, once; None for another state, a cookie of others, and one
        that was used or is too old.
        """
        if not (cookie.isascii() and state.isascii()):
            return None
        text, _, proof = cookie.partition(".")
        if not hmac.compare_digest(proof.encode(), self._proof(text).encode()):
            return None
        pending = Pending(*json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))))
        is_same = hmac.compare_digest(pending.state.encode(), state.encode())
        if not is_same or pending.ends_s <= self._now_s() or pending.state in self._used:
            return None
        self._used[pending.state] = None
        while len(self._used) > MAX_USED:
            self._used.popitem(last=False)
        return pending

    def _proof(self, text: str) -> str:
        return hmac.digest(self._key, text.encode(), "sha256").hex()


def without_padding(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
