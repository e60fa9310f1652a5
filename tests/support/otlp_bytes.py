"""Protobuf by hand, for bodies that no encoder would write."""


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*made, number))


def field(number: int, value: bytes) -> bytes:
    """A length-delimited field: a text, bytes, or a message."""
    return varint(number << 3 | 2) + varint(len(value)) + value
