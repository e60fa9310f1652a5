"""The corpus of captured payloads: scenarios with their request
bodies and what is expected of them.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

CORPUS = Path(__file__).parent.parent / "data" / "corpus"

CANARY = "CANARY-7Q"
"""Stands in every prompt, completion, tool argument and error message of the corpus."""


class Payload(NamedTuple):
    signal: str
    """`traces`, `logs` or `metrics`."""
    is_json: bool
    body: bytes
    """Decompressed; a gRPC body without its frame."""


class Scenario(NamedTuple):
    name: str
    """`<collection>/<client>/<scenario>`."""
    meta: dict[str, Any]
    payloads: tuple[Payload, ...]

    def __repr__(self) -> str:
        return self.name


def scenarios(signal: str) -> Iterator[Scenario]:
    """Every scenario that has a payload of *signal*, with those payloads only."""
    for path in sorted(CORPUS.glob("*/*/*.meta.json")):
        meta = json.loads(path.read_text("utf-8"))
        found = tuple(
            _payload(path.parent, entry) for entry in meta.get("payloads") or [meta] if _signal(entry) == signal
        )
        if found:
            yield Scenario(str(path.relative_to(CORPUS)).removesuffix(".meta.json"), meta, found)


def _signal(entry: dict[str, Any]) -> str:
    return entry.get("signal") or str(entry.get("path")).rpartition("/")[2]


def _payload(folder: Path, entry: dict[str, Any]) -> Payload:
    body = (folder / entry["file"]).read_bytes()
    if entry.get("content_encoding") == "gzip":
        body = gzip.decompress(body)
    return Payload(_signal(entry), "json" in (entry.get("content_type") or ""), body)
