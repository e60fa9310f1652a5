"""The pepper: 32 random bytes in a file of their own, without which the stored hashes of keys prove
nothing.
"""

import re
from pathlib import Path

from gateway.access.errors import PepperMismatch
from gateway.access.key import RandomBytes
from gateway.common.storage.private_files import read_or_create

PEPPER_BYTES = 32


def load_pepper(path: Path, random_bytes: RandomBytes) -> bytes:
    """The pepper at *path*, made on first use. Kept as hex with a line end, so that people can back
    it up by hand.
    """
    text = read_or_create(path, lambda: random_bytes(PEPPER_BYTES).hex().encode() + b"\n").strip()
    if re.fullmatch(rb"[0-9a-f]{64}", text) is None:
        raise PepperMismatch(f"{path.name} does not hold a pepper of 64 hex digits")
    return bytes.fromhex(text.decode())
