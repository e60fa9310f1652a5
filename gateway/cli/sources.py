"""`sources`: the AI gateways that push in shapes of their own, and what to paste into each."""

import json
from typing import Any

import click

from gateway.common.suggestions import did_you_mean
from gateway.sources.catalogue import SOURCES
from gateway.sources.source import Source

KEY = "YOUR_KEY"
WAYS_IN = {
    "key": "key (Authorization, x-api-key)",
    "firehose_access_key": "key as Firehose access key",
    "vendor_headers": "key in x-goog-api-key, cf-aig-authorization or hec",
    "path_token": "key in the address (sources.{name}.url_token)",
    "hmac_sha256": "signature (sources.{name}.secret)",
    "hmac_sha1": "signature (sources.{name}.secret)",
}


def print_sources(address: str, *, as_json: bool) -> None:
    """One line a source, or all of them as a JSON array."""
    if as_json:
        click.echo(json.dumps([described(source, address) for source in SOURCES.values()], indent=2))
        return
    width = max(map(len, SOURCES))
    for source in SOURCES.values():
        click.echo(f"{source.name:<{width}}  {source.title}")
    click.echo(
        f"\nEach posts to {address.rstrip('/')}/v1/sources/NAME. What to paste into one: telemetry-gateway sources NAME"
    )


def print_source(name: str, address: str, *, as_json: bool) -> None:
    """What one source is, with its snippet. Raises UsageError for a name that is none."""
    source = SOURCES.get(name)
    if source is None:
        raise click.UsageError(f"no source is named {name!r}{did_you_mean(name, SOURCES)}")
    shown = described(source, address)
    if as_json:
        click.echo(json.dumps(shown, indent=2))
        return
    click.echo(f"{source.title}\n")
    click.echo(f"address        {shown['url']}")
    for other in shown["also_at"]:
        click.echo(f"               {other}")
    for way in shown["authentication"]:
        click.echo(f"authenticates  {way}")
    click.echo(f"when refused   {source.retries}")
    click.echo(f"\n{shown['snippet']}")


def described(source: Source, address: str) -> dict[str, Any]:
    """The source as plain data; *address* is the base URL of the senders' listener."""
    url = f"{address.rstrip('/')}/v1/sources/{source.name}"
    return {
        "name": source.name,
        "title": source.title,
        "url": url,
        "also_at": [address.rstrip("/") + path for path in source.native_paths],
        "authentication": [WAYS_IN[way].format(name=source.name) for way in source.ways_in],
        "when_refused": source.retries,
        "snippet": source.snippet.text.format(url=url, key=KEY),
        "language": source.snippet.language,
    }
