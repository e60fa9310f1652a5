"""63-bit fingerprints of names, the same in every process and on every replica. Pure."""

from functools import lru_cache
from hashlib import blake2b
from typing import Final

_MASK = (1 << 63) - 1


@lru_cache(maxsize=4096)
def fingerprint(*parts: str) -> int:
    """63 bits over *parts*; their boundaries count."""
    digest = blake2b(digest_size=8)
    for part in parts:
        data = part.encode("utf-8", "replace")
        digest.update(len(data).to_bytes(4, "big"))
        digest.update(data)
    return int.from_bytes(digest.digest(), "big") & _MASK


def source_fingerprint(service_name: str, instance: str) -> int:
    """The sender of a report: its `service.name` and its
    `service.instance.id`, else its `session.id`.
    """
    return fingerprint("source", service_name, instance)


def scope_fingerprint(name: str) -> int:
    """The instrumentation scope of a report."""
    return fingerprint("scope", name)


def log_scope_fingerprint(name: str, rank: int = 0) -> int:
    """The instrumentation scope of a report that a log makes: another than that of the scope's
    spans, so both may be of one call.

    So may the logs of one scope that are different ways to report it; *rank* distinguishes them.
    """
    return fingerprint("log scope", name, str(rank)) if rank else fingerprint("log scope", name)


FORWARDED_AGGREGATE: Final = fingerprint("scope", "records", "aggregate")
"""In the place of the scope of an aggregate that another gateway made."""
