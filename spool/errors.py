"""What can go wrong with the spool."""


class SpoolError(Exception):
    """The spool cannot keep or give records now; the sender or the lane tries again later."""

    retry_after_s: int | None = None
    """When it is worth coming again; None when that is not known."""

    def again(self) -> "SpoolError":
        """The same anew: an error that is raised again and again keeps every frame it came through alive."""
        error = type(self)(*self.args)
        error.retry_after_s = self.retry_after_s
        return error


class SpoolFull(SpoolError):
    """A limit in bytes is reached: nothing of the append was kept."""


class SpoolLocked(SpoolError):
    """Another process owns this data directory."""


class NoSuchLane(SpoolError):
    """What was asked cannot be done for this lane; the text names those for which it can."""


class SpoolCorrupt(SpoolError):
    """The file cannot be read."""


class SpoolTooNew(SpoolError):
    """The file was written by a newer release."""
