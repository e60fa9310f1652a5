"""The log of a proxy: one JSON object a call."""

from gateway.plugin import (
    CALL,
    IGNORED,
    Convention,
    Extracted,
    Row,
    RowTable,
    Snippet,
    Source,
    rows_reader,
    unstated,
)

EXAMPLE = Convention(
    "example-proxy",
    own={
        "provider": ("vendor",),
        "request_model": ("model",),
        "input": ("tokens.in",),
        "output": ("tokens.out",),
        "team": ("tags.team",),
    },
    basis=unstated,
)


def outcome(row: Row, picked: Extracted) -> str:
    return CALL if "model" in row else IGNORED


TABLE = RowTable(
    EXAMPLE, outcome, items=("calls",), start=("at",), duration=("took_ms",), event_id=("id",), operation="chat"
)

SOURCE = Source(
    name="example-proxy",
    title="Example proxy",
    read=rows_reader(TABLE),
    snippet=Snippet("yaml", "log_url: {url}\nlog_key: {key}\n"),
    retries="It sends a log that was not answered 2xx again, for an hour.",
)
