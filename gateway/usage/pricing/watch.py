"""The operator's price file, read again while the gateway runs."""

from pathlib import Path

import structlog

from gateway.common.contract.errors import CannotStart
from gateway.usage.pricing.file import PriceFile
from gateway.usage.pricing.own import BadPriceFile
from gateway.usage.pricing.prices import Prices

log = structlog.get_logger()


class PriceFileWatch:
    """Reads *file* again when it changes; a bad one is logged, and the last good one stays."""

    def __init__(self, file: PriceFile) -> None:
        self._file = file

    async def run_maintenance(self) -> None:
        try:
            is_changed = self._file.is_changed()
        except OSError as error:
            log.warning("price file not used", fault=str(error))
            return
        if is_changed:
            self.reload()

    def reload(self) -> None:
        """Read the file again, changed or not."""
        try:
            self._file.read()
        except (BadPriceFile, OSError) as error:
            log.warning("price file not used", fault=str(error))
        else:
            log.info("price file read")


def open_prices(path: Path | None, *, has_list: bool) -> tuple[Prices, PriceFileWatch | None]:
    """The prices of a configuration, with the operator's own file where there is one. Raises
    CannotStart.
    """
    prices = Prices(has_list=has_list)
    try:
        return prices, None if path is None else PriceFileWatch(PriceFile(path, prices))
    except (BadPriceFile, OSError) as error:
        raise CannotStart(f"pricing.file {path}: {error}") from error
