"""Why a text is no YAML, in words that quote nothing of it, and where. Pure.

The library's own words hold parts of values, such as the rest of a secret that begins with `*`.
"""

from typing import Any, Final, NamedTuple

import yaml

Where = tuple[int, int]
"""Line and column, from 1."""


class _Reason(NamedTuple):
    problem: str
    """Part of the library's words."""
    words: str
    is_at_context: bool = False
    """Whether the fault is where the construct began, not where the library gave up."""


_QUOTES: Final = "put the value in quotes"
_REASONS: Final = (
    _Reason(r"found character '\t'", "a tab is here: YAML is indented and aligned with blanks only"),
    _Reason("that cannot start any token", f"no value can begin with this character: {_QUOTES}"),
    _Reason("found undefined alias", f"a value that begins with * refers to another one: {_QUOTES}"),
    _Reason("constructor for the tag", f"a value that begins with ! is a tag: {_QUOTES}"),
    _Reason("second occurrence", f"a value that begins with & names an anchor, and this one is named twice: {_QUOTES}"),
    _Reason("unhashable key", "a group in braces cannot be the name of an option: put `{{ … }}` in quotes"),
    _Reason(
        "mapping values are not allowed",
        "no `:` can be here: put a value that holds `: ` in quotes, write a blank after each option's colon, and indent the"
        " options of a group alike",
    ),
    _Reason("sequence entries are not allowed", "a list begins on a line of its own, below its option"),
    _Reason("could not find expected ':'", "this line has no `: `: write `name: value`", is_at_context=True),
    _Reason("unexpected end of stream", "the quote that is opened here is not closed", is_at_context=True),
    _Reason("unknown escape", "in double quotes a backslash begins an escape: use single quotes, or two backslashes"),
    _Reason("escape sequence", "in double quotes a backslash begins an escape: use single quotes, or two backslashes"),
    _Reason(
        "expected ',' or '}'", "the { that is opened here is not closed, or a comma is missing", is_at_context=True
    ),
    _Reason(
        "expected ',' or ']'", "the [ that is opened here is not closed, or a comma is missing", is_at_context=True
    ),
    _Reason("found '<stream end>'", "the file ends within a list or a group in brackets"),
    _Reason(
        "expected <block end>", "this line is indented unlike the options of its group, or the line above is not whole"
    ),
    _Reason("another document", "a second document begins here (`---`): a configuration is one"),
    _Reason("for merging", "`<<` takes a group of options, which begins with *"),
    _Reason("indentation indicators", f"after | or > the text begins on the next line: {_QUOTES}"),
    _Reason("expected the node content", f"no value can begin with this character: {_QUOTES}"),
)


class Loader(yaml.SafeLoader):
    """As `yaml.SafeLoader`; a value that cannot be is a YAMLError with its place."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - the library's
        """Raises YAMLError."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, AttributeError, OverflowError):  # a date or a number that cannot be
            raise yaml.constructor.ConstructorError(problem="value", problem_mark=node.start_mark) from None


def reason_of(error: yaml.YAMLError, text: str) -> tuple[str, Where | None]:
    """Why *text* is not valid YAML, and where."""
    if isinstance(error, yaml.reader.ReaderError):
        code = ord(error.character) if isinstance(error.character, str) else error.character
        return f"the character U+{code:04X} is not allowed in YAML", where_of(text, error.position)
    if not isinstance(error, yaml.MarkedYAMLError):
        return "the file is not valid YAML", None
    for reason in _REASONS:
        if reason.problem in repr(error.problem) or reason.problem in (error.problem or ""):
            mark = error.context_mark if reason.is_at_context and error.context_mark else error.problem_mark
            return reason.words, mark_of(mark)
    if error.problem == "value":
        return f"no date or number is written so: {_QUOTES}", mark_of(error.problem_mark)
    return "this is not valid YAML", mark_of(error.problem_mark)


def mark_of(mark: yaml.Mark | None) -> Where | None:
    return None if mark is None else (mark.line + 1, mark.column + 1)


def where_of(text: str, position: int) -> Where:
    """Of a character of *text*."""
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
