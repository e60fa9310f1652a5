"""The passphrase of a backup: from a file, the environment or a prompt; never an argument, which
every process of the machine can read.
"""

import os
from pathlib import Path
from typing import Final

import click

from exporters.secret import Secret

VARIABLE: Final = "TELEMETRY_GATEWAY_BACKUP_PASSPHRASE"
LEAST_CHARS: Final = 8


def passphrase_from(file: Path | None, *, is_new: bool) -> Secret:
    """The first line of *file*; else the environment's; else typed, twice where it *is_new*.

    Raises ClickException where there is none, or a new one is too short.
    """
    text = _given(file)
    if text is None:
        text = click.prompt("Passphrase", hide_input=True, confirmation_prompt=is_new, err=True)
    if is_new and len(text) < LEAST_CHARS:
        raise click.ClickException(f"the passphrase has fewer than {LEAST_CHARS} characters")
    return Secret(text)


def _given(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(VARIABLE)
    try:
        text = file.read_text().partition("\n")[0].removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise click.ClickException(f"--passphrase-file: {file}: {reason}") from error
    if not text:
        raise click.ClickException(f"--passphrase-file: the first line of {file} is empty")
    return text
