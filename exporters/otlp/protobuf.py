"""The protobuf wire format, as far as fields of a small message need it."""

from collections.abc import Iterator


def delimited(number: int, data: bytes) -> bytes:
    """A length-delimited field; *number* is below 16."""
    size = len(data)
    if size < 0x80:  # noqa: PLR2004 - one group of seven bits
        return bytes((number << 3 | 2, size)) + data
    return bytes((number << 3 | 2,)) + varint(size) + data


def varint(n: int) -> bytes:
    """Base-128, least significant group first; *n* is not negative."""
    out = bytearray()
    while n > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a protobuf message; groups are none. Raises IndexError, ValueError."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
                yield key >> 3, value
            case 2:
                size, at = _varint(data, at)
                yield key >> 3, data[at : at + size]
                at += size
            case 1:
                at += 8
            case 5:
                at += 4
            case _:
                raise ValueError("no such wire type")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:  # noqa: PLR2004 - the last group
            return value, at
