"""Counts as sentences have them. Pure."""


def plural(n: int, one: str, many: str) -> str:
    """`1 record is`, `2 records are`."""
    return f"{n} {one if n == 1 else many}"
