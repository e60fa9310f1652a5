"""The options that commands share, and the configuration that they lead to.

What reads it is imported when a command runs: `--help` and `--version` need none of it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.common.plural import plural
from gateway.config.profiles import PROFILES

if TYPE_CHECKING:
    from gateway.config.model import Config

config_option = click.option(
    "--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), help="YAML; see docs/configuration.md."
)
data_dir_option = click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where everything is kept."
)
profile_option = click.option(
    "--profile", type=click.Choice(PROFILES), help="The defaults to use; device forwards to another gateway."
)
passphrase_option = click.option(
    "--passphrase-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Its first line is the passphrase, which no option takes itself: other processes see arguments.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

NO_LIMIT: Final = "none"
"""Takes a key's limit away."""


class Faulty(click.ClickException):
    """Ends the command with its message and exit code 1."""


class RefusedByGateway(click.ClickException):
    """The gateway answered with an error."""

    def __init__(self, status: int, answer: Mapping[str, Any]) -> None:
        super().__init__(str(answer.get("error", {}).get("message", f"HTTP {status}")))
        self.status, self.answer = status, answer


def read_config(
    config_file: Path | None,
    data_dir: Path | None,
    flags: dict[str, object] | None = None,
    *,
    has_secrets: bool = True,
) -> "Config":
    """*has_secrets* as `load_config` has it. Raises ConfigFaults."""
    from gateway.config.loader import load_config  # noqa: PLC0415 - see above

    overrides = {option: value for option, value in (flags or {}).items() if value is not None}
    if data_dir is not None:
        overrides["data_dir"] = str(data_dir)
    return load_config(config_file, overrides, has_secrets=has_secrets)


def plug_in_sources() -> None:
    """Make the sources of installed plug-ins known. Raises Faulty for a broken one."""
    from gateway.common.plugins import BrokenPlugin  # noqa: PLC0415 - see above
    from gateway.products.catalogue import add_plugged_sources  # noqa: PLC0415 - see above

    try:
        add_plugged_sources()
    except BrokenPlugin as error:
        raise Faulty(str(error)) from error


def config_of(
    config_file: Path | None,
    data_dir: Path | None,
    flags: dict[str, object] | None = None,
    *,
    has_secrets: bool = False,
) -> "Config":
    """*has_secrets* as `load_config` has it. Raises Faulty with every fault. Misspelt environment
    variables are named on stderr.
    """
    from gateway.config.draft import ConfigFaults  # noqa: PLC0415 - see above
    from gateway.config.environment import misspelt_texts  # noqa: PLC0415 - see above

    for text in misspelt_texts(os.environ):
        click.echo(f"Warning: {text}", err=True)
    try:
        return read_config(config_file, data_dir, flags, has_secrets=has_secrets)
    except ConfigFaults as error:
        raise Faulty(f"the configuration has {plural(len(error.faults), 'fault', 'faults')}\n{error}") from error


def with_remedy(error: Exception) -> str:
    """The text of *error*; with the remedy where the disk or rights are behind it."""
    from spool.disk_faults import disk_fault  # noqa: PLC0415 - see above

    fault = disk_fault(error)
    return str(error) if fault is None or fault in str(error) else f"{error}: {fault}"


def without_psycopg(error: ImportError) -> str:
    """What to install for `store.type: postgres`."""
    return f"store.type: postgres needs {error.name}: pip install 'ai-telemetry-gateway[postgres]'"
