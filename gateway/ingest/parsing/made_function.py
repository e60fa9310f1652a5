"""Functions made from source text, as `collections.namedtuple` makes its classes. Pure.

The text holds names of ours only. What a payload states comes in as an argument of the function
that makes the function, so functions of one text share their code.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

_MAX_SOURCES: Final = 1024


def made(signature: str, lines: Iterable[str], constants: Mapping[str, Any]) -> Callable[..., Any]:
    """The function with that *signature* (`name(arguments)`) and those *lines*, which may use the
    names of *constants* and the builtins.
    """
    make = _maker(signature, "\n".join(f"        {line}" for line in lines), tuple(constants))
    return make(*constants.values())  # type: ignore[no-any-return]  # of our own text


@lru_cache(maxsize=_MAX_SOURCES)
def _maker(signature: str, body: str, names: tuple[str, ...]) -> Callable[..., Any]:
    source = f"def make({', '.join(names)}):\n    def {signature}:\n{body}\n    return {signature.partition('(')[0]}\n"
    namespace: dict[str, Any] = {}
    exec(compile(source, "<made>", "exec"), namespace)  # noqa: S102 - of our own text
    return namespace["make"]  # type: ignore[no-any-return]
