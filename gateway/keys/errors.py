"""What can go wrong with keys. Texts are safe to show: names, fields, reasons; never a secret."""


class KeyStoreError(Exception):
    """Base of what the key store raises on purpose."""


class KeyRefused(KeyStoreError):
    """What was asked of the store cannot be; whoever asked can mend it."""


class InvalidKey(KeyRefused):
    """Fields break rules, all of them told at once: the name's length, no scope at all, an unknown scope or use case."""


class NameTaken(KeyRefused):
    """Another key has this name."""


class LegacyKeyExists(KeyRefused):
    """There can be one key from before there were several, and there is one."""


class NoSuchKey(KeyRefused):
    """No key has this name, or this id."""


class NotConfirmed(KeyRefused):
    """Deleting needs the key's exact name, and another text was given."""


class OpenIntakeInUse(KeyRefused):
    """The first key would refuse senders that posted without one; it is made when that is said to be meant."""


class PepperMismatch(KeyStoreError):
    """The pepper file is not the one these keys were hashed with: no key could ever match."""


class DatabaseUnavailable(KeyStoreError):
    """The file cannot be read or written now."""
