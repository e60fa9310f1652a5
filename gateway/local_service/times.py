"""RFC 3339 in, milliseconds since 1970 out. Pure."""

from datetime import UTC, datetime

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def parse_ms(text: str) -> int | None:
    """ISO 8601 date or date and time; without an offset it is UTC. None when it is neither."""
    time = _parse(text)
    return None if time is None else round(time.timestamp() * 1000)


def parse_utc(text: str) -> datetime | None:
    """The same, as a time in UTC; None also where UTC would leave the years 1 to 9999."""
    try:
        time = _parse(text)
        return None if time is None else time.astimezone(UTC)
    except OverflowError:
        return None


def _parse(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
