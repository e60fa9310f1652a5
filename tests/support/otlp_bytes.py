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


def fixed64(number: int, value: int) -> bytes:
    return bytes((number << 3 | 1,)) + value.to_bytes(8, "little")


def attribute(number: int, name: bytes, value: bytes) -> bytes:
    return field(number, field(1, name) + field(2, value))
