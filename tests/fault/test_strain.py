"""Large uploads, silent connections and slow bodies beside honest senders, in a short form:
`python -m tests.fault.strain` has 200 uploads of 60 MiB and 1,000 connections.
"""

from collections.abc import Iterator

import pytest

from tests.fault.strain import GZIP, Limits, Result, Rig
from tests.support.strain_senders import MIB

LIMITS = Limits(in_flight=64, body=16)
UPLOADS = 60
UPLOAD_BYTES = 15 * MIB
IDLE = 100
SLOW = 120
HOLDS_ON_S = 1.0

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with Rig(tmp_path_factory.mktemp("strain"), LIMITS) as running:
        yield running


def sound(result: Result, senders: int) -> Result:
    assert result.faults(LIMITS.most_mib(senders)) == [], result.row()
    return result


@pytest.mark.parametrize(("kind", "zipped"), [("upload mixed", {}), ("upload http", GZIP)], ids=["plain", "gzip"])
def test_uploads_at_once_cost_the_budget_and_honest_senders_are_served(
    rig: Rig, kind: str, zipped: dict[str, bool]
) -> None:
    result = sound(rig.strain(kind, UPLOADS, n_bytes=UPLOAD_BYTES, **zipped), UPLOADS)
    assert result.seen.acked, "the budget has room for some"
    assert result.seen.answers.total() == UPLOADS


@pytest.mark.parametrize("kind", ["idle http", "idle grpc", "streams grpc"])
def test_silent_connections_and_streams_cost_little(rig: Rig, kind: str) -> None:
    result = sound(rig.strain(kind, IDLE, seconds=HOLDS_ON_S), IDLE)
    assert result.seen.answers == {"open": IDLE}
    assert result.grown_mib["main"] < 32


def test_slow_bodies_cost_little_and_no_one_is_refused_for_them(rig: Rig) -> None:
    result = sound(rig.strain("slow mixed", SLOW, seconds=HOLDS_ON_S, n_bytes=UPLOAD_BYTES, every_s=0.05), SLOW)
    assert result.seen.answers == {"open": SLOW}
    assert result.grown_mib["main"] < 32
