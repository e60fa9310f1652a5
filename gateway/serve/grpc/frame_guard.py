"""Looks at the head of each HTTP/2 frame of one connection before `h2` buffers any of it. Pure.

`h2` bounds the list of header fields while it decodes them. It does not bound how many bytes a
frame or a header block may have before it looks at them, nor how many frames a client may send that
carry next to nothing. Both are bounded here, so a connection holds little and costs little CPU
whatever its frames are.

    frame = length (3 bytes) type (1) flags (1) stream id (4) payload          (RFC 9113, 4.1)
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from h2.errors import ErrorCodes

PREFACE_BYTES: Final = 24
"""A client begins with so many bytes that are no frame (RFC 9113, 3.4). `h2` compares them."""

MAX_FRAME_BYTES: Final = 16 * 1024
"""The default of SETTINGS_MAX_FRAME_SIZE, and the least that is allowed."""
MAX_HEADER_BLOCK_BYTES: Final = 16 * 1024
"""Of a HEADERS frame and its CONTINUATION frames together, compressed."""
MAX_SETTINGS_BYTES: Final = 6 * 64
"""64 settings in a frame. RFC 9113 defines six."""

FRAMES_AT_ONCE: Final = 128
"""Frames that are worked on in one turn of the event loop."""

FREE_FRAMES: Final = 1000
"""Frames that a connection may send before they are weighed against what they carry."""
MAX_FREE_FRAMES: Final = 4 * FREE_FRAMES
FREE_FRAMES_PER_S: Final = 50
BYTES_OF_A_FRAME: Final = 256
"""Each so many bytes of payload earn one further frame."""
FRAMES_OF_A_CALL: Final = 16
"""A call that was answered earns so many, with success or under a key that is accepted."""

_HEAD: Final = Struct(">HBBBI")
_DATA, _HEADERS, _SETTINGS, _CONTINUATION = 0, 1, 4, 9
_END_HEADERS: Final = 0x4


class TooMuch(Exception):
    """The connection sent what is refused unread; it is to be closed."""

    def __init__(self, reason: str, text: str, code: ErrorCodes) -> None:
        super().__init__(text)
        self.reason = reason
        """A word for the operator."""
        self.code = code
        """Of the GOAWAY frame."""


class FrameGuard:
    """Of one connection."""

    __slots__ = ("_at_s", "_block_bytes", "_free", "_head", "_in_block", "_left_bytes", "_monotonic_s", "_preface_left")

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._at_s = monotonic_s()
        self._free = FREE_FRAMES
        self._preface_left = PREFACE_BYTES
        self._head = b""
        """Of a frame, where it came in parts."""
        self._left_bytes = 0
        """Of the payload of the frame that it is in."""
        self._block_bytes = 0
        self._in_block = False
        """A header block began and did not end."""

    @property
    def in_block(self) -> bool:
        return self._in_block

    def earn(self) -> None:
        """A call was answered, with success or under a key that is accepted."""
        self._free = min(self._free + FRAMES_OF_A_CALL, MAX_FREE_FRAMES)

    def pieces(self, data: bytes) -> list[bytes]:
        """*data*, in pieces of at most FRAMES_AT_ONCE frames. Raises TooMuch."""
        size, begin, frames = len(data), 0, 0
        at = min(self._preface_left, size)
        self._preface_left -= at
        found = []
        while at < size:
            if self._left_bytes:
                step = min(self._left_bytes, size - at)
                self._left_bytes -= step
                at += step
                continue
            head = self._head + data[at : at + _HEAD.size - len(self._head)]
            at += len(head) - len(self._head)
            if len(head) < _HEAD.size:
                self._head = head
                break
            self._head = b""
            self._left_bytes = self._weigh(head)
            frames += 1
            if frames == FRAMES_AT_ONCE:
                found.append(data[begin:at])
                begin, frames = at, 0
        if begin == 0:
            return [data]
        if begin < size:
            found.append(data[begin:])
        return found

    def _weigh(self, head: bytes) -> int:
        """Bytes of the payload of the frame with this *head*. Raises TooMuch."""
        high, low, kind, flags, _ = _HEAD.unpack(head)
        n_bytes: int = high << 8 | low
        if n_bytes > MAX_FRAME_BYTES:
            raise TooMuch("frame_too_large", f"a frame has more than {MAX_FRAME_BYTES} bytes", _FRAME_SIZE)
        if kind == _SETTINGS and n_bytes > MAX_SETTINGS_BYTES:
            raise TooMuch("too_many_settings", "a SETTINGS frame has more than 64 settings", _CALM)
        if kind in (_HEADERS, _CONTINUATION):
            self._block_bytes = n_bytes + (self._block_bytes if kind == _CONTINUATION else 0)
            self._in_block = not flags & _END_HEADERS
            if self._block_bytes > MAX_HEADER_BLOCK_BYTES:
                raise TooMuch(
                    "headers_too_large", f"a header block has more than {MAX_HEADER_BLOCK_BYTES} bytes", _CALM
                )
        self._free += n_bytes // BYTES_OF_A_FRAME - 1
        if self._free < 0:
            self._refill()
        elif self._free > MAX_FREE_FRAMES:
            self._free = MAX_FREE_FRAMES
        return n_bytes

    def _refill(self) -> None:
        """Frames that are free since the last time. Raises TooMuch where there are none."""
        now_s = self._monotonic_s()
        self._free += int(min((now_s - self._at_s) * FREE_FRAMES_PER_S, FREE_FRAMES))
        self._at_s = now_s
        if self._free < 0:
            raise TooMuch("too_many_frames", "the connection sends many frames that carry next to nothing", _CALM)


_CALM: Final = ErrorCodes.ENHANCE_YOUR_CALM
_FRAME_SIZE: Final = ErrorCodes.FRAME_SIZE_ERROR
