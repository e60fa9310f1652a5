"""What can go wrong with the spool."""


class SpoolError(Exception):
    """The spool cannot keep or give records now; the sender or the lane tries again later."""

    retry_after_s: int | None = None
    """When a retry is worth it; None when that is not known."""

    def copied(self) -> "SpoolError":
        """A new one, equal: raising one instance repeatedly keeps
        every frame it passed through alive.
        """
        error = type(self)(*self.args)
        error.retry_after_s = self.retry_after_s
        return error


class SpoolFull(SpoolError):
    """A limit in bytes is reached: nothing of the append was kept."""


class SpoolLocked(SpoolError):
    """Another process owns this data directory."""


class NoSuchLane(SpoolError):
    """The operation does not apply to this lane; the text names the lanes to which it applies."""


class SpoolCorrupt(SpoolError):
    """The file cannot be read."""


class SpoolTooNew(SpoolError):
    """The file was written by a newer release."""


class Fenced(SpoolError):
    """Another process owns what this one would write: nothing is written here any more."""
