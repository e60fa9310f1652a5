"""Texts of others on a terminal."""


def plain(text: str) -> str:
    """*text* as it is shown, in a table of rich's: nothing in it is obeyed, by the terminal or by rich."""
    return harmless(text).replace("[", "\\[")


def harmless(text: str) -> str:
    """The same for text that is printed as it is."""
    return "".join(c if c.isprintable() else "�" for c in text)
