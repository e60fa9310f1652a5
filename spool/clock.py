"""Times and ids as the spool writes them. Pure: the clock and the random bits come in."""

from datetime import UTC, datetime
from functools import lru_cache


def rfc3339_ms(wall_ms: int) -> str:
    """RFC 3339 UTC with milliseconds."""
    seconds, ms = divmod(wall_ms, 1000)
    return f"{_second(seconds)}.{ms:03d}Z"


def ms_of(time: str) -> int:
    """Milliseconds since the epoch of an RFC 3339 text. Raises ValueError, OverflowError."""
    return int(datetime.fromisoformat(time).timestamp() * 1000)


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    """To the second: most times that are written are of this one or the last few."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()


def uuid7(wall_ms: int, random_bytes: bytes) -> str:
    """UUIDv7 (RFC 9562 §5.7) from the time and 10 random bytes."""
    value = (wall_ms & (1 << 48) - 1) << 80 | int.from_bytes(random_bytes[:10], "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
