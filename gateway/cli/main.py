"""`telemetry-gateway`: one short function a command; the work is elsewhere."""

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from gateway.cli.groups import Commands, SectionedGroup
from gateway.cli.options import (
    Faulty,
    config_of,
    config_option,
    data_dir_option,
    json_option,
    passphrase_option,
    plug_in_sources,
    profile_option,
    read_config,
)

_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


COMMANDS = Commands(
    {
        "devices": "gateway.cli.devices:devices",
        "senders": "gateway.cli.senders:senders",
        "keys": "gateway.cli.keys_commands:keys",
        "viewer-tokens": "gateway.cli.viewer_tokens:viewer_tokens",
        "usage": "gateway.cli.usage_commands:usage",
        "budgets": "gateway.cli.budgets:budgets",
        "views": "gateway.cli.views:views",
        "allocation": "gateway.cli.allocation:allocation",
        "recommendations": "gateway.cli.recommendations:recommendations",
        "export": "gateway.cli.usage_commands:export",
        "billing": "gateway.cli.billing:billing",
        "store": "gateway.cli.store:store",
        "forget-user": "gateway.cli.usage_commands:forget_user",
        "reconcile": "gateway.cli.usage_commands:reconcile",
    }
)
"""Those of other modules; the others are added below."""


@click.group(
    cls=SectionedGroup,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="ai-telemetry-gateway")
def main() -> None:
    """Receive AI telemetry, count every call once, and forward it.

    Data is on disk before its sender is answered. To begin: `run`, then `sources`, then `status`.
    When something is wrong: `doctor`.
    """


@main.command()
@config_option
@data_dir_option
@profile_option
@click.option("--listen-http", help="host:port of the senders' listener; port 0 picks a free one.")
@click.option("--listen-grpc", help="host:port of the senders' gRPC listener, or off.")
@click.option("--listen-admin", help="host:port of the admin listener.")
@click.option("--ports-file", type=click.Path(path_type=Path), help="Write the bound ports here as JSON once ready.")
def run(
    config_file: Path | None,
    data_dir: Path | None,
    profile: str | None,
    listen_http: str | None,
    listen_grpc: str | None,
    listen_admin: str | None,
    ports_file: Path | None,
) -> None:
    """Run the gateway.

    SIGINT and SIGTERM stop it; SIGHUP reloads the configuration.

    \b
    Examples:
      telemetry-gateway run
      telemetry-gateway run --config gateway.yaml --ports-file ports.json
    """
    from gateway.cli.running import run_gateway  # noqa: PLC0415 starting the other commands must not cost its imports

    flags: dict[str, object] = {
        "profile": profile,
        "listen.http": listen_http,
        "listen.grpc": listen_grpc,
        "listen.admin": listen_admin,
    }
    config = config_of(config_file, data_dir, flags, has_secrets=True)
    sys.exit(run_gateway(config, config_file, ports_file, lambda: read_config(config_file, data_dir, flags)))


@main.command()
@config_option
@data_dir_option
@click.option("--live", "is_alive_enough", is_flag=True, help="Ask whether it runs, not whether it takes data.")
def healthcheck(config_file: Path | None, data_dir: Path | None, is_alive_enough: bool) -> None:  # noqa: FBT001 a flag of the command line
    """Ask the running gateway whether it is ready.

    Exit code 1: it is not ready, or no gateway answers.
    """
    from gateway.cli.health import run_probe  # noqa: PLC0415 as above

    sys.exit(run_probe(config_of(config_file, data_dir), is_alive_enough=is_alive_enough))


@main.command()
@click.option("--keep", is_flag=True, help="Stay up afterwards and print a login link to the status page.")
@click.option("--edges", type=click.IntRange(2, 9), help="So many gateways in front of a hub, of which one is killed.")
@click.option(
    "--outage",
    type=click.FloatRange(0, 600),
    default=60.0,
    show_default=True,
    help="With --edges: how many seconds the hub is stopped.",
)
@click.option("--cluster", is_flag=True, help="Three gateways that count as one, on a Postgres with two standbys.")
def demo(keep: bool, edges: int | None, outage: float, cluster: bool) -> None:  # noqa: FBT001 flags of the command line
    """Send sample calls through a gateway and show the result.

    The gateway is one of the demo's own, on free ports and in a temporary directory.

    Exit code 1: what arrived is not what was sent.
    """
    try:
        from gateway.cli.demo import run_demo  # noqa: PLC0415 needs the extra `demo`
        from gateway.cli.demo_edges import run_edges_demo  # noqa: PLC0415 as above
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("opentelemetry"):
            raise
        raise click.ClickException(
            "the demo sends its traffic with the OpenTelemetry SDK, which is not installed:"
            " pip install 'ai-telemetry-gateway[demo]'"
        ) from missing

    if cluster:
        try:
            from gateway.cli.demo_cluster import run_cluster_demo  # noqa: PLC0415 psycopg is an extra
        except ModuleNotFoundError as missing:
            raise click.ClickException(
                f"a cell needs {missing.name}: pip install 'ai-telemetry-gateway[postgres]'"
            ) from missing
        sys.exit(run_cluster_demo(keep=keep))
    sys.exit(run_demo(keep=keep) if edges is None else run_edges_demo(edges, outage_s=outage, keep=keep))


@main.command()
@click.option("--path", default="/v1/traces", show_default=True, help="Where the payload would be posted.")
@click.option(
    "--content-type", default="application/x-protobuf", show_default=True, help="Content-Type of the payload."
)
@click.option("--content-encoding", default="", help="gzip, deflate, zstd; empty for none.")
@click.option("--explain", is_flag=True, help="Report the outcome of each item, and which name gave each field.")
@click.option("--json", "as_json", is_flag=True, help="With --explain: one JSON object an item.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Apply its sources.generic, pricing and attributes.",
)
@click.argument("file", type=click.File("rb"), default="-")
def normalise(
    path: str,
    content_type: str,
    content_encoding: str,
    explain: bool,  # noqa: FBT001 a flag of the command line
    as_json: bool,  # noqa: FBT001 the same
    config_file: Path | None,
    file: Any,
) -> None:
    """Print the records that one payload becomes.

    Records go to stdout as NDJSON, rejections to stderr. FILE: `-` reads stdin.

    \b
    Examples:
      telemetry-gateway normalise --path /v1/traces payload.bin
      telemetry-gateway normalise --explain --content-type application/json payload.json
    """
    from gateway.config.model import Config  # noqa: PLC0415 as above

    plug_in_sources()
    if explain:
        from gateway.cli.explaining import print_explanations  # noqa: PLC0415 as above

        config = Config() if config_file is None else config_of(config_file, None)
        sys.exit(print_explanations(file.read(), path, content_type, content_encoding, config, as_json=as_json))
    if as_json:
        raise click.UsageError("--json goes with --explain; without it the records are NDJSON already")
    from gateway.cli.normalising import print_records  # noqa: PLC0415 as above

    config = Config() if config_file is None else config_of(config_file, None)
    sys.exit(print_records(file.read(), path, content_type, content_encoding, config))


@main.command("open")
@config_option
@data_dir_option
@click.option("--print", "prints", is_flag=True, help="Print the link alone; start no browser.")
@click.option(
    "--viewer", "is_viewer", is_flag=True, help="A link for a session that reads all but keys, and changes nothing."
)
def open_page(config_file: Path | None, data_dir: Path | None, prints: bool, is_viewer: bool) -> None:  # noqa: FBT001 flags of the command line
    """Open the page of the running gateway in a browser.

    The link works once.
    """
    from gateway.cli.opening import open_status_page  # noqa: PLC0415 as above

    sys.exit(
        asyncio.run(open_status_page(config_of(config_file, data_dir), starts_browser=not prints, is_viewer=is_viewer))
    )


@main.command()
@config_option
@data_dir_option
@json_option
def doctor(config_file: Path | None, data_dir: Path | None, as_json: bool) -> None:  # noqa: FBT001 a flag of the command line
    """Find what is wrong, and what to do about it.

    Looks at configuration, data directory, disk, clock, upstream, keys and the running gateway.
    Each key is tried at the upstream: the key of AI telemetry by a request without records, to the
    path that calls are sent to. Exit code 1: something is a fault.

    \b
    Examples:
      telemetry-gateway doctor --config gateway.yaml
      telemetry-gateway doctor --json
    """
    from gateway.cli.doctor import examine  # noqa: PLC0415 as above

    sys.exit(asyncio.run(examine(config_file, data_dir, as_json=as_json)))


@main.command("status")
@config_option
@data_dir_option
@json_option
def status(config_file: Path | None, data_dir: Path | None, as_json: bool) -> None:  # noqa: FBT001 a flag of the command line
    """Show whether the gateway is well, and what to do if not.

    What waits, what is wrong, and today's calls and cost. Asks the running gateway; if none runs,
    it says so and reads the files. Exit code 0: a gateway runs, and nothing is a fault.

    \b
    Examples:
      telemetry-gateway status
      telemetry-gateway status --json | jq .state
    """
    from gateway.cli.status import print_status  # noqa: PLC0415 as above

    sys.exit(asyncio.run(print_status(config_of(config_file, data_dir), as_json=as_json)))


@main.command("top")
@config_option
@data_dir_option
@click.option("--once", is_flag=True, help="Print one frame and end, as where stdout is not a terminal.")
def top(config_file: Path | None, data_dir: Path | None, once: bool) -> None:  # noqa: FBT001 a flag of the command line
    """Watch lanes, rates and today's cost on one screen.

    With the senders and the slowest calls of the last minute. A new frame is drawn every two
    seconds; q ends it.
    """
    from gateway.cli.top import show_top  # noqa: PLC0415 as above

    sys.exit(asyncio.run(show_top(config_of(config_file, data_dir), once=once)))


@main.command("tap")
@config_option
@data_dir_option
@click.option(
    "--outcome",
    multiple=True,
    type=click.Choice(["kept", "duplicate", "suppressed"]),
    help="May be repeated, like all filters.",
)
@click.option("--provider", multiple=True, help="Such as openai, aws.bedrock.")
@click.option("--model", multiple=True, help="The model that answered, else the requested one.")
@click.option("--team", multiple=True, help="Of the call's attribution.")
@click.option("--project", multiple=True, help="As --team.")
@click.option("--key", multiple=True, help="Name of the inbound key.")
@click.option("--service", multiple=True, help="service.name of the sender.")
@click.option("--device", multiple=True, help="Id of the device.")
@click.option("--limit", type=click.IntRange(min=1), help="End after this many lines.")
@json_option
def tap(
    config_file: Path | None,
    data_dir: Path | None,
    limit: int | None,
    as_json: bool,  # noqa: FBT001 a flag of the command line
    **filters: tuple[str, ...],
) -> None:
    """Watch single calls as they settle.

    Tokens, cost, key, team and outcome of each, without content and users. A terminal that is too
    slow loses lines, and shows how many; the gateway waits for none.

    \b
    Examples:
      telemetry-gateway tap --team checkout
      telemetry-gateway tap --outcome duplicate --outcome suppressed
      telemetry-gateway tap --json --model gpt-4o | jq .cost
    """
    from gateway.cli.tap import print_tap  # noqa: PLC0415 as above

    chosen = [(name, value) for name, values in filters.items() for value in values]
    sys.exit(asyncio.run(print_tap(config_of(config_file, data_dir), chosen, most=limit, as_json=as_json)))


@main.command("backup")
@config_option
@data_dir_option
@click.option("--to", type=_FILE, required=True, help="The file to write; it must not exist.")
@click.option("--encrypt", "encrypts", is_flag=True, help="Encrypt it to a passphrase (age format).")
@passphrase_option
@click.option("--work-dir", type=_FOLDER, help="Where the databases are copied to first; default: the data directory.")
@click.option("--with-config", "has_config", is_flag=True, help="Include the file of --config.")
@json_option
def backup(
    config_file: Path | None,
    data_dir: Path | None,
    to: Path,
    encrypts: bool,  # noqa: FBT001 a flag of the command line
    passphrase_file: Path | None,
    work_dir: Path | None,
    has_config: bool,  # noqa: FBT001 as above
    as_json: bool,  # noqa: FBT001 as above
) -> None:
    """Write everything into one file, also while it runs.

    Spool, keys, devices, usage, insights, tokens and secrets, as of one moment. The passphrase is
    typed, or read from --passphrase-file or $TELEMETRY_GATEWAY_BACKUP_PASSPHRASE.

    \b
    Examples:
      telemetry-gateway backup --to /backup/gateway.tar
      telemetry-gateway backup --to /backup/gateway.tar.age --encrypt
      telemetry-gateway backup --to gw.age --encrypt --passphrase-file ./phrase
    """
    from gateway.cli.backup import Wanted, back_up  # noqa: PLC0415 as above
    from gateway.cli.passphrase import passphrase_from  # noqa: PLC0415 as above

    if has_config and config_file is None:
        raise click.UsageError("--with-config needs --config FILE")
    config = config_of(config_file, data_dir)
    encrypts = encrypts or passphrase_file is not None
    passphrase = passphrase_from(passphrase_file, is_new=True) if encrypts else None
    folder = None if work_dir is None else work_dir.absolute()
    wanted = Wanted(to.absolute(), passphrase, folder, config_file if has_config else None)
    sys.exit(asyncio.run(back_up(config, wanted, as_json=as_json)))


@main.command("restore")
@config_option
@data_dir_option
@passphrase_option
@json_option
@click.argument("file", type=_FILE)
def restore(
    config_file: Path | None,
    data_dir: Path | None,
    passphrase_file: Path | None,
    as_json: bool,  # noqa: FBT001 a flag of the command line
    file: Path,
) -> None:
    """Fill an empty data directory from a backup.

    FILE is one that `backup` wrote. Every byte is checked before a file gets its place. Start the
    gateway afterwards with `telemetry-gateway run`.

    \b
    Example:
      telemetry-gateway restore /backup/gateway.tar --data-dir ./data
    """
    from gateway.cli.passphrase import passphrase_from  # noqa: PLC0415 as above
    from gateway.cli.restore import restore as restored  # noqa: PLC0415 as above

    config = config_of(config_file, data_dir)
    ask = partial(passphrase_from, passphrase_file, is_new=False)
    sys.exit(restored(file, config.data_dir, ask, as_json=as_json))


@main.command()
@config_option
@data_dir_option
@profile_option
@click.option("--connect", "connects", is_flag=True, help="Try the upstream and each of its keys, too.")
@click.option("--schema", is_flag=True, help="Print the configuration's JSON Schema instead.")
def check(
    config_file: Path | None,
    data_dir: Path | None,
    profile: str | None,
    connects: bool,  # noqa: FBT001 a flag of the command line
    schema: bool,  # noqa: FBT001 the same
) -> None:
    """Print every fault for which `run` would not start.

    It checks what `run` checks, and changes nothing.

    \b
    Examples:
      telemetry-gateway check --config gateway.yaml --connect
      telemetry-gateway check --schema
    """
    from gateway.cli.checking import check_whole, print_schema  # noqa: PLC0415 as above

    if schema:
        print_schema()
    else:
        asyncio.run(
            check_whole(config_of(config_file, data_dir, {"profile": profile}, has_secrets=True), connects=connects)
        )


@main.group()
def service() -> None:
    """The local stand-in for the cost management service."""


@service.command("run")
@click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), required=True, help="Where everything is kept."
)
@click.option("--listen", default="127.0.0.1:4320", show_default=True, help="host:port; port 0 picks a free one.")
@click.option("--fail", default="", help="Misbehave: status:share, such as 429:0.1,500:0.05.")
@click.option("--latency", default="", help="Misbehave: wait before each answer, such as 200ms.")
@click.option("--reset", default="", help="Misbehave: share of connections cut without an answer.")
@click.option("--seed", type=int, help="Misbehave the same way each time.")
@click.option("--ports-file", type=click.Path(path_type=Path), help="Write the bound port here as JSON once ready.")
def service_run(
    data_dir: Path, listen: str, fail: str, latency: str, reset: str, seed: int | None, ports_file: Path | None
) -> None:
    """Run the service alone.

    Its keys are made at the first start and are kept in the data directory.
    """
    from gateway.cli.running import run_service  # noqa: PLC0415 as above
    from gateway.local_service.misbehave import parse_misbehave  # noqa: PLC0415 as above

    try:
        misbehave = parse_misbehave(fail=fail, latency=latency, reset=reset)
    except ValueError as error:
        raise Faulty(str(error)) from error
    sys.exit(run_service(data_dir, listen, misbehave, seed, ports_file))


@main.command()
@click.argument("name", required=False)
@click.option(
    "--address",
    default="http://127.0.0.1:4318",
    show_default=True,
    help="The gateway's address, as the product reaches it.",
)
@click.option("--grpc-address", default="127.0.0.1:4317", show_default=True, help="The same for OTLP over gRPC.")
@json_option
def sources(
    name: str | None,
    address: str,
    grpc_address: str,
    as_json: bool,  # noqa: FBT001 a flag of the command line
) -> None:
    """List products that can send here, and their settings.

    With NAME: what to paste into that one.

    \b
    Examples:
      telemetry-gateway sources
      telemetry-gateway sources litellm --address https://gateway.example
    """
    from gateway.cli.sources import print_source, print_sources  # noqa: PLC0415 as above

    plug_in_sources()
    if name is None:
        print_sources(address, grpc_address, as_json=as_json)
    else:
        print_source(name, address, grpc_address, as_json=as_json)


@main.command()
@click.argument("sender")
@config_option
@data_dir_option
@click.option("--key-name", help="Of the new key. [default: the sender's name and the time]")
@click.option("--address", help="The gateway's address, as the sender reaches it. [default: of the configuration]")
@click.option("--grpc-address", help="The same for OTLP over gRPC.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    help="Seconds for its first call.",
)
@click.option("--by", help="Your e-mail, for Created By of the key. [default: user@host]")
@click.option("--yes", is_flag=True, help="Go on even though senders without a key will be refused.")
@json_option
def connect(
    config_file: Path | None,
    data_dir: Path | None,
    yes: bool,  # noqa: FBT001 as above
    as_json: bool,  # noqa: FBT001 as above
    **asked: Any,
) -> None:
    """Make a sender's key, print what to paste, wait for a call.

    SENDER is a name that `telemetry-gateway sources` lists. Exit code 1: no call with tokens came.

    \b
    Examples:
      telemetry-gateway connect python
      telemetry-gateway connect litellm --address https://gateway.example
    """
    from gateway.cli.connect import Asked  # noqa: PLC0415 as above
    from gateway.cli.connect import connect as connect_sender  # noqa: PLC0415 as above

    config = config_of(config_file, data_dir)
    sys.exit(asyncio.run(connect_sender(config, Asked(**asked, is_sure=yes, as_json=as_json))))


@main.group()
def spool() -> None:
    """What is kept on disk: counts, dead letters, repairs."""


@spool.command("status")
@config_option
@data_dir_option
@json_option
def spool_status(config_file: Path | None, data_dir: Path | None, as_json: bool) -> None:  # noqa: FBT001 a flag of the command line
    """Show the counts of the spool, lane by lane.

    From the running gateway, or from the file when none runs.
    """
    from gateway.cli.spool import print_status  # noqa: PLC0415 as above

    sys.exit(asyncio.run(print_status(config_of(config_file, data_dir), as_json=as_json)))


@spool.command("verify")
@config_option
@data_dir_option
@json_option
def spool_verify(config_file: Path | None, data_dir: Path | None, as_json: bool) -> None:  # noqa: FBT001 a flag of the command line
    """Read the whole spool and check it.

    Pages, rows and counts. Exit code 0 only when all is well.
    """
    from gateway.cli.spool import print_verified  # noqa: PLC0415 as above

    sys.exit(asyncio.run(print_verified(config_of(config_file, data_dir), as_json=as_json)))


@spool.command("backup")
@config_option
@data_dir_option
@json_option
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def spool_backup(config_file: Path | None, data_dir: Path | None, as_json: bool, file: Path) -> None:  # noqa: FBT001 as above
    """Copy the spool to FILE, also while the gateway runs.

    The copy holds the spool of one moment.
    """
    from gateway.cli.spool import print_backup  # noqa: PLC0415 as above

    sys.exit(asyncio.run(print_backup(config_of(config_file, data_dir), file.absolute(), as_json=as_json)))


@spool.command("acknowledge")
@config_option
@data_dir_option
@json_option
def spool_acknowledge(config_file: Path | None, data_dir: Path | None, as_json: bool) -> None:  # noqa: FBT001 as above
    """Confirm that you have seen what the spool lost.

    The gateway is no longer degraded by it.
    """
    from gateway.cli.spool import print_acknowledged  # noqa: PLC0415 as above

    sys.exit(asyncio.run(print_acknowledged(config_of(config_file, data_dir), as_json=as_json)))


@spool.command("set-aside")
@config_option
@data_dir_option
@json_option
@click.argument("lane")
def spool_set_aside(config_file: Path | None, data_dir: Path | None, as_json: bool, lane: str) -> None:  # noqa: FBT001 as above
    """Let a held LANE go on.

    For a lane whose upstream refuses every record, or gives answers that are not understood. Of the
    records that wait now, those that it refuses become dead letters; they can be replayed.
    """
    from gateway.cli.spool import print_set_aside  # noqa: PLC0415 as above

    sys.exit(asyncio.run(print_set_aside(config_of(config_file, data_dir), lane, as_json=as_json)))


@spool.command("replay")
@config_option
@data_dir_option
@click.option("--since", required=True, help="Received then or later: 2h, 1d, or a time such as 2026-01-05T10:00:00Z.")
@click.option("--lane", "lanes", multiple=True, help="Default ai_telemetry; may be repeated.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Count them, and send none.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@json_option
def spool_replay(
    config_file: Path | None,
    data_dir: Path | None,
    since: str,
    lanes: tuple[str, ...],
    is_dry: bool,  # noqa: FBT001 a flag of the command line
    is_sure: bool,  # noqa: FBT001 as above
    as_json: bool,  # noqa: FBT001 as above
) -> None:
    """Send again what was delivered and is still kept.

    For an upstream that lost it. Delivered records are kept for spool.keep_delivered. The command
    asks first if there are more than 1000.

    \b
    Examples:
      telemetry-gateway spool replay --since 6h --dry-run
      telemetry-gateway spool replay --since 2026-01-05T10:00:00Z --lane archive
    """
    from gateway.cli.dead_letters import count_delivered, replay_delivered  # noqa: PLC0415 as above

    config = config_of(config_file, data_dir)
    if is_dry:
        sys.exit(asyncio.run(count_delivered(config, lanes, since, as_json=as_json)))
    sys.exit(asyncio.run(replay_delivered(config, lanes, since, is_sure=is_sure, as_json=as_json)))


@spool.group("dead-letters")
def dead_letters() -> None:
    """Records that the upstream refused for good."""


def _choice_options(command: Callable[..., None]) -> Callable[..., None]:
    """The filters that every command on dead letters has."""
    for option in (
        click.option("--limit", type=click.IntRange(min=1), help="At most this many, the oldest first."),
        click.option("--until", help="Refused before: as --since."),
        click.option("--since", help="Refused then or later: 2h, 1d, or a time such as 2026-01-05T10:00:00Z."),
        click.option("--reason", multiple=True, help="The upstream's code; may be repeated."),
        click.option("--lane", multiple=True, help="May be repeated."),
        data_dir_option,
        config_option,
    ):
        command = option(command)
    return command


@dead_letters.command("list")
@_choice_options
@json_option
def dead_letters_list(config_file: Path | None, data_dir: Path | None, as_json: bool, **choice: Any) -> None:  # noqa: FBT001 a flag of the command line
    """List dead letters, the oldest first: 50, or --limit."""
    from gateway.cli.dead_letters import Choice, print_list  # noqa: PLC0415 as above

    sys.exit(asyncio.run(print_list(config_of(config_file, data_dir), Choice(**choice), as_json=as_json)))


@dead_letters.command("show")
@config_option
@data_dir_option
@json_option
@click.argument("id_", metavar="ID", type=click.IntRange(min=1))
def dead_letters_show(config_file: Path | None, data_dir: Path | None, as_json: bool, id_: int) -> None:  # noqa: FBT001 as above
    """Show one with its record and the upstream's answer."""
    from gateway.cli.dead_letters import print_letter  # noqa: PLC0415 as above

    sys.exit(asyncio.run(print_letter(config_of(config_file, data_dir), id_, as_json=as_json)))


@dead_letters.command("replay")
@_choice_options
@json_option
@click.argument("ids", metavar="[ID]...", type=click.IntRange(min=1), nargs=-1)
def dead_letters_replay(
    config_file: Path | None,
    data_dir: Path | None,
    as_json: bool,  # noqa: FBT001 as above
    ids: tuple[int, ...],
    **choice: Any,
) -> None:
    """Send dead letters again, all or the chosen ones.

    Filters and IDs choose them. They keep their record ids.

    \b
    Examples:
      telemetry-gateway spool dead-letters replay --lane ai_telemetry
      telemetry-gateway spool dead-letters replay 17 18
    """
    from gateway.cli.dead_letters import Choice, replay  # noqa: PLC0415 as above

    sys.exit(asyncio.run(replay(config_of(config_file, data_dir), Choice(**choice), ids, as_json=as_json)))


@dead_letters.command("drop")
@_choice_options
@json_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.argument("ids", metavar="[ID]...", type=click.IntRange(min=1), nargs=-1)
def dead_letters_drop(
    config_file: Path | None,
    data_dir: Path | None,
    as_json: bool,  # noqa: FBT001 as above
    yes: bool,  # noqa: FBT001 as above
    ids: tuple[int, ...],
    **choice: Any,
) -> None:
    """Delete dead letters for good, all or the chosen ones.

    Filters and IDs choose them. They stay counted.
    """
    from gateway.cli.dead_letters import Choice, drop  # noqa: PLC0415 as above

    config = config_of(config_file, data_dir)
    sys.exit(asyncio.run(drop(config, Choice(**choice), ids, is_sure=yes, as_json=as_json)))


@main.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands in your shell.

    \b
    Examples:
      source <(telemetry-gateway completion bash)     # in ~/.bashrc
      source <(telemetry-gateway completion zsh)      # in ~/.zshrc
      telemetry-gateway completion fish | source      # in ~/.config/fish/config.fish
    """
    from gateway.cli.completion import script_of  # noqa: PLC0415 as above

    click.echo(script_of(shell, main))


if __name__ == "__main__":
    main()
