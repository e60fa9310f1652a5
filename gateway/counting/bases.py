"""What instrumentations proved of their input: whether it holds the cached tokens. Pure.

Some calls prove it by their own numbers, or by another report of the same call (`rules.usage`,
`calls.merge`). What they prove is remembered for the instrumentation (scope, its version,
provider), by the inbound key under which it was proved. A call of the same instrumentation that
proves nothing is read in the same way:

1. as its own key's calls proved it;
2. without any such proof, as those of other keys did, while they all agree.

Proofs that contradict each other show nothing: the call keeps its flag `basis_assumed`. The
senders of one key never change what another key proved for itself.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from spool.record import Record

_T = TypeVar("_T")

MAX_LEARNT: Final = 1024
"""Instrumentations by key, some 1 KiB each; the one proved longest ago is forgotten first."""
MAX_OF_KEY: Final = 128
"""Of one key, so that its senders cannot make those of others forgotten."""
RENEW_MS: Final = 60_000
"""A proof that shows what is known already is written down this often."""


class Instrumentation(NamedTuple):
    """Who reports, and whose calls."""

    library: str
    """Name of the instrumentation scope, or of the format that a source reads."""
    version: str
    """ "" where none is stated."""
    provider: str


class LearntBy(NamedTuple):
    instrumentation: Instrumentation
    key: str
    """Name of the inbound key; "" on open intake."""


@dataclass(slots=True)
class Proofs:
    """Calls that were seen to prove what the input holds; of many alike only some are looked at."""

    scope: int
    """Fingerprint of the instrumentation scope, as the ledger knows it."""
    inclusive: int = 0
    """Input that holds the cached tokens."""
    exclusive: int = 0
    """Input that leaves them out."""
    last_ms: int = 0
    is_changed: bool = True
    """Whether it is to be written down."""
    written_ms: int = 0

    @property
    def excludes(self) -> bool | None:
        """None where they contradict each other."""
        return None if self.inclusive and self.exclusive else self.exclusive > 0


def learnt_by(record: Record) -> LearntBy | None:
    """None for a record that names no instrumentation or no provider: nothing can be learnt for
    it. A format that is no OTLP is an instrumentation by itself.
    """
    source, provider = record["source"], record["provider"]
    library = source["library"] or ("" if source["format"].startswith("otlp.") else source["convention"])
    if not library or provider is None:
        return None
    who = Instrumentation(library, source["library_version"] or "", provider)
    return LearntBy(who, record["attribution"].get("key") or "")


class LearntBases:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._proofs: dict[LearntBy, Proofs] = {}
        """The one that was proved last is the last one."""
        self._keys: dict[Instrumentation, set[str]] = {}
        self._of_key: Counter[str] = Counter()
        self._scopes: Counter[int] = Counter()
        self.gone: list[LearntBy] = []
        """Forgotten, and not yet deleted where they are kept."""

    def __len__(self) -> int:
        return len(self._proofs)

    def knows(self, scope: int) -> bool:
        """Whether anything was learnt of calls of *scope*."""
        return self._scopes[scope] > 0

    def note(self, by: LearntBy, scope: int, *, excludes: bool, now_ms: int) -> None:
        """A call proved that the input *excludes* the cached tokens, or holds them."""
        proofs = self._proofs.get(by) or Proofs(scope)
        is_news = not (proofs.exclusive if excludes else proofs.inclusive)
        if excludes:
            proofs.exclusive += 1
        else:
            proofs.inclusive += 1
        proofs.last_ms = now_ms
        if is_news or not 0 <= now_ms - proofs.written_ms < RENEW_MS:
            proofs.is_changed = True
        self._keep(by, proofs)

    def restore(self, rows: Iterable[tuple[LearntBy, Proofs]]) -> None:
        """Take back what was written down, in the order in which it was proved."""
        for by, proofs in rows:
            self._keep(by, proofs)

    def excludes(self, by: LearntBy) -> bool | None:
        """Whether the input of such calls excludes the cached tokens; None where nothing shows it,
        or proofs contradict each other.
        """
        own = self._proofs.get(by)
        if own is not None:
            return own.excludes
        others = self._keys.get(by.instrumentation, ())
        shown = {self._proofs[by._replace(key=key)].excludes for key in others}
        return shown.pop() if len(shown) == 1 else None

    def all(self) -> Iterator[tuple[LearntBy, Proofs]]:
        """Everything that is remembered, the one that was proved longest ago first."""
        yield from self._proofs.items()

    def changed(self) -> list[tuple[LearntBy, Proofs]]:
        """What is to be written down."""
        return [(by, proofs) for by, proofs in self._proofs.items() if proofs.is_changed]

    def _keep(self, by: LearntBy, proofs: Proofs) -> None:
        if by in self._proofs:
            self._forget(by)
        self._proofs[by] = proofs
        self._keys.setdefault(by.instrumentation, set()).add(by.key)
        self._of_key[by.key] += 1
        self._scopes[proofs.scope] += 1
        if self._of_key[by.key] > MAX_OF_KEY:
            oldest = next(each for each in self._proofs if each.key == by.key)
        elif len(self._proofs) > MAX_LEARNT:
            oldest = next(iter(self._proofs))
        else:
            return
        self._forget(oldest)
        self.gone.append(oldest)

    def _forget(self, by: LearntBy) -> None:
        proofs = self._proofs.pop(by)
        _count_off(self._of_key, by.key)
        _count_off(self._scopes, proofs.scope)
        keys = self._keys[by.instrumentation]
        keys.discard(by.key)
        if not keys:
            del self._keys[by.instrumentation]


def _count_off(counts: "Counter[_T]", each: _T) -> None:
    counts[each] -= 1
    if not counts[each]:
        del counts[each]
