"""A list by the conventions as a page shows it: the links lead through the whole list."""

from urllib.parse import parse_qsl, urlsplit

from gateway.common.lists.conventions import Filterable, ListShape, Sort, envelope, read_request
from gateway.common.lists.memory import page_of
from gateway.operate.site.listing import Choice, Listing, listing

SHAPE = ListShape(
    root="rows",
    sort_keys=("name", "size"),
    default_sort=Sort("name", "asc"),
    filters=(
        Filterable("kind", ("a", "b")),
        Filterable("colour", tuple("cdefghi")),
        Filterable("text", (), is_open=True),
    ),
)
ROWS = [{"name": f"row {number}", "size": -number, "kind": "ab"[number % 2]} for number in range(5)]


def shown(url: str) -> Listing:
    """The list at *url*, as the page has it."""
    request = read_request(SHAPE, parse_qsl(urlsplit(url).query))
    kept = [row for row in ROWS if row["kind"] in request.filters.get("kind", ("a", "b"))]
    page = page_of(request, kept, field_of=lambda row, name: row.get(name, "x"), id_of=ROWS.index, item_of=dict)
    return listing("/rows", envelope(SHAPE, request, page), shown=("kind", "colour", "text"))


def names(found: Listing) -> list[object]:
    return [row["name"] for row in found.items]


def test_the_links_lead_through_the_list_and_back() -> None:
    first = shown("/rows?limit=2&sort_key=size")
    assert (names(first), first.total_count, first.previous) == (["row 4", "row 3"], 5, None)
    second = shown(first.next or "")
    assert names(second) == ["row 2", "row 1"]
    assert names(shown(second.next or "")) == ["row 0"]
    assert names(shown(second.previous or "")) == ["row 4", "row 3"]


def test_a_column_sorts_up_and_then_down_and_keeps_the_filters() -> None:
    found = shown("/rows?kind=a")
    assert found.sorts["name"].order == "ascending"
    turned = shown(found.sorts["name"].url)
    assert names(turned) == ["row 4", "row 2", "row 0"]
    assert turned.sorts["name"].order == "descending"
    by_size = shown(turned.sorts["size"].url)
    assert (by_size.sorts["size"].order, by_size.sorts["name"].order) == ("ascending", None)
    assert by_size.current == [("kind", "a")]


def test_few_values_are_boxes_many_a_menu_and_none_a_text() -> None:
    kind, colour, text = shown("/rows?kind=b&text=x").filters
    assert (kind.kind, kind.choices) == ("boxes", (Choice("a", is_chosen=False), Choice("b", is_chosen=True)))
    assert colour.kind == "menu"
    assert (text.kind, text.typed) == ("text", "x")


def test_what_the_form_does_not_show_it_keeps() -> None:
    request = read_request(SHAPE, [("kind", "a"), ("text", "x"), ("sort_key", "size")])
    page = page_of(request, [], field_of=lambda row, name: 0, id_of=lambda row: 0, item_of=dict)
    found = listing("/rows", envelope(SHAPE, request, page), shown=("kind",))
    assert set(found.kept) == {("sort_key", "size"), ("sort_order", "asc"), ("text", "x")}
    assert found.is_filtered
