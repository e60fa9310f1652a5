"""Admin operations called without a listener: by method and path, on a store."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from gateway.operate.operation import Operation

S = TypeVar("S")


async def perform(
    operations: Sequence[Operation[S, Any]],
    store: S,
    method: str,
    path: str,
    *,
    query: Sequence[tuple[str, str]] = (),
    body: Mapping[str, Any] | None = None,
) -> Any:
    for operation in operations:
        found = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", operation.path), path)
        if found is not None and operation.method == method:
            return await operation.handler(store, operation.call(path=found.groupdict(), query=query, fields=body))
    raise LookupError(f"{method} {path}")


def scopes_of(operations: Sequence[Operation[Any, Any]]) -> dict[tuple[str, str], str]:
    """(method, path) -> scope, of those that have one."""
    return {(each.method, each.path): each.scope for each in operations if each.scope is not None}
