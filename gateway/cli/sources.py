"""`sources`: the AI gateways that push in shapes of their own, the programs that send OTLP by
themselves, and what to paste into each.
"""

import json
from collections.abc import Sequence
from typing import Any

import click

from gateway.common.suggestions import did_you_mean
from gateway.products.catalogue import SOURCES
from gateway.products.connecting import SNIPPET_IN, connection, described, described_sender
from gateway.products.otlp_senders import OTLP_SENDERS


def print_sources(address: str, grpc: str, *, as_json: bool) -> None:
    """One line a source and OTLP sender, or all of them as a JSON array."""
    if as_json:
        shown = [described(source, address) for source in SOURCES.values()]
        shown += [described_sender(sender, address, grpc) for sender in OTLP_SENDERS.values()]
        click.echo(json.dumps(shown, indent=2))
        return
    width = max(map(len, (*SOURCES, *OTLP_SENDERS)))
    click.echo(f"AI gateways, each to {address.rstrip('/')}/v1/sources/NAME:")
    for source in SOURCES.values():
        click.echo(f"  {source.name:<{width}}  {source.title}")
    click.echo("\nAssistants and libraries, over OTLP:")
    for sender in OTLP_SENDERS.values():
        click.echo(f"  {sender.name:<{width}}  {sender.title}")
    click.echo("\nWhat to paste into one: telemetry-gateway sources NAME")


def print_source(name: str, address: str, grpc: str, *, as_json: bool) -> None:
    """What one source or OTLP sender is, with its snippets. Raises UsageError for a name that is
    none.
    """
    shown = connection(name, address, grpc)
    if shown is None:
        raise unknown_source(name)
    if as_json:
        click.echo(json.dumps(shown, indent=2))
    elif shown["kind"] == "source":
        _print_source(shown)
    else:
        _print_sender(shown)


def unknown_source(name: str) -> click.UsageError:
    return click.UsageError(f"no source is named {name!r}{did_you_mean(name, (*SOURCES, *OTLP_SENDERS))}")


def _print_sender(shown: dict[str, Any]) -> None:
    click.echo(f"{shown['title']}\n")
    click.echo(f"run with       {shown['run_with']}")
    click.echo(f"needs          {shown['needs']}")
    if shown["not_reported"]:
        click.echo(f"not reported   {shown['not_reported']}")
    print_snippets(shown["snippets"])


def print_snippets(snippets: Sequence[dict[str, str]]) -> None:
    """Each under the place where it belongs."""
    for snippet in snippets:
        place = snippet["file"] or SNIPPET_IN.get(snippet["language"], "to paste")
        click.echo(f"\n{place}:\n\n{snippet['text']}", nl=False)


def _print_source(shown: dict[str, Any]) -> None:
    click.echo(f"{shown['title']}\n")
    click.echo(f"address        {shown['url']}")
    for other in shown["also_at"]:
        click.echo(f"               {other}")
    for way in shown["authentication"]:
        click.echo(f"authenticates  {way}")
    click.echo(f"when refused   {shown['when_refused']}")
    if len(shown["snippets"]) == 1:
        click.echo(f"\n{shown['snippet']}")
    else:
        print_snippets(shown["snippets"])
