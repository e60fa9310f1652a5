"""Rows as CSV, NDJSON and Parquet.

In CSV a text that a spreadsheet would take for a formula gets an apostrophe before it, as OWASP
advises: names come from senders.
"""

import csv
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import IO, Any, Final

import orjson

from gateway.usage.export.rows import Row
from gateway.usage.sums.figures import EXACT, money_text
from gateway.usage.sums.tally import COST, SUM_NAMES

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_COUNTS: Final = frozenset({*SUM_NAMES[:COST], *(f"previous_{name}" for name in SUM_NAMES[:COST])})
_DECIMALS: Final = {"cost": 18, "estimated_cost": 18, "previous_cost": 18, "cost_difference": 18, "cost_percent": 2}
"""Column -> digits after the point."""


class NoParquet(Exception):
    """The library for it is not installed; the text states what to install."""


def write_csv(to: IO[bytes], columns: Sequence[str], rows: Iterable[Row]) -> None:
    """RFC 4180 with a head; unknown is empty."""
    to.write(_line(columns))
    for row in rows:
        to.write(_line([_cell(row[name]) for name in columns]))


def write_ndjson(to: IO[bytes], columns: Sequence[str], rows: Iterable[Row]) -> None:
    """A JSON object a line; unknown is null, money is text."""
    for row in rows:
        to.write(orjson.dumps({name: _json(row[name]) for name in columns}) + b"\n")


def write_parquet(to: IO[bytes], columns: Sequence[str], rows: Iterable[Row]) -> None:
    """One row group a batch; money is decimal128(38, 18), times are UTC. Raises NoParquet."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise NoParquet("Parquet needs pyarrow: pip install 'ai-telemetry-gateway[parquet]'") from error
    types = {name: pa.decimal128(38, scale) for name, scale in _DECIMALS.items()}
    fields = [pa.field(name, types.get(name, pa.int64() if name in _COUNTS else pa.string())) for name in columns]
    schema = pa.schema(fields)
    with pq.ParquetWriter(to, schema) as writer:
        for batch in _batches(rows):
            arrays = [
                pa.array([_exact(name, row[name]) for row in batch], field.type)
                for name, field in zip(columns, fields, strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


WRITERS: Final = {"csv": write_csv, "ndjson": write_ndjson, "parquet": write_parquet, "focus": write_csv}


def _line(cells: Sequence[str]) -> bytes:
    lines = _Lines()
    csv.writer(lines, lineterminator="\r\n").writerow(cells)
    return lines.text.encode()


class _Lines:
    """Takes what csv writes."""

    text = ""

    def write(self, text: str) -> None:
        self.text += text


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Decimal):
        return money_text(value)
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(FORMULA) else text


def _json(value: object) -> object:
    return money_text(value) if isinstance(value, Decimal) else value


def _exact(name: str, value: Any) -> Any:
    if name not in _DECIMALS or value is None:
        return value
    return value.quantize(Decimal(1).scaleb(-_DECIMALS[name]), context=EXACT)


def _batches(rows: Iterable[Row], most: int = 10_000) -> Iterable[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == most:
            yield batch
            batch = []
    if batch:
        yield batch
