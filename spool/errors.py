"""What can go wrong with the spool."""


class SpoolError(Exception):
    """The spool cannot keep or give records now; the sender or the lane tries again later."""


class SpoolFull(SpoolError):
    """A limit in bytes is reached: nothing of the append was kept."""


class SpoolLocked(SpoolError):
    """Another process owns this data directory."""


class SpoolCorrupt(SpoolError):
    """The file cannot be read."""


class SpoolTooNew(SpoolError):
    """The file was written by a newer release."""
