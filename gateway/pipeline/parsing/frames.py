"""What passes between the gateway and its parser process, in plain
types that `marshal` takes. Pure.

A frame to the worker is a list of jobs, a frame from it the list of their answers, in
the same order. Points, labels, attributions and rejections of metrics, of which a
payload may hold many, travel in pieces, each marshalled by itself: unpacking one piece
delays the event loop by a millisecond.
"""

import marshal
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypedDict

from gateway.common.contract.errors import BadPayload, GatewayError, Overloaded, TooLarge
from gateway.common.contract.outcomes import Rejection
from gateway.common.contract.parsed_payload import ParsedPayload
from gateway.pipeline.parsing.parse import Parsed, Payload
from gateway.rules.context import Context
from gateway.rules.conventions.metric_tables import MetricTable
from gateway.rules.points import Labels, MetricSource, Point, UsagePoints
from gateway.rules.usage import Basis

PIECE: Final = 2_000
"""Of points that is half a megabyte, and a millisecond to unpack."""
Pieces = list[Any]
"""Each a marshalled list of up to `PIECE`; or whatever `Cut` makes."""
Cut = Callable[[Sequence[Any]], Pieces]
Joined = Callable[[Pieces], Iterable[Any]]


class Setup(TypedDict):
    """The first frame: what does not change from payload to payload."""

    users: str
    user_secret: bytes
    price_file: str | None
    prefer_metrics: list[str]
    mapping: dict[str, Any] | None
    """Of `sources.generic`."""
    machine_secret: bytes
    """Empty where machines without an id get none."""
    price_list: bool
    own_device: str | None
    """As `gateway.rules.context.Context` has it."""
    limits: list[int]
    """The fields of `ParseLimits`, in their order."""
    tags: dict[str, list[str]]
    """Tag -> the attributes that state it."""
    events: tuple[str, bool, list[str]]
    """How events are read: `EventRules`, without its limits."""
    niceness: int
    """What the process adds to its own."""


class Job(NamedTuple):
    """A body to be read."""

    kind: str
    """`payload`, or one of `gateway.pipeline.parsing.event_frames`."""
    body: bytes
    rest: tuple[Any, ...]
    """What else it is read by: of a payload, its other fields, and those of its Context that differ
    from payload to payload."""


BEHIND: Final = "behind"
"""In a frame, behind its only job: the body of that follows the frame, as it is."""
Answer = tuple[Any, Any]
"""What the body came to, packed, and model -> calls without a price; or None, and an error: its
class (`ERRORS`) and text, or `UNFORESEEN` with the error's class and places."""
ERRORS: Final[dict[str, type[GatewayError]]] = {each.__name__: each for each in (BadPayload, TooLarge, Overloaded)}
"""What a worker answers with, by its name."""
UNFORESEEN: Final = "unforeseen"
PAYLOAD: Final = "payload"


class PackedPoints(NamedTuple):
    """`UsagePoints`, in plain types.

    Points name their labels and table by position: they share a few.
    """

    items: int
    ignored: int
    suppressed: dict[str, int]
    """Reason -> points."""
    services: dict[str | None, int]
    tables: list[tuple[Any, ...]]
    rejected: Pieces
    """Reason and position."""
    attributions: Pieces
    labels: Pieces
    points: Pieces


def job_of(payload: Payload, context: Context) -> Job:
    """*payload*, to be read with what differs in *context* from payload to payload."""
    fixes = tuple(context.key_fixes.items())
    fields = payload.kind, payload.json, payload.first_line
    stamps = context.received_at_ms, context.received_at
    return Job(PAYLOAD, payload.body, (*fields, *stamps, context.key, context.counted_as, context.peer, fixes))


def opened(job: Job, context: Context) -> tuple[Payload, Context]:
    """The payload of *job*, and *context* with the fields that the job brings."""
    kind, json, first_line, received_at_ms, received_at, key, counted_as, peer, fixes = job.rest
    return Payload(kind, job.body, json, first_line), context._replace(
        received_at_ms=received_at_ms,
        received_at=received_at,
        key=key,
        counted_as=counted_as,
        peer=peer,
        key_fixes=dict(fixes),
    )


def pack(parsed: Parsed, cut: Cut | None = None) -> tuple[Any, ...]:
    """*parsed* in plain types; *cut*: as `pack_points` has it."""
    return (
        None if parsed.calls is None else tuple(parsed.calls),
        None if parsed.points is None else tuple(pack_points(parsed.points, cut)),
        dict(parsed.answer),
        tuple(parsed.trace_updates),
        dict(parsed.traces_of_calls),
    )


def unpack(fields: Sequence[Any], joined: Joined | None = None) -> Parsed:
    """What `pack` packed; *joined*: the inverse of its `cut`."""
    calls, points, *rest = fields
    return Parsed(
        None if calls is None else ParsedPayload._make(calls),
        None if points is None else unpack_points(PackedPoints._make(points), joined),
        *rest,
    )


def points_in(fields: Sequence[Any]) -> int:
    """How many points and other items of metrics a packed Parsed holds."""
    return 0 if fields[1] is None else int(fields[1][0])


def pack_points(points: UsagePoints, cut: Cut | None = None) -> PackedPoints:
    """Usage points as plain types. *cut* makes of many of them what travels; None: `in_pieces`."""
    cut = cut or in_pieces
    labels: dict[Labels, int] = {}
    tables: dict[MetricTable, int] = {}
    numbered = [
        (
            *point[:2],
            labels.setdefault(point.labels, len(labels)),
            tables.setdefault(point.table, len(tables)),
            *point[4:],
        )
        for point in points.points
    ]
    return PackedPoints(
        points.items,
        points.ignored,
        dict(points.suppressed),
        dict(points.services),
        [tuple({**x._asdict(), "basis": x.basis.name}.values()) for x in tables],
        cut([tuple(x) for x in points.rejected]),
        cut(points.attributions),
        cut([(tuple(x.reporter), *x[1:]) for x in labels]),
        cut(numbered),
    )


def unpack_points(packed: PackedPoints, joined: Joined | None = None) -> UsagePoints:
    """The inverse of `pack_points`; *joined*: that of its `cut`."""
    joined = joined or joined_pieces
    points = UsagePoints(items=packed.items, ignored=packed.ignored, attributions=list(joined(packed.attributions)))
    points.suppressed.update(packed.suppressed)
    points.services.update(packed.services)
    points.rejected += [Rejection(*x) for x in joined(packed.rejected)]
    labels = [Labels(MetricSource(*reporter), *rest) for reporter, *rest in joined(packed.labels)]
    tables = [_table_in(fields) for fields in packed.tables]
    points.points += [
        Point(key, series, labels[label], tables[table], *rest)
        for key, series, label, table, *rest in joined(packed.points)
    ]
    return points


def _table_in(fields: Iterable[Any]) -> MetricTable:
    table = MetricTable(*fields)
    return table._replace(basis=Basis[str(table.basis)])


def in_pieces(items: Sequence[object]) -> Pieces:
    """*items*, of plain types, each piece marshalled by itself."""
    return [marshal.dumps(list(items[start : start + PIECE])) for start in range(0, len(items), PIECE)]


def joined_pieces(pieces: Pieces) -> Iterator[Any]:
    """The inverse of `in_pieces`."""
    for piece in pieces:
        yield from marshal.loads(piece)  # noqa: S302 our own worker wrote it
