"""What a source of another distribution imports (docs/plugins.md). These names stay where they are
when modules behind them move. An exporter imports `exporters.base` and `spool.record`.
"""

from gateway.products.documents import Document
from gateway.products.reporting import Report
from gateway.products.rows import CALL, IGNORED, Row, RowTable, rows_reader
from gateway.products.source import Snippet, Source, SourceRead
from gateway.rules.context import Context
from gateway.rules.conventions.table import Convention, exclusive, inclusive, unstated
from gateway.rules.extract import Extracted

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
