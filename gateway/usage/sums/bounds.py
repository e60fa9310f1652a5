"""How much is kept of usage.

Hours are kept for `KEPT_HOURS`, UTC days for `KEPT_DAYS`. Bounds: on the series of each period
(`grains.py`), on all rows (`MAX_HOUR_ROWS`, `MAX_DAY_ROWS`) and on names (`MAX_NAMES`). Beyond the
bound on rows the oldest hours are deleted, down to `LEAST_HOURS`, and the oldest days are folded as
series are; the sums of a day never change by that.

The hours of the detectors are kept apart: `KEPT_HISTORY_HOURS` of at most `MAX_SERIES` series each
(further ones of an hour are summed as "(other)"), and `MAX_MODELS` models, each for `MODEL_HOURS`
after its last call.
"""

from typing import Final

KEPT_HOURS: Final = 35 * 24
LEAST_HOURS: Final = 9 * 24
KEPT_DAYS: Final = 400
SUMMED_HOURS: Final = LEAST_HOURS
"""Hours that are summed by one dimension too; questions about older ones read their series."""
MAX_HOUR_ROWS: Final = 900_000
MAX_DAY_ROWS: Final = 800_000

MAX_NAMES: Final = 200_000
MAX_NAMES_WITH_MANY: Final = 150_000
"""From here on users and devices have no new names, so that they leave room for models, keys, …"""
ROOM_FOR_CURRENCIES: Final = 20_000
"""Names beyond `MAX_NAMES`: room for every word of three letters."""
MAX_TAG_SETS: Final = 20_000
"""Sets of tags of one call; the tags of further ones are other."""
MAX_TAG_SET_BYTES: Final = 2_000
"""Of one set as text: longer ones are other. An index of Postgres takes 2,704 bytes."""

KEPT_HISTORY_HOURS: Final = 9 * 24
"""A day to look at, a week before it to compare with, and one to spare."""
MAX_SERIES: Final = 500
MAX_MODELS: Final = 10_000
MODEL_HOURS: Final = 30 * 24
"""A model that was not called for so long is new when it comes back."""

MAX_GROUPS: Final = 500
"""Of one page of an answer."""
MAX_VERSIONS: Final = 50
"""Of one model in an answer."""
