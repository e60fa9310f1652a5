"""What a connection may send before any of it is buffered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.grpc_connection import frame
from gateway.common.http.http2_refusal import PREFACE
from gateway.serve.grpc import frame_guard
from gateway.serve.grpc.frame_guard import FRAMES_AT_ONCE, FREE_FRAMES, MAX_FRAME_BYTES, FrameGuard, TooMuch

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def guard(clock: Clock | None = None) -> FrameGuard:
    made = FrameGuard(clock or Clock())
    assert made.pieces(PREFACE) == [PREFACE]
    return made


@given(
    st.lists(st.tuples(st.sampled_from([DATA, PING, WINDOW_UPDATE, 200]), st.integers(0, 600)), max_size=300),
    st.lists(st.integers(1, 5000), min_size=1, max_size=30),
)
def test_pieces_are_the_bytes_that_came_and_end_with_whole_frame_heads(
    frames: list[tuple[int, int]], cuts: list[int]
) -> None:
    sent = PREFACE + b"".join(frame(kind, 0, 1, bytes(size)) for kind, size in frames)
    made, at, turn, pieces = FrameGuard(Clock()), 0, 0, []
    while at < len(sent):
        size = cuts[turn % len(cuts)]
        pieces += made.pieces(sent[at : at + size])
        at, turn = at + size, turn + 1
    assert b"".join(pieces) == sent
    assert not made.in_block


def test_one_turn_gets_no_more_than_so_many_frames() -> None:
    sent = frame(DATA, 0, 1, bytes(256)) * (3 * FRAMES_AT_ONCE)
    pieces = guard().pieces(sent)
    heads = [piece.count(frame(DATA, 0, 1, bytes(256))[:9]) for piece in pieces]
    assert max(heads) <= FRAMES_AT_ONCE
    assert b"".join(pieces) == sent


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        (frame(DATA, 0, 1, b"")[:0] + (MAX_FRAME_BYTES + 1).to_bytes(3) + bytes(6), "frame_too_large"),
        (b"\xff\xff\xff" + bytes((200,)) + bytes(5), "frame_too_large"),
        (frame(SETTINGS, 0, 0, bytes(6 * 65)), "too_many_settings"),
        (frame(HEADERS, 0, 1, bytes(9000)) + frame(CONTINUATION, 0, 1, bytes(9000)), "headers_too_large"),
        (frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 1) * (FREE_FRAMES + 1), "too_many_frames"),
        *((frame(kind, 0, 1, bytes(8)) * (FREE_FRAMES + 1), "too_many_frames") for kind in (DATA, PRIORITY, PING)),
        *((frame(kind, 0, 1, bytes(4)) * (FREE_FRAMES + 1), "too_many_frames") for kind in (RST_STREAM, WINDOW_UPDATE)),
        (frame(SETTINGS, 0, 0) * (FREE_FRAMES + 1), "too_many_frames"),
        (frame(250, 0, 7, b"?") * (FREE_FRAMES + 1), "too_many_frames"),
    ],
)
def test_what_costs_more_than_it_carries_is_refused_at_its_head(frames: bytes, reason: str) -> None:
    with pytest.raises(TooMuch) as raised:
        guard().pieces(frames)
    assert raised.value.reason == reason


def test_a_frame_that_is_too_large_is_refused_before_its_payload_comes() -> None:
    made = guard()
    head = (MAX_FRAME_BYTES + 1).to_bytes(3) + bytes(6)
    assert made.pieces(head[:8]) == [head[:8]]
    with pytest.raises(TooMuch):
        made.pieces(head[8:])


def test_frames_that_carry_something_are_as_many_as_their_bytes_need() -> None:
    made = guard()
    for _ in range(100):
        made.pieces(frame(DATA, 0, 1, bytes(MAX_FRAME_BYTES)) * 20)
        made.pieces(frame(DATA, 0, 1, b"") * 20)


def test_calls_and_time_earn_frames() -> None:
    clock = Clock()
    made, ping = guard(clock), frame(PING, 0, 0, bytes(8))
    for _ in range(10 * FREE_FRAMES):
        made.pieces(ping + frame(HEADERS, 4, 1, bytes(60)) + frame(DATA, 1, 1, bytes(50)))
        made.earn()
    with pytest.raises(TooMuch):
        made.pieces(ping * (frame_guard.MAX_FREE_FRAMES + 2))
    quiet = guard(clock)
    for _ in range(10 * FREE_FRAMES):
        quiet.pieces(ping)
        clock.now_s += 1 / 40
