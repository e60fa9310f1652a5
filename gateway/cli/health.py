"""`healthcheck`: the probe of the running gateway, for a container without curl."""

import asyncio
from typing import Final

import aiohttp
import click

from gateway.cli.admin_client import reach
from gateway.config.model import Config
from spool.errors import SpoolLocked

ANSWER_S: Final = 5.0
NOT_FOUND: Final = "no gateway was found here"


async def probe(config: Config, *, is_alive_enough: bool) -> int:
    """Print the answer of `/readyz`, or of `/healthz`; 0 where it is 200, else 1.

    Raises ClickException where no gateway answers.
    """
    connector, base = reach(config, SpoolLocked(NOT_FOUND))
    timeout = aiohttp.ClientTimeout(total=ANSWER_S)
    url = f"{base}/healthz" if is_alive_enough else f"{base}/readyz"
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.get(url) as answer,
        ):
            click.echo((await answer.text()).strip())
            return 0 if answer.ok else 1
    except (aiohttp.ClientError, TimeoutError) as error:
        raise click.ClickException(f"{base} does not answer within {ANSWER_S:g} s: {type(error).__name__}") from error


def run_probe(config: Config, *, is_alive_enough: bool) -> int:
    """The exit code of the command."""
    return asyncio.run(probe(config, is_alive_enough=is_alive_enough))
