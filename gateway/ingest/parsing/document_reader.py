"""JSON documents of AI gateways, read by what their source's rules taught of their shapes. Pure.

A document that is known by its key (`gateway.ingest.parsing.document_values`) becomes record and
row by a function made of its lesson; any other is read by the rules, and its shape is learnt. What
documents share leaves the whole payload to the rules.
"""

import secrets
from collections.abc import Sequence
from threading import Lock
from time import thread_time_ns
from typing import Any, Final, Literal, NamedTuple

from gateway.common.varying import Computation
from gateway.contract.parsed_payload import ParsedPayload
from gateway.ingest.parsing.document_lessons import document_lesson
from gateway.ingest.parsing.document_values import Key, Profile, profile_of
from gateway.ingest.parsing.joining import joined
from gateway.ingest.parsing.lesson_code import DocumentRun, document_run_of
from gateway.ingest.parsing.lessons import Lesson, lesson_bytes, refusal
from gateway.ingest.parsing.parse import Parsed, ParseRules, Payload, parsed_calls, parsed_source
from gateway.normalise.context import Context
from gateway.normalise.templates import stand
from gateway.sources.documents import Document, Documents
from gateway.sources.reading import documents_of, read_found
from gateway.sources.source import Source

MAX_BYTES: Final = 32 * 1024 * 1024
"""Of lessons; with more, all are forgotten."""
MAX_NAMES: Final = 512
"""Of one document; with more, only the rules read it."""
MAX_VARIANTS: Final = 16
"""Lessons of one shape: each for another outcome of the conditions."""
FEW_GAPS: Final = 8
"""Of more, where they are most of what was read, the rules read all."""
LESSONS_EACH: Final = 4
LESSONS_NS: Final = 500_000_000
"""Time for lessons at the start, and the most that is saved up."""
LESSONS_NS_PER_BYTE: Final = 1
"""Time for lessons that a payload brings: a tenth of what the rules need to read it."""
ENTRY_BYTES: Final = 120


class _Learnt(NamedTuple):
    run: DocumentRun
    lesson: Lesson
    is_refused: bool = False
    """Whether the rules read the documents that it holds for."""


class _Names:
    """Documents with one list of names, from one sender."""

    __slots__ = ("profile", "shapes")

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.shapes: dict[tuple[Key, Key], tuple[_Learnt, ...]] = {}
        """Key and the types in it -> lessons."""


class _Use:
    """What the documents of one lesson come to in one payload."""

    __slots__ = ("learnt", "n", "sessions")

    def __init__(self, learnt: _Learnt) -> None:
        self.learnt = learnt
        self.n = 0
        self.sessions: dict[str | None, int] = {}
        """Session that varies -> tokens."""


class _Read(NamedTuple):
    """The documents of a payload that lessons read."""

    records: list[bytes]
    rows: list[bytes]
    uses: dict[int, _Use]
    gaps: list[tuple[int, Document]]
    """Calls before each, and the document."""


class DocumentReader:
    """Reads payloads of sources that state their leaves, in any thread."""

    def __init__(self, rules: ParseRules, *, lessons_ns: int = LESSONS_NS, max_bytes: int = MAX_BYTES) -> None:
        self.rules = rules
        self._stands = stand(secrets.token_bytes(32))
        self._known: dict[tuple[object, ...], _Names] = {}
        self._changes = rules.prices.changes
        self._lock = Lock()
        self._left_ns = self._most_ns = lessons_ns
        self._max_bytes = max_bytes
        self.bytes = 0
        """About how much takes what was learnt."""
        self.learnt = 0
        """Documents read by lessons."""

    def reads(self, payload: Payload) -> bool:
        """Whether `parse` takes *payload*."""
        source = self.rules.sources.get(payload.kind)
        return source is not None and bool(source.leaves) and not self.rules.prefer_metrics

    def parse(self, payload: Payload, context: Context) -> Parsed:
        """As `gateway.ingest.parsing.parse.parse`, byte for byte; raises as that does. Ask only
        where it `reads`.
        """
        source = self.rules.sources[payload.kind]
        documents = documents_of(source, payload.body, payload.first_line, context.limits)
        parsed = None
        if not documents.rejected and len(documents.found) <= context.limits.max_items:
            parsed = self._by_lessons(source, documents.found, context, len(payload.body))
        return parsed_source(read_found(source, documents, context), context, self.rules) if parsed is None else parsed

    def _by_lessons(
        self, source: Source, documents: Sequence[Document], context: Context, n_bytes: int
    ) -> Parsed | None:
        """None where the rules have to read all of it."""
        if self.rules.prices.changes != self._changes:
            self._forget()
        sender = source.name, *_sender(context)
        read, is_whole = self._read(sender, documents, context)
        gaps = read.gaps
        if is_whole:
            self._learn(source, sender, [document for _, document in gaps], context, n_bytes)
            return None
        self.learnt += len(documents) - len(gaps)
        silent = self.rules.prices.silent()
        rules = self.rules._replace(prices=silent)
        parts = [(n, self._by_rules(source, document, context, rules)) for n, document in gaps]
        if gaps:
            self._learn(source, sender, [document for _, document in gaps], context, n_bytes)
        known = [(n, 0, part) for n, part in parts if part is not None]
        if len(known) < len(parts):
            return None
        calls = _calls(read, len(documents) - len(gaps) + sum(part.items for *_, part in known))
        if calls.items > context.limits.max_items:
            return None
        if known:
            calls = joined(calls, known)._replace(rejected=[each for *_, part in known for each in part.rejected])
        for model, n in (*_unpriced(read.uses), *silent.unpriced.items()):
            self.rules.prices.note_unpriced(model, n)
        return Parsed(_reported_once(calls))

    def _read(self, sender: tuple[object, ...], documents: Sequence[Document], context: Context) -> tuple[_Read, bool]:
        """Also whether most of it is gaps; then the rest was not looked at."""
        read = _Read([], [], {}, [])
        add_record, add_row, uses = read.records.append, read.rows.append, read.uses
        received_ms, received_at = context.received_at_ms, context.received_at
        last: tuple[str, ...] = ()
        known: _Names | None = None
        use: _Use | None = None
        for number, document in enumerate(documents):
            value = document.value
            done = None
            if type(value) is dict:
                names = tuple(value)
                if names != last:
                    known, last = self._known.get((sender, names)), names
                seen = None if known is None else known.profile.values(value)
                if known is not None and seen is not None:
                    key, varying = seen
                    for learnt in _lessons(known, key):
                        done = learnt.run(varying, received_ms, received_at)
                        if done is not None:
                            use = _use_of(uses, learnt, use)
                            break
            if done is None or use is None or use.learnt.is_refused:
                read.gaps.append((len(read.records), document))
                if len(read.gaps) > FEW_GAPS and 2 * len(read.gaps) > number:
                    return read, True
                continue
            use.n += 1
            if done is not True:
                record, row, tokens, session = done
                add_record(record)
                add_row(row)
                use.sessions[session] = use.sessions.get(session, 0) + tokens
        return read, False

    def _by_rules(
        self, source: Source, document: Document, context: Context, rules: ParseRules
    ) -> ParsedPayload | None:
        """*document* by itself; None where it states something about others."""
        out = read_found(source, Documents([document], ()), context)
        if out.measured.items or out.threads or out.threads_of_calls or out.answer:
            return None
        return parsed_calls(out.calls, context, rules)

    # ---- lessons

    def _forget(self) -> None:
        """Prices changed, or too much was learnt."""
        self._changes = self.rules.prices.changes
        self._known = {}
        self.bytes = 0

    def _learn(
        self,
        source: Source,
        sender: tuple[object, ...],
        documents: Sequence[Document],
        context: Context,
        n_bytes: int,
    ) -> None:
        """Learn the shapes of some of *documents*, as long as there is time for it."""
        self._left_ns = min(self._left_ns + n_bytes * LESSONS_NS_PER_BYTE, self._most_ns)
        for document in documents[:LESSONS_EACH]:
            value = document.value
            if self._left_ns <= 0:
                return
            if isinstance(value, dict) and len(value) <= MAX_NAMES:
                began_ns = thread_time_ns()
                if not self._lock.acquire(blocking=False):
                    return  # another thread learns
                try:
                    self._teach(source, sender, document, context)
                finally:
                    self._lock.release()
                self._left_ns -= thread_time_ns() - began_ns

    def _teach(self, source: Source, sender: tuple[object, ...], document: Document, context: Context) -> None:
        value: Any = document.value
        names = tuple(value)
        known = self._known.get((sender, names))
        if known is None:
            if self.bytes >= self._max_bytes:
                self._forget()
            known = self._known[sender, names] = _Names(profile_of(names, source.leaves))
            self.bytes += 100 * ENTRY_BYTES + sum(map(len, names)) + ENTRY_BYTES * len(names)
        seen = known.profile.values(value)
        if seen is None:
            return
        key, varying = seen
        shape = key, tuple(map(type, key))
        before = _lessons(known, key)
        stamps = context.received_at_ms, context.received_at
        if any(isinstance(x, list | dict) for x in key) or any(x.run(varying, *stamps) is not None for x in before):
            return
        made = self._lesson(source, (known.profile, key, varying), document, context)
        known.shapes[shape] = (made, *before[: MAX_VARIANTS - 1])
        self.bytes += sum(ENTRY_BYTES + len(x) for x in key if isinstance(x, str)) + lesson_bytes(made.lesson)

    def _lesson(
        self, source: Source, seen: tuple[Profile, Key, tuple[Any, ...]], document: Document, context: Context
    ) -> _Learnt:
        """The lesson of *document*, on which the rules and the function made of it agree; else one
        that leaves such documents to the rules.
        """
        names: Any = document.value
        computation = Computation()
        silent = self.rules.prices.silent()
        true = self._by_rules(source, document, context, self.rules._replace(prices=silent))
        try:
            lesson, texts = document_lesson(source, frozenset(names), seen, context, silent, self._stands, computation)
            made = _Learnt(document_run_of(lesson, seen[0].varying, texts), lesson)
            done = made.run(seen[2], context.received_at_ms, context.received_at)
        except Exception:  # noqa: BLE001 a rule may do anything with what stands for a value; an error's text may quote it
            return self._refusal(computation, seen[0])
        if done is None or true is None:
            return _Learnt(_always, refusal(Computation()), is_refused=True)
        use = _Use(made)
        use.n = 1
        read = _Read([], [], {0: use}, [])
        if done is not True:
            read.records.append(done[0])
            read.rows.append(done[1])
            use.sessions[done[3]] = done[2]
        agree = _reported_once(_calls(read, 1)) == true
        return made if agree else _Learnt(_always, refusal(Computation()), is_refused=True)

    def _refusal(self, computation: Computation, profile: Profile) -> _Learnt:
        """Documents of which all that was computed until the refusal comes out so are left to the
        rules.
        """
        lesson = refusal(computation)
        return _Learnt(document_run_of(lesson, profile.varying, ()), lesson, is_refused=True)


def _always(*_: object) -> Literal[True]:
    return True


def _use_of(uses: dict[int, _Use], learnt: _Learnt, last: _Use | None) -> _Use:
    if last is not None and last.learnt is learnt:
        return last
    return uses.get(id(learnt)) or uses.setdefault(id(learnt), _Use(learnt))


def _lessons(known: _Names, key: Key) -> tuple[_Learnt, ...]:
    try:
        return known.shapes.get((key, tuple(map(type, key))), ())
    except TypeError:  # a list in the place of a name
        return ()


def _calls(read: _Read, items: int) -> ParsedPayload:
    uses = read.uses.values()
    suppressed = sum(use.n for use in uses if use.learnt.lesson.is_suppressed)
    used: dict[tuple[Any, ...], int] = {}
    reported: dict[str | None, list[int]] = {}
    for use in uses:
        call = use.learnt.lesson.call
        if call is None or not use.n:
            continue
        service, device, instance, stated, model, hole = call.used
        for session, tokens in use.sessions.items():
            key = service, device, instance, stated if hole is None else session, model
            used[key] = used.get(key, 0) + tokens
        of_service = reported.setdefault(call.service, [0, 0])
        of_service[0] += use.n
        of_service[1] += use.n * call.is_missing
    return ParsedPayload(
        items,
        sum(use.n for use in uses if use.learnt.lesson.is_ignored),
        {"not_a_call": suppressed} if suppressed else {},
        [],
        read.records,
        b"".join(read.rows),
        b"",
        [(*key, tokens) for key, tokens in used.items()],
        {},
        [],
        [],
        [(service, calls, calls, missing) for service, (calls, missing) in reported.items()],
    )


def _reported_once(calls: ParsedPayload) -> ParsedPayload:
    """*calls* with `reported` as `gateway.ingest.parsing.parse.reported_in` has it of all items."""
    counts = {service: [n, n, missing] for service, _, n, missing in calls.reported if n}
    rest = calls.items - sum(n for n, *_ in counts.values())
    if rest > 0:
        counts.setdefault(next(iter(counts)) if len(counts) == 1 else None, [0, 0, 0])[0] += rest
    return calls._replace(reported=[(service, items, n, missing) for service, (items, n, missing) in counts.items()])


def _unpriced(uses: dict[int, _Use]) -> list[tuple[str, int]]:
    calls = ((use.learnt.lesson.call, use.n) for use in uses.values())
    return [(call.unpriced, n) for call, n in calls if call is not None and call.unpriced is not None]


def _sender(context: Context) -> tuple[object, ...]:
    """All of *context* that lessons depend on."""
    known = (context.key, context.counted_as, context.counted_key or context.peer, context.device_id)
    return (*known, context.users, context.machines, context.own_device, *context.key_fixes.items())
