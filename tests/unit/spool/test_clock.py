"""Times as the spool and the answers write them."""

import pytest

from spool.clock import rfc3339_ms


@pytest.mark.parametrize(
    ("wall_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_767_607_201_250, "2026-01-05T10:00:01.250Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_has_four_digits_of_year_milliseconds_and_z(wall_ms: int, text: str) -> None:
    assert rfc3339_ms(wall_ms) == text
