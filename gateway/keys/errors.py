"""What can go wrong with keys. Texts are safe to show: names, fields, reasons; never a secret."""


class KeyStoreError(Exception):
    """Base of what the key store raises on purpose."""


class InvalidKey(KeyStoreError):
    """A field breaks a rule: the name's length, no scope at all, an unknown scope or use case."""


class NameTaken(KeyStoreError):
    """Another key has this name."""


class NoSuchKey(KeyStoreError):
    """No key has this name."""


class NotConfirmed(KeyStoreError):
    """Deleting needs the key's exact name, and another text was given."""


class PepperMismatch(KeyStoreError):
    """The pepper file is not the one these keys were hashed with: no key could ever match."""


class DatabaseUnavailable(KeyStoreError):
    """The file cannot be read or written now."""
