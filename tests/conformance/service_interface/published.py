"""What the service publishes, read from its own text: scopes, use cases, fields, statuses."""

import re
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "data" / "service_interface.md").read_text()

_SCOPE = re.compile(r"^- `([a-z0-9_-]+:[a-z0-9_-]+)`", re.MULTILINE)
_CATEGORY = re.compile(r"^\*\*(.+?)\*\*", re.MULTILINE)


def part(heading: str) -> str:
    """The text below *heading*, up to the next one of its level or above."""
    level = heading.split(" ", maxsplit=1)[0]
    _, found, rest = TEXT.partition(f"\n{heading}\n")
    assert found, heading
    return re.split(rf"\n#{{2,{len(level)}}} ", rest)[0]


def table_column(text: str, column: int = 0) -> list[str]:
    """A column of the first table in *text*, without the head."""
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [row.strip("|").split("|")[column].strip().strip("`") for row in rows]


def scopes_by_category() -> dict[str, list[str]]:
    _, found, listed = part("## 5. Authentication").partition("6. Fixed scopes, grouped by category.")
    assert found
    pieces = _CATEGORY.split(listed)
    return {name: _SCOPE.findall(text) for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}


SCOPES = scopes_by_category()
ALL_SCOPES = [scope for scopes in SCOPES.values() for scope in scopes]
USE_CASES = table_column(part("## 5. Authentication"))
INSIGHT_FIELDS = table_column(part("### 2.2 Insight (list item of the insights list)"))
INSIGHT_STATUSES = re.findall(r"`(\w+)`", part("### 3.2 Insight status"))
INSIGHT_SORT_KEYS = re.findall(r"`(\w+)`", re.search(r"For insights: (`.*?`)\. *\|", TEXT)[1])  # type: ignore[index]  # published
