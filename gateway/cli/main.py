"""`telemetry-gateway`: one short function a command; the work is elsewhere."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from gateway.config import Config
from gateway.config_draft import ConfigFaults
from gateway.config_load import load_config
from gateway.local_service.misbehave import parse_misbehave

config_option = click.option(
    "--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), help="YAML; see docs/configuration.md."
)
data_dir_option = click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where everything is kept."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class Faulty(click.ClickException):
    """Ends the command with its message and exit code 1."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="ai-telemetry-gateway")
def main() -> None:
    """Receives AI telemetry, counts every call once, keeps it on disk before it says yes, and forwards it."""


@main.command()
@config_option
@data_dir_option
@click.option("--listen-http", help="host:port of the senders' listener; port 0 picks a free one.")
@click.option("--listen-admin", help="host:port of the admin listener.")
@click.option("--ports-file", type=click.Path(path_type=Path), help="Write the bound ports here as JSON once ready.")
def run(
    config_file: Path | None,
    data_dir: Path | None,
    listen_http: str | None,
    listen_admin: str | None,
    ports_file: Path | None,
) -> None:
    """Run the gateway until SIGINT or SIGTERM."""
    from gateway.cli.running import run_gateway  # noqa: PLC0415 starting the other commands must not cost its imports

    config = _config(config_file, data_dir, {"listen.http": listen_http, "listen.admin": listen_admin})
    sys.exit(run_gateway(config, ports_file))


@main.command()
@click.option("--keep", is_flag=True, help="Stay up afterwards and print a login link to the status page.")
def demo(keep: bool) -> None:  # noqa: FBT001 a flag of the command line
    """Send sample traffic through a gateway of its own and show what arrives."""
    from gateway.cli.demo import run_demo  # noqa: PLC0415 needs the extra `demo`

    sys.exit(run_demo(keep=keep))


@main.command()
@click.option("--path", default="/v1/traces", show_default=True, help="Where the payload would be posted.")
@click.option("--content-type", default="application/x-protobuf", show_default=True)
@click.option("--content-encoding", default="", help="gzip, deflate, zstd; empty for none.")
@click.option("--explain", is_flag=True, help="Tell of each item what became of it, and which name gave each field.")
@click.option("--json", "as_json", is_flag=True, help="With --explain: one JSON object an item.")
@click.argument("file", type=click.File("rb"), default="-")
def normalise(path: str, content_type: str, content_encoding: str, explain: bool, as_json: bool, file: Any) -> None:  # noqa: FBT001 flags of the command line
    """Print the records of one payload as NDJSON, and its rejections on stderr. FILE: `-` reads stdin."""
    if explain:
        from gateway.cli.explaining import print_explanations  # noqa: PLC0415 as above

        sys.exit(print_explanations(file.read(), path, content_type, content_encoding, as_json=as_json))
    if as_json:
        raise click.UsageError("--json goes with --explain; without it the records are NDJSON already")
    from gateway.cli.normalising import print_records  # noqa: PLC0415 as above

    sys.exit(print_records(file.read(), path, content_type, content_encoding))


@main.command()
@config_option
@data_dir_option
@click.option("--schema", is_flag=True, help="Print the configuration's JSON Schema instead.")
def check(config_file: Path | None, data_dir: Path | None, schema: bool) -> None:  # noqa: FBT001 a flag of the command line
    """Check a configuration and tell all its faults at once. Opens nothing."""
    from gateway.cli.checking import print_check, print_schema  # noqa: PLC0415 as above

    if schema:
        print_schema()
    else:
        print_check(_config(config_file, data_dir, {}))


@main.group()
def service() -> None:
    """The local stand-in for the cost management service."""


@service.command("run")
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), required=True)
@click.option("--listen", default="127.0.0.1:4320", show_default=True)
@click.option("--fail", default="", help="Misbehave: status:share, such as 429:0.1,500:0.05.")
@click.option("--latency", default="", help="Misbehave: wait before each answer, such as 200ms.")
@click.option("--reset", default="", help="Misbehave: share of connections cut without an answer.")
@click.option("--seed", type=int, help="Misbehave the same way each time.")
@click.option("--ports-file", type=click.Path(path_type=Path), help="Write the bound port here as JSON once ready.")
def service_run(
    data_dir: Path, listen: str, fail: str, latency: str, reset: str, seed: int | None, ports_file: Path | None
) -> None:
    """Run the service alone; its keys are made at first start and lie in the data directory."""
    from gateway.cli.running import run_service  # noqa: PLC0415 as above

    try:
        misbehave = parse_misbehave(fail=fail, latency=latency, reset=reset)
    except ValueError as error:
        raise Faulty(str(error)) from error
    sys.exit(run_service(data_dir, listen, misbehave, seed, ports_file))


@main.command()
@click.argument("name", required=False)
@click.option(
    "--address", default="http://127.0.0.1:4318", show_default=True, help="The gateway's, as the product reaches it."
)
@json_option
def sources(name: str | None, address: str, as_json: bool) -> None:  # noqa: FBT001 a flag of the command line
    """List the AI gateways that can push here, or show what to paste into the one called NAME."""
    from gateway.cli.sources import print_source, print_sources  # noqa: PLC0415 as above

    if name is None:
        print_sources(as_json=as_json)
    else:
        print_source(name, address, as_json=as_json)


@main.group()
def spool() -> None:
    """What is kept on disk."""


@spool.command("status")
@config_option
@data_dir_option
@json_option
def spool_status(config_file: Path | None, data_dir: Path | None, as_json: bool) -> None:  # noqa: FBT001 a flag of the command line
    """Show the counts of the spool: from the running gateway, or from the file when none runs."""
    from gateway.cli.spool_status import print_status  # noqa: PLC0415 as above

    sys.exit(asyncio.run(print_status(_config(config_file, data_dir, {}), as_json=as_json)))


def _config(config_file: Path | None, data_dir: Path | None, flags: dict[str, object]) -> Config:
    overrides = {option: value for option, value in flags.items() if value is not None}
    if data_dir is not None:
        overrides["data_dir"] = str(data_dir)
    try:
        return load_config(config_file, overrides)
    except ConfigFaults as error:
        raise Faulty(f"the configuration has {len(error.faults)} fault(s)\n{error}") from error


if __name__ == "__main__":
    main()
