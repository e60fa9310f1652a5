"""The gateway's command as its next release may be: it reads and writes one more form of journal
rows, and has one more migration. `python -m tests.support.next_release run …`.

A release that does not know the form can read nothing of such a row.
"""

from collections.abc import Sequence
from typing import Final

from gateway.app.cell import home
from gateway.cli.main import main
from gateway.fleet.senders.noting import SenderNotes
from gateway.pipeline.journal.form import FORMS, Entry, Form, JournalCorrupt, read_row, write_row
from gateway.stores.sql import database

RELEASE: Final = "99.0.0"
FORM: Final = max(FORMS) + 1
MARK: Final = b"of the next release: "
MIGRATIONS: Final = {
    "gateway.stores.postgres.migrations.cell": (
        "ALTER TABLE member ADD COLUMN of_next TEXT; ALTER TABLE journal ADD COLUMN of_next TEXT NOT NULL DEFAULT 'x'"
    )
}


def write(entries: Sequence[Entry], notes: SenderNotes) -> bytes:
    return MARK + write_row(entries, notes)


def read(body: bytes) -> tuple[list[Entry], SenderNotes]:
    if not body.startswith(MARK):
        raise JournalCorrupt("not a row of the next release")
    return read_row(body.removeprefix(MARK))


def become_next() -> None:
    of_this = database.scripts_of
    FORMS[FORM] = Form(write, read)
    database.scripts_of = lambda package: [*of_this(package), *([MIGRATIONS[package]] if package in MIGRATIONS else [])]
    home.release = lambda: RELEASE


if __name__ == "__main__":
    become_next()
    main()
