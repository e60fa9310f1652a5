"""The error of a database of the gateway. Its text is safe to show."""


class DatabaseUnavailable(Exception):
    """The file cannot be read or written now."""
