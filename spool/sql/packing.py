"""A chunk's bytes as they are stored: one zstd frame where that is shorter. Pure.

What is read back comes from a file that may be damaged, so a frame is decompressed only to the
size that its header states, and only up to `MAX_BYTES`: longer content is stored as it is.
"""

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LEAST_BYTES = 64
"""Shorter content gains nothing from a frame around it."""
MAX_BYTES = 16 << 20
"""Of content before it is compressed, and so the most that reading one column back takes."""
_LEVEL = 1
"""Measured on chunks of 100 calls: 49 bytes a record of 1060 for 0.8 µs; level 3 takes twice the
time for no fewer, level -1 a tenth less for half as many again."""
_WINDOW_LOG = MAX_BYTES.bit_length() - 1
_compressor = zstd.ZstdCompressor(
    options={zstd.CompressionParameter.compression_level: _LEVEL, zstd.CompressionParameter.checksum_flag: 1}
)
"""Used again and again: a new one takes longer than a small chunk. It locks itself."""
_READ: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}


class Unreadable(Exception):
    """Stored bytes are no frame that `pack` makes."""


def pack(content: bytes) -> bytes:
    """*content* as one zstd frame; itself where that is no shorter. Releases the GIL."""
    if not LEAST_BYTES <= len(content) <= MAX_BYTES:
        return content
    packed = _compressor.compress(content, zstd.ZstdCompressor.FLUSH_FRAME)
    return packed if len(packed) < len(content) else content


def unpack(packed: bytes) -> bytes:
    """The content of a frame that `pack` made. Raises Unreadable."""
    try:
        size = zstd.get_frame_info(packed).decompressed_size
        if size is None or size > MAX_BYTES:
            raise Unreadable("a frame of no size that is kept")
        frame = zstd.ZstdDecompressor(options=_READ)
        content = frame.decompress(packed, max_length=size)
    except zstd.ZstdError as error:
        raise Unreadable("a frame that does not hold together") from error
    if not frame.eof or frame.unused_data or len(content) != size:
        raise Unreadable("a frame that does not end where its header states")
    return content
