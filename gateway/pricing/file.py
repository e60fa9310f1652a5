"""The operator's price file on disk: read at start, and again when it changes. A bad file keeps the
last good one.
"""

from pathlib import Path

import structlog

from gateway.contract.errors import CannotStart
from gateway.pricing.own import BadPriceFile, OwnPrices, parse_price_file
from gateway.pricing.prices import Prices

log = structlog.get_logger()

_Stamp = tuple[int, int, int]
"""(mtime in ns, size, inode)"""


class PriceFile:
    """Keeps *prices* in step with the file at *path*."""

    def __init__(self, path: Path, prices: Prices) -> None:
        """Raises BadPriceFile, OSError: at start a bad file is a fault of the configuration."""
        self._path = path
        self._prices = prices
        self._stamp: _Stamp | None = _stamp(path)
        prices.use(self._read())

    async def run_maintenance(self) -> None:
        self.reload_if_changed()

    def reload(self) -> None:
        """Read the file again, changed or not; a bad one is logged and not used."""
        self._stamp = None
        self.reload_if_changed()

    def reload_if_changed(self) -> None:
        """Read the file again when its time, size or inode changed; a bad file is logged and not
        used.
        """
        try:
            stamp = _stamp(self._path)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            self._prices.use(self._read())
        except (BadPriceFile, OSError) as error:
            log.warning("price file not used", fault=str(error))
        else:
            log.info("price file read")

    def _read(self) -> OwnPrices:
        try:
            return parse_price_file(self._path.read_text("utf-8"))
        except UnicodeDecodeError:
            raise BadPriceFile("not UTF-8") from None


def open_prices(path: Path | None, *, has_list: bool) -> tuple[Prices, PriceFile | None]:
    """The prices of a configuration, with the operator's own file where there is one. Raises
    CannotStart.
    """
    prices = Prices(has_list=has_list)
    try:
        return prices, None if path is None else PriceFile(path, prices)
    except (BadPriceFile, OSError) as error:
        raise CannotStart(f"pricing.file {path}: {error}") from error


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
