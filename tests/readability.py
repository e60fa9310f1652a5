"""How hard the pages are to read: `python -m tests.readability [--longest N] [PAGE ...]` prints the
words a sentence and the share of sentences over 25 words, of prose and of the cells of tables.

Prose is paragraphs and items of lists. Headings, code blocks and HTML are not counted. Inline code
is one word, a link is its text. A cell with fewer than four words holds a name, not a sentence.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT: Final = Path(__file__).parents[1]
LONG: Final = 25
"""Words; a sentence with more is long."""
LEAST_CELL: Final = 4

_MARKDOWN: Final = MarkdownIt("commonmark").enable("table")
_PROSE: Final = ("paragraph_open",)
_CELL: Final = ("td_open",)
_ENDS: Final = re.compile(r"(?<!e\.g\.)(?<!i\.e\.)(?<=[.!?…])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9])")
_CODE: Final = "Code"
"""What inline code counts as: one word, which may begin a sentence."""


class Readability(NamedTuple):
    sentences: tuple[str, ...]

    @property
    def mean(self) -> float:
        """Words a sentence; 0 without a sentence."""
        return sum(map(words, self.sentences)) / len(self.sentences) if self.sentences else 0.0

    @property
    def long_share(self) -> float:
        """The share of sentences over `LONG` words, 0 to 1."""
        return sum(words(each) > LONG for each in self.sentences) / len(self.sentences) if self.sentences else 0.0


def prose(markdown: str) -> Readability:
    return Readability(tuple(_sentences(_texts(markdown, _PROSE))))


def cells(markdown: str) -> Readability:
    found = _sentences(_texts(markdown, _CELL))
    return Readability(tuple(each for each in found if words(each) >= LEAST_CELL))


def words(sentence: str) -> int:
    return sum(any(map(str.isalnum, word)) for word in sentence.split())


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _texts(markdown: str, within: tuple[str, ...]) -> Iterator[str]:
    """The text of each inline element that follows a token of these types."""
    tokens = _MARKDOWN.parse(markdown)
    for before, token in pairwise(tokens):
        if token.type == "inline" and before.type in within:
            yield "".join(map(_text, token.children or ()))


def _text(token: Token) -> str:
    match token.type:
        case "text":
            return token.content
        case "code_inline":
            return _CODE
        case "softbreak" | "hardbreak":
            return " "
        case _:
            return ""


def _sentences(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from filter(words, _ENDS.split(text))


def _row(name: str, *columns: Readability) -> str:
    figures = "".join(f"{len(c.sentences):>8}{c.mean:>7.1f}{c.long_share:>7.1%}" for c in columns)
    return f"{name:<34}{figures}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="all pages without one")
    parser.add_argument("--longest", type=int, default=0, metavar="N", help="also print the N longest sentences")
    chosen = parser.parse_args()
    texts = {page: page.read_text() for page in chosen.pages or pages()}
    whole = [Readability(tuple(each for t in texts.values() for each in of(t).sentences)) for of in (prose, cells)]
    lines = [f"{'':<34}{'prose':>8}{'words':>7}{f'> {LONG}':>7}{'cells':>8}{'words':>7}{f'> {LONG}':>7}"]
    lines += [_row(str(page.resolve().relative_to(ROOT)), prose(text), cells(text)) for page, text in texts.items()]
    lines.append(_row("all", *whole))
    longest = sorted((each for column in whole for each in column.sentences), key=words, reverse=True)
    lines += [f"\n{words(each)}: {each}" for each in longest[: chosen.longest]]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
