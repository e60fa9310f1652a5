"""A call of an admin operation: body checked, handler, line in the log; the same for the API and
for the forms of the page.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from gateway.access.operators import OPERATOR
from gateway.common.contract.reach import EVERYTHING, Reach
from gateway.operate.operation import AnyOperation, Note, OperationCall, always
from gateway.serve.authenticator import not_divisible

log = structlog.get_logger()


async def perform(
    operation: AnyOperation,
    store: Any,
    *,
    path: Mapping[str, str],
    query: Sequence[tuple[str, str]] = (),
    fields: Mapping[str, Any] | None = None,
    by: str = OPERATOR,
    is_admitted: Callable[[], bool] = always,
    reach: Reach = EVERYTHING,
) -> Mapping[str, Any] | None:
    """The answer of *operation* on *store*, None where it has no body; a change is logged. *reach*:
    what the caller sees.

    Raises what the body's model and the handler raise, and Forbidden where the answer cannot be
    divided by *reach*.
    """
    store = part_of(operation, store, reach)
    call = operation.call(path=path, query=query, fields=fields, by=by, is_admitted=is_admitted)
    result = await operation.handler(store, call)
    if result is not None and operation.note is not None:
        log_change(operation.note, call, result)
    return result


def part_of(operation: AnyOperation, store: Any, reach: Reach) -> Any:
    """What *operation* works on for a caller who sees *reach*. Raises Forbidden."""
    if not reach:
        return store
    if operation.limited is None:
        raise not_divisible(reach)
    return operation.limited(store, reach)


def log_change(note: Note, call: OperationCall[Any], result: Mapping[str, Any]) -> None:
    """The id and who asked; no name, which is free text of an operator."""
    changed = call.path.get("id") or result["id"]
    by = getattr(call.body, "by", None) or call.by
    log.info(note.event, what=note.what, by=by, **{note.id_name: changed})
