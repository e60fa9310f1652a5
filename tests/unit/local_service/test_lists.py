"""The pager on SQLite against the one in memory: the same page for every request."""

import json
import sqlite3
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.list_conventions import Filterable, ListShape, Page, Sort, envelope, page_of, read_request
from gateway.local_service.call import Call
from gateway.local_service.lists import ListTable, list_answer

Row = tuple[int, str | None, int]
SHAPE = ListShape(
    root="stones",
    sort_keys=("colour", "size"),
    default_sort=Sort("size", "asc"),
    filters=(Filterable("colour", ("red", "green")),),
)
TABLE = ListTable(
    shape=SHAPE,
    source="stones",
    row_id="stone_no",
    expressions={"colour": "ifnull(colour, '')", "size": "size"},
    select="stone_no",
    item_of=lambda row: row[0],
)
CALL = Call("GET", "/stones", {}, (), b"", 0, "")
ROWS = st.lists(st.tuples(st.sampled_from(["red", "green", None]), st.integers(0, 3)), max_size=12)


def field_of(row: Row, name: str) -> str | int:
    return (row[1] or "") if name == "colour" else row[2]


@given(
    rows=ROWS,
    limit=st.integers(1, 5),
    key=st.sampled_from(["colour", "size"]),
    order=st.sampled_from(["asc", "desc"]),
    colours=st.sets(st.sampled_from(["red", "green"])),
    steps=st.lists(st.sampled_from(["next_cursor", "previous_cursor"]), max_size=6),
)
def test_both_pagers_agree_on_every_walk(
    rows: list[tuple[str | None, int]], limit: int, key: str, order: str, colours: set[str], steps: list[str]
) -> None:
    stones: list[Row] = [(number, *row) for number, row in enumerate(rows, 1)]
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE stones (stone_no INTEGER PRIMARY KEY, colour TEXT, size INTEGER)")
    connection.executemany("INSERT INTO stones VALUES (?, ?, ?)", stones)
    query = [("limit", str(limit)), ("sort_key", key), ("sort_order", order), *(("colour", each) for each in colours)]
    for step in [*steps, None]:
        request = read_request(SHAPE, query)
        page: Page = page_of(request, stones, field_of=field_of, id_of=lambda row: row[0], item_of=lambda row: row[0])
        expected = json.loads(json.dumps(envelope(SHAPE, request, page)))
        assert json.loads(list_answer(connection, TABLE, replace(CALL, query=tuple(query))).body) == expected
        cursor = expected["pagination"]["cursor"][step] if step else None
        if cursor is not None:
            query = [("cursor", cursor)]
    connection.close()
