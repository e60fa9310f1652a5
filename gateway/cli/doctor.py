"""`doctor`: looks at all that a gateway stands on, and names for each fault what to do.

It finds what `check` finds, and beyond that: the disk, the clock, what the upstream makes of each
key, and how the gateway that runs on the data directory fares. It changes nothing.
"""

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from exporters.keyring import NOT_WANTED
from gateway.cli.doctor_exporters import of_exporters
from gateway.cli.doctor_probes import DISK_SLOW_S, clock_skew_s, free_bytes, network_file_system, sync_s
from gateway.cli.no_owner import is_without_owner, without_owner
from gateway.cli.options import read_config
from gateway.cli.printing import coloured
from gateway.cli.requests import DEVICES, SENDERS, STATUS, ask
from gateway.cli.start_checks import StartChecks, try_upstream
from gateway.common.contract.errors import CannotStart
from gateway.common.native import READER, WHY_NOT, described
from gateway.common.plural import plural
from gateway.common.printable import harmless
from gateway.config.draft import ConfigFaults
from gateway.config.environment import misspelt
from gateway.config.model import Config, Upstream
from gateway.operate import devices, senders, spool_files
from gateway.operate.edges import QUERY
from gateway.operate.findings.finding import Finding, Found, Level, Part
from gateway.operate.findings.gather import SENDERS_TO_LOOK_AT
from gateway.operate.findings.senders import of_edges, of_senders
from gateway.operate.findings.status import of_status
from gateway.operate.findings.upstream import SILENT, scopes_in, scopes_text, upstream_remedy
from gateway.pipeline.delivery.lanes import further_without_scope, lanes_without_scope
from spool.sqlite.recovery.summary import read_summary

SKEW_MAX_S: Final = 60.0
"""The service looks at times; a record from tomorrow is in no report of today."""
OLDEST_SQLITE: Final = (3, 37, 0)
"""The first with STRICT tables."""

REMEDIES: Final[Mapping[Part, str]] = {
    "data directory": "put owner and mode right, or name a folder of the gateway's own in data_dir",
    "disk": "make room, or set data_dir on a larger disk: until then new data is refused",
    "mcp": "install the extra `mcp`, or set `mcp: off`",
    "keys": "restore control.db and control.pepper together from one backup; of a newer release, run that one",
    "open intake": "make a key (`telemetry-gateway keys create`), or listen on loopback alone",
    "secrets": "restore the file from the backup that the spool is of; admin-token may be removed, and is made again",
    "local service": "restore the folder `service` from one backup; of a newer release, run that one",
    "database": "start it, or correct store.dsn and store.password: `psql` with the same dsn shows whether it answers",
    "clock": "set the clocks of this machine and of the database by NTP (`timedatectl`)",
    "connections": "raise max_connections of the database, or lower store.connections",
    "cell": "look at the logs of the gateways for `cell could not be owned`",
    "spool": "run the release that wrote it; a damaged one is salvaged by `run`, which counts what is lost",
    "upstream": "correct upstream.base_url or upstream.ca_file",
    "TLS": "put certificate and key of one pair in place, renewed; they are read again without a restart",
    "listeners": "stop what listens there (`ss -ltnp`), or set another address",
}
"""What to do about a part, where what was found there does not say it."""

MARKS: Final[Mapping[Level, tuple[str, str]]] = {
    "ok": ("ok     ", "green"),
    "warning": ("WARNING", "yellow"),
    "fault": ("FAULT  ", "red"),
}
"""Level -> its word and colour."""


async def examine(config_file: Path | None, data_dir: Path | None, *, as_json: bool) -> int:
    """Print each finding as it is made; 1 where one is a fault."""
    found: list[Finding] = []
    async for finding in findings(config_file, data_dir):
        found.append(finding)
        if not as_json:
            print_finding(finding)
    if as_json:
        click.echo(json.dumps({"findings": [finding.document() for finding in found]}))
    else:
        faults = sum(finding.level == "fault" for finding in found)
        warnings = sum(finding.level == "warning" for finding in found)
        click.echo(f"\n{plural(faults, 'fault', 'faults')}, {plural(warnings, 'warning', 'warnings')}")
    return int(any(finding.level == "fault" for finding in found))


def print_finding(finding: Finding) -> None:
    click.echo(f"{coloured(*MARKS[finding.level])} {finding.what}: {harmless(finding.whole)}")
    if finding.remedy is not None:
        click.echo(f"        -> {finding.remedy}")


async def findings(config_file: Path | None, data_dir: Path | None) -> AsyncIterator[Finding]:
    """From the configuration to the running gateway; without a sound configuration nothing else is
    looked at.
    """
    for finding in of_environment(os.environ):
        yield finding
    try:
        config = read_config(config_file, data_dir)
    except ConfigFaults as error:
        where = "the environment or the flags" if config_file is None else str(config_file)
        for fault in error.faults:
            yield Finding("fault", "configuration", str(fault), f"correct it in {where}; docs/configuration.md")
        return
    yield Finding("ok", "configuration", "has no faults" if config_file else "none; the defaults hold")
    checks = StartChecks(config)
    await checks.look()
    for finding in (*of_sqlite(config), *of_start(checks), *of_disk(config), *of_clock(config)):
        yield finding
    if config.upstream is not None:
        async for finding in of_upstream(config.upstream):
            yield finding
    async for finding in of_exporters(config):
        yield finding
    async for finding in of_running(config, checks.owner):
        yield finding


def of_environment(environ: Iterable[str]) -> Iterator[Finding]:
    for name, meant in misspelt(environ).items():
        yield Finding("warning", "environment", f"{name} sets no option", f"rename it to {meant}, or unset it")


def of_sqlite(config: Config) -> Iterator[Finding]:
    if config.store.type != "sqlite":
        return
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        yield Finding("fault", "SQLite", f"{version} is older than {oldest}", "run a Python with a newer SQLite")
    elif not sqlite3.threadsafety:
        yield Finding("fault", "SQLite", f"{version} is built without threads", "run a Python with another SQLite")
    else:
        yield Finding("ok", "SQLite", version)


def of_clock(config: Config) -> Iterator[Finding]:
    """Whether the clock is behind the time that the spool last noted."""
    if config.store.type != "sqlite":
        return
    summary = read_summary(config.data_dir)
    noted_ms = None if summary is None else summary.written_ms
    behind_s = 0.0 if noted_ms is None else noted_ms / 1000 - time.time()
    if behind_s > SKEW_MAX_S:
        text = f"{behind_s:.0f} s behind what the spool noted last: it was set back"
        yield Finding("warning", "clock", text, "set the machine's clock by NTP (`timedatectl`)")
    else:
        yield Finding("ok", "clock", "is not behind what the spool noted last")


def of_start(checks: StartChecks) -> Iterator[Finding]:
    """What `run` would refuse, and what it would do besides."""
    bad = {found.part for found in (*checks.faults, *checks.notes)}
    for part in REMEDIES:
        if part in checks.parts and part not in bad | {"upstream", "disk"}:
            yield Finding("ok", part, "as `run` needs it")
    for found in checks.faults:
        yield Finding("fault", found.part, found.text, found.remedy or REMEDIES[found.part])
    for note in checks.notes:
        yield _noted(note)


def _noted(note: Found) -> Finding:
    if note.part == "listeners":
        return Finding("ok", note.part, note.text)
    return Finding("warning", note.part, note.text, note.remedy or REMEDIES[note.part])


def of_disk(config: Config) -> Iterator[Finding]:
    """Room, speed of a sync, and what kind of file system it is; of the disk of a spool."""
    if config.store.type != "sqlite":
        return
    folder = next(path for path in (config.data_dir, *config.data_dir.absolute().parents) if path.is_dir())
    free, needed = free_bytes(folder), config.spool.max_bytes
    mib = f"{free >> 20} MiB are free"
    if free < needed:
        remedy = f"make room, or set spool.max_bytes below {free >> 20}MiB"
        yield Finding("warning", "disk", f"{mib}; spool.max_bytes is {needed >> 20} MiB", remedy)
    else:
        yield Finding("ok", "disk", mib)
    kind = network_file_system(folder)
    if kind is not None:
        remedy = "set data_dir on a disk of this machine: SQLite's locks and syncs are not sure there"
        yield Finding("warning", "disk", f"{folder} is on a network file system ({kind})", remedy)
    try:
        took_s = sync_s(folder)
    except OSError as error:
        yield Finding("fault", "disk", f"a file cannot be synced: {error.strerror}", REMEDIES["data directory"])
        return
    text = f"a sync takes {took_s * 1000:.1f} ms (median)"
    if took_s > DISK_SLOW_S:
        yield Finding("warning", "disk", text, "each answer waits for one: set data_dir on a faster disk")
    else:
        yield Finding("ok", "disk", text)


async def of_upstream(upstream: Upstream) -> AsyncIterator[Finding]:
    """Whether it answers, takes each key and has our time, and the lanes that no key opens."""
    for lane in upstream.unused_lanes:
        yield Finding("ok", f"lane {lane}", f"off, {NOT_WANTED}")
    for what, reason in further_without_scope(upstream).items():
        yield Finding("ok", what, reason)
    for lane, reason in lanes_without_scope(upstream).items():
        scopes = scopes_text(scopes_in(reason))
        remedy = (
            f"add a key with {scopes} under upstream.keys, or name the lane in upstream.unused_lanes where it is not wanted;"
            " what needs it is accepted and waits"
        )
        yield Finding("warning", f"lane {lane}", reason, remedy)
    try:
        tried = await try_upstream(upstream)
    except CannotStart:
        return  # among the faults of the start
    for name, probed in tried:
        what = f"upstream key {name}"
        if probed.is_well:
            yield Finding("ok", what, f"{probed.text}; {probed.request}")
        else:
            remedy = upstream_remedy(probed.text) or SILENT
            yield Finding("fault", what, f"{upstream.base_url}: {probed.text}; {probed.request}", remedy)
    skew_s = await clock_skew_s(upstream)
    if skew_s is not None and abs(skew_s) > SKEW_MAX_S:
        text = f"{abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} the upstream's"
        yield Finding("warning", "clock", text, "set the machine's clock by NTP (`timedatectl`)")
    elif skew_s is not None:
        yield Finding("ok", "clock", "agrees with the upstream's")


async def of_running(config: Config, owner: str | None) -> AsyncIterator[Finding]:
    """What the gateway that runs there reports of itself."""
    if owner is None:
        yield Finding("ok", "reader", described(READER, WHY_NOT))
        yield Finding("warning", "gateway", "none runs on this data directory", "start it: `telemetry-gateway run`")
        return
    try:
        async with asyncio.timeout(30):
            status: Mapping[str, Any] = await ask(config, STATUS, spool_files.STATUS)
    except (click.ClickException, TimeoutError) as error:
        if is_without_owner(error):
            yield without_owner(error)
            return
        text = error.message if isinstance(error, click.ClickException) else "does not answer within 30 s"
        yield Finding("fault", "gateway", f"process {owner}: {text}", "see its log; restart it where it hangs")
        return
    yield Finding("ok", "gateway", f"process {owner} answers, version {status.get('version', 'unknown')}")
    if reader := status.get("reader"):
        yield Finding("ok", "reader", described(reader["name"], reader["why_not_native"]))
    for finding in of_status(status):
        yield finding
    with suppress(click.ClickException):  # of an older release, which does not know
        for finding in of_senders(await ask(config, SENDERS, senders.LIST, query=SENDERS_TO_LOOK_AT)):
            yield finding
    with suppress(click.ClickException):  # as above
        for finding in of_edges(await ask(config, DEVICES, devices.LIST, query=QUERY)):
            yield finding
