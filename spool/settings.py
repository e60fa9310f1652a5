"""What an operator sets of the spool. Pure."""

from dataclasses import dataclass

RESERVE_BYTES = 64 << 20
"""Twice what the write-ahead log holds before it is copied into the file, so that the copy
succeeds: only after it do deletions free anything."""


@dataclass(frozen=True, slots=True)
class SpoolSettings:
    """Sizes in bytes, times in ms."""

    max_bytes: int = 8 << 30
    max_age_ms: int = 7 * 86_400_000
    keep_delivered_ms: int = 86_400_000
    window_ms: int = 600_000
    """How long the ledger's evidence is kept, whether its records were delivered or not."""
    linger_ms: int = 1_000
    """How long a lane waits for a fuller batch."""
    synchronous: str = "FULL"
    """FULL survives power loss; NORMAL only the end of the process."""
    keep_dead_letters_ms: int = 30 * 86_400_000
    max_dead_letter_bytes: int = 512 << 20
    reserve_bytes: int = RESERVE_BYTES
    """Held back on the disk, so that deliveries go on when it is full. New data is taken while a
    quarter of it is free besides."""

    @property
    def dead_letter_bytes(self) -> int:
        """Of the records of dead letters: so many, and no more than a quarter of all."""
        return min(self.max_dead_letter_bytes, self.max_bytes // 4)
