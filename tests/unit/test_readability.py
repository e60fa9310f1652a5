"""What `python -m tests.readability` counts as a sentence and as a word of the pages."""

from pathlib import Path

import pytest

from tests.readability import LONG, cells, pages, prose, words

PAGE = """\
# A heading is no sentence

The gateway keeps a record, e.g. `spool.db`. `--json` prints it! See [the page](a/very/long/address.md)
of 1.5 pages.

- **Key**: any header.
- A list item without a full stop

```sh
telemetry-gateway run   # Code is no prose. None of it.
```

| option | means |
|---|---|
| `auth` | Open until the first key. Then by key. |
| `port` | a name |
"""


def test_prose_is_the_sentences_of_paragraphs_and_lists() -> None:
    assert prose(PAGE).sentences == (
        "The gateway keeps a record, e.g. Code.",
        "Code prints it!",
        "See the page of 1.5 pages.",
        "Key: any header.",
        "A list item without a full stop",
    )


def test_the_mean_is_words_a_sentence() -> None:
    assert prose(PAGE).mean == (7 + 3 + 6 + 3 + 7) / 5


def test_a_sentence_of_more_than_25_words_is_long() -> None:
    assert prose(" ".join(["word"] * 25) + ". " + " ".join(["Word"] * 26) + ".").long_share == 0.5


def test_a_cell_counts_where_it_has_a_sentence() -> None:
    assert cells(PAGE).sentences == ("Open until the first key.",)


def test_a_page_without_prose_has_no_long_sentences() -> None:
    assert prose("# Title\n") == ((),)
    assert prose("# Title\n").long_share == prose("# Title\n").mean == 0


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_pages_have_short_sentences(page: Path) -> None:
    """One long sentence is allowed on a page of any length."""
    found = prose(page.read_text())
    long = [sentence for sentence in found.sentences if words(sentence) > LONG]
    assert found.mean < 15
    assert len(long) <= max(1, 0.05 * len(found.sentences)), "\n".join(long)
