"""Texts of others on a terminal."""


def plain(text: str) -> str:
    """*text* as it is shown, in a table of rich's: nothing in it is obeyed, by the terminal or by rich."""
    return "".join(c if c.isprintable() else "�" for c in text).replace("[", "\\[")
