"""Errors of the key store. Texts are safe to show: names, fields, reasons; never a secret."""


class KeyStoreError(Exception):
    """Base of the key store's errors."""


class KeyRefused(KeyStoreError):
    """The request is invalid; its caller can correct it."""


class InvalidKey(KeyRefused):
    """Fields break rules; the text lists every fault: the name's length, no scope, an unknown scope
    or use case.
    """


class NameTaken(KeyRefused):
    """Another key has this name."""


class LegacyKeyExists(KeyRefused):
    """Only one legacy key can exist, and one exists."""


class NoSuchKey(KeyRefused):
    """No key has this name, or this id."""


class NotConfirmed(KeyRefused):
    """The text given to confirm a deletion is not the key's exact name."""


class OpenIntakeInUse(KeyRefused):
    """The first key would refuse senders that posted without one, and the request does not confirm
    that.
    """


class PepperMismatch(KeyStoreError):
    """The pepper file is not the one these keys were hashed with: no key can match."""
