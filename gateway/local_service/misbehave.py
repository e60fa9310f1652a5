"""Configured misbehaviour: failures, latency, connection resets. Pure; the random numbers come from
the caller.

`--fail 429:0.1,500:0.05 --latency 200ms --reset 0.01`: a tenth of the requests gets 429, a
twentieth 500, every one is delayed by 200 ms, and one in a hundred has its connection reset, before
or after its data are stored. A 5xx may also come before or after storing, which makes it ambiguous.
Each request draws the same count of numbers, so one seed gives one sequence whatever the requests
are.
"""

import re
from dataclasses import dataclass
from random import Random
from typing import Literal

from gateway.local_service.call import ServiceAnswer, json_answer

When = Literal["before", "after"]
"""Relative to storing what the request carries."""

RETRY_AFTER_S = 1
_UNIT_MS = {"ms": 1, "s": 1000}
_FIRST_5XX = 500
_PAUSING = (429, 503)
_MESSAGES = {429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable"}


@dataclass(frozen=True, slots=True)
class Misbehave:
    failures: tuple[tuple[int, float], ...] = ()
    """(status, share of the requests that get it)."""
    latency_ms: int = 0
    reset: float = 0.0
    """Share of the requests whose connection is reset."""


@dataclass(frozen=True, slots=True)
class Failure:
    answer: ServiceAnswer
    when: When


@dataclass(frozen=True, slots=True)
class Plan:
    """The misbehaviour towards one request."""

    latency_ms: int = 0
    failure: Failure | None = None
    reset: When | None = None


GOOD = Plan()


def parse_misbehave(*, fail: str = "", latency: str = "", reset: str = "") -> Misbehave | None:
    """From the three options' texts; None when all are empty. Raises ValueError that names the
    option.
    """
    failures = tuple(_failure(part) for part in fail.split(",") if part.strip())
    if sum(share for _, share in failures) > 1:
        raise ValueError("fail: the shares add up to more than 1")
    parsed = Misbehave(failures, _milliseconds(latency) if latency else 0, _share("reset", reset) if reset else 0.0)
    return None if parsed == Misbehave() else parsed


def plan(misbehave: Misbehave | None, random: Random) -> Plan:
    """The plan of the next request."""
    if misbehave is None:
        return GOOD
    fail, fail_late, pausing, cut, cut_late = (random.random() for _ in range(5))
    return Plan(
        latency_ms=misbehave.latency_ms,
        failure=_drawn(misbehave.failures, fail, late=fail_late < 1 / 2, pauses=pausing < 1 / 2),
        reset=("after" if cut_late < 1 / 2 else "before") if cut < misbehave.reset else None,
    )


def _drawn(failures: tuple[tuple[int, float], ...], number: float, *, late: bool, pauses: bool) -> Failure | None:
    """The failure whose slice of 0..1 holds *number*. *pauses*: with a Retry-After."""
    for status, share in failures:
        if number < share:
            answer = json_answer(status, {"message": _MESSAGES.get(status, f"Injected {status}")})
            retry_after_s = RETRY_AFTER_S if pauses and status in _PAUSING else None
            return Failure(
                answer._replace(retry_after_s=retry_after_s), "after" if late and status >= _FIRST_5XX else "before"
            )
        number -= share
    return None


def _failure(part: str) -> tuple[int, float]:
    match = re.fullmatch(r"\s*([3-5]\d\d):([\d.]+)\s*", part)
    if match is None:
        raise ValueError(f"fail: {part.strip()!r} is not STATUS:SHARE, such as 429:0.1")
    return int(match[1]), _share("fail", match[2])


def _share(option: str, text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"{option}: {text!r} is not a share from 0 to 1")
    return share


def _milliseconds(text: str) -> int:
    match = re.fullmatch(r"(\d{1,6})(ms|s)", text.strip())
    if match is None:
        raise ValueError(f"latency: {text!r} is not a duration such as 200ms or 2s")
    return int(match[1]) * _UNIT_MS[match[2]]
