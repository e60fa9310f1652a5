"""The operator's price file on disk: read at start, and again when it changes. A bad file keeps the
last good one.
"""

from pathlib import Path

from gateway.usage.pricing.own import BadPriceFile, OwnPrices, parse_price_file
from gateway.usage.pricing.prices import Prices

_Stamp = tuple[int, int, int]
"""(mtime in ns, size, inode)"""


class PriceFile:
    """Keeps *prices* in step with the file at *path*. Logs nothing: see `watch`."""

    def __init__(self, path: Path, prices: Prices) -> None:
        """Raises BadPriceFile, OSError: at start a bad file is a fault of the configuration."""
        self._path = path
        self._prices = prices
        self._stamp: _Stamp | None = None
        self.read()

    def is_changed(self) -> bool:
        """Whether its time, size or inode changed since it was read. Raises OSError."""
        return _stamp(self._path) != self._stamp

    def read(self) -> None:
        """Use the file as it is now. Raises BadPriceFile, OSError; the prices then stay."""
        self._stamp = _stamp(self._path)
        self._prices.use(self._parsed())

    def _parsed(self) -> OwnPrices:
        try:
            return parse_price_file(self._path.read_text("utf-8"))
        except UnicodeDecodeError:
            raise BadPriceFile("not UTF-8") from None


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
