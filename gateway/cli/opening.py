"""`open`: the page in a browser, without a token being typed."""

import click

from gateway.cli.admin_client import login_link
from gateway.config.model import Config
from spool.data_lock import held_by
from spool.errors import SpoolLocked


async def open_status_page(config: Config, *, starts_browser: bool, is_viewer: bool) -> int:
    """Print a link to the page, which opens it once and soon, and start a browser with it.

    Raises ClickException where no gateway runs, or it cannot be asked.
    """
    owner = held_by(config.data_dir)
    if owner is None:
        raise click.ClickException(f"no gateway runs on {config.data_dir}: start it with `telemetry-gateway run`")
    role = "viewer" if is_viewer else "operator"
    link = await login_link(config, SpoolLocked(f"{config.data_dir} is used by process {owner}"), role)
    click.echo(link)
    if starts_browser and click.launch(link):
        click.echo("No browser could be started: open the link in one, within ten minutes.", err=True)
    return 0
