"""What one gateway sends another: the envelope `ai-telemetry/1` of the service's
contract around records. Pure.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from gateway.common.contract.ai_telemetry import ENVELOPE_SCHEMA
from gateway.products.documents import Document, documents_in
from gateway.products.items import at

_INDEX: Final = re.compile(r"records\[(\d+)\]")


class Opened(NamedTuple):
    """Documents of one gateway."""

    gateway_id: str
    """"" where the documents are in no envelope, or in one that names no gateway."""
    documents: Sequence[Document]


def opened(documents: Iterable[Document]) -> Iterator[Opened]:
    """The records of each envelope; any other document as it is."""
    for document in documents:
        value = document.value
        if isinstance(value, dict) and value.get("schema") == ENVELOPE_SCHEMA:
            records, gateway_id = value.get("records"), value.get("gateway_id")
            where = partial(at, document.position)
            inside = (
                [Document(where(f"records[{index}]"), record) for index, record in enumerate(records)]
                if isinstance(records, list)
                else [Document(where("records"), records)]
            )
            yield Opened(gateway_id if isinstance(gateway_id, str) else "", inside)
        else:
            yield Opened("", [document])


def index_of(position: str) -> int | None:
    """Which record of an envelope stands at *position*; None where it is of no
    envelope, or of one beside others.
    """
    found = _INDEX.match(position)
    return None if found is None else int(found[1])


def positions_in(body: bytes) -> dict[str, list[str]]:
    """Record id -> where the records of that id stand in the envelope *body*, in order."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    every = (document for each in opened(documents_in(body).found) for document in each.documents)
    for position, value in every:
        record_id = value.get("record_id") if isinstance(value, dict) else None
        if isinstance(record_id, str):
            found[record_id].append(position)
    return found
