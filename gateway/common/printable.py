"""Texts of others where people read them."""

KEPT = frozenset("\r\n\t")


def harmless(text: str, kept: frozenset[str] = frozenset()) -> str:
    """*text* with a replacement character for each that is not printable, except *kept*: control
    characters, which a terminal obeys, and those that turn or hide the text around them.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else "�" for c in text)
