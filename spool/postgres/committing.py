"""Commits that are durable when they return, and what one is whose outcome nobody knows.

A commit that waits for its standbys and is cancelled answers success, with a warning.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg


class UnknownOutcome(Exception):
    """Whether the commit was kept is unknown until it is read: its connection broke, or its wait
    for the standbys was cancelled.
    """


@contextmanager
def committed(connection: psycopg.Connection) -> Iterator[None]:
    """Commit what is done inside; roll it back when it raises.

    Raises UnknownOutcome, psycopg.Error.
    """
    with durable(connection) as warnings, connection.transaction():
        yield
        warnings.clear()  # from here on there is the COMMIT alone


@contextmanager
def durable(connection: psycopg.Connection) -> Iterator[list[str]]:
    """Raises UnknownOutcome where a commit inside was answered with a warning; they are gathered in
    what this gives.
    """
    warnings: list[str] = []

    def note(notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            warnings.append(notice.message_primary or "")

    connection.add_notice_handler(note)
    try:
        yield warnings
    finally:
        connection.remove_notice_handler(note)
    if warnings:
        raise UnknownOutcome(f"the outcome of a commit is unknown: {'; '.join(warnings)}")
