"""What a source of another distribution imports (docs/plugins.md). These names stay where they are
when modules behind them move. An exporter imports `exporters.base` and `spool.record`.
"""

from gateway.normalise.context import Context
from gateway.normalise.conventions.table import Convention, exclusive, inclusive, unstated
from gateway.normalise.extract import Extracted
from gateway.sources.documents import Document
from gateway.sources.reporting import Report
from gateway.sources.rows import CALL, IGNORED, Row, RowTable, rows_reader
from gateway.sources.source import Snippet, Source, SourceRead

__all__ = [
    "CALL",
    "IGNORED",
    "Context",
    "Convention",
    "Document",
    "Extracted",
    "Report",
    "Row",
    "RowTable",
    "Snippet",
    "Source",
    "SourceRead",
    "exclusive",
    "inclusive",
    "rows_reader",
    "unstated",
]
