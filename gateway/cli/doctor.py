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

from exporters.cost_service.answers import NOT_UNDERSTOOD
from exporters.cost_service.liveness import LIVENESS_SCOPE
from exporters.keyring import NO_KEY_GRANTS, no_key_grants
from exporters.pacing import REFUSES_ALL
from gateway.admin import senders, spool_files
from gateway.cli.doctor_exporters import of_exporters
from gateway.cli.doctor_probes import DISK_SLOW_S, clock_skew_s, free_bytes, network_file_system, sync_s
from gateway.cli.finding import Finding, Level
from gateway.cli.options import read_config
from gateway.cli.requests import SENDERS, STATUS, ask
from gateway.cli.start_checks import Found, StartChecks, try_upstream
from gateway.common.native import READER, WHY_NOT, described
from gateway.common.plural import plural
from gateway.common.printable import harmless
from gateway.config.draft import ConfigFaults
from gateway.config.environment import misspelt
from gateway.config.model import Config, Upstream
from gateway.contract.errors import CannotStart
from gateway.contract.scopes import ENROLL_SCOPE, HEARTBEAT_SCOPE, INGEST_SCOPE
from gateway.delivery.lanes import further_without_scope, lanes_without_scope
from gateway.observability.lane_log import is_closed
from gateway.observability.metrics import EDGE_OUTCOMES, LaneStatus
from gateway.observability.quarantine import degraded
from spool.sqlite.recovery.summary import read_summary

SKEW_MOST_S: Final = 60.0
"""The service looks at times; a record from tomorrow is in no report of today."""
OLDEST_SQLITE: Final = (3, 37, 0)
"""The first with STRICT tables."""
MOST_REFUSALS: Final = 5
SENDERS_TO_LOOK_AT: Final = (("warning", "silent"), ("warning", "missing_usage"), ("limit", "20"))

REMEDIES: Final[Mapping[str, str]] = {
    "data directory": "put owner and mode right, or name a folder of the gateway's own in data_dir",
    "disk": "make room, or set data_dir on a larger disk: until then new data is refused",
    "mcp": "install the extra `mcp`, or set `mcp: off`",
    "keys": "restore control.db and control.pepper together from one backup; of a newer release, run that one",
    "open intake": "make a key (`telemetry-gateway keys create`), or listen on loopback alone",
    "secrets": "restore the file from the backup that the spool is of; admin-token may be removed, and is made anew",
    "local service": "restore the folder `service` from one backup; of a newer release, run that one",
    "spool": "run the release that wrote it; a damaged one is salvaged by `run`, which counts what is lost",
    "upstream": "correct upstream.base_url or upstream.ca_file",
    "TLS": "put certificate and key of one pair in place, renewed; they are read again without a restart",
    "listeners": "stop what listens there (`ss -ltnp`), or set another address",
}
"""Part of `gateway.cli.start_checks` -> what to do."""

BILLING_REMEDY: Final = (
    "the connection has to be established and active at the upstream, and a key has to grant send-billing-data"
)
KEY_REMEDIES: Final[Mapping[str, str]] = {
    "the proxy": "correct upstream.proxy, and see whether the proxy runs and lets this machine through",
    "401": "put a key that the service knows in its place: it may be mistyped, disabled or deleted there",
    "403": "have the key given the scope at the service, or name another one",
    "404": "correct upstream.base_url, and upstream.preset",
    "secret": "put the secret where upstream.keys names it",
    "certificate": "name the authority that signed it in upstream.ca_file",
    NOT_UNDERSTOOD: "correct upstream.base_url: a proxy, a login or another service answers there",
    "resolved": "correct the host of upstream.base_url, or the machine's DNS",
}
"""Words of `exporters.cost_service.probe` -> what to do."""
SILENT_REMEDY: Final = (
    "correct upstream.base_url, and see whether the upstream runs, and a firewall or proxy lies between"
)

NO_SCOPE_REMEDY: Final = "add a key with that scope under upstream.keys, and restart"
LANE_REMEDIES: Final[Mapping[str, str]] = {
    "off": NO_SCOPE_REMEDY,
    "held": "correct the key or the address that the reason names; the lane tries again by itself",
    "retrying": "look at the upstream; the lane tries again by itself, and nothing is lost meanwhile",
    "behind": "give the gateway more CPU: calls wait longer for their settling than counting.settle",
}
REASON_REMEDIES: Final[Mapping[str, str]] = {
    NO_KEY_GRANTS: NO_SCOPE_REMEDY,
    "lacks the scope": (
        "have that key given the scope at the service, or name another key that has it; the lane tries again by itself"
    ),
    REFUSES_ALL: (
        "correct what it complains of, here or at the upstream; the lane probes and goes on by itself. If the refusals are"
        " right, `telemetry-gateway spool set-aside LANE` makes dead letters of them, to be replayed later"
    ),
    NOT_UNDERSTOOD: (
        "look at what answers at the lane's address: a proxy, a login, another version of the service; the lane probes"
        " and goes on by itself. `telemetry-gateway spool set-aside LANE` makes dead letters of the records it is held by"
    ),
}
"""Words of a lane's reason -> what to do, before what its state says."""

REFUSAL_REMEDIES: Final[Mapping[str, str]] = {
    "no_key": "give the sender the header `Authorization` with a key of `keys create`",
    "key_unknown_or_disabled": "`keys list`: is the sender's key there, and enabled?",
    "not_found": "correct the sender's path: `sources` lists those that there are",
    "grpc_on_http_port": "point the sender at the port of gRPC, or set its protocol to http/protobuf",
    "foreign_host": "make a key: open intake answers on loopback alone",
}


async def examine(config_file: Path | None, data_dir: Path | None, *, as_json: bool) -> int:
    """Print each finding as it is made; 1 where one is a fault."""
    found: list[Finding] = []
    async for finding in findings(config_file, data_dir):
        found.append(finding)
        if not as_json:
            print_finding(finding)
    if as_json:
        click.echo(json.dumps({"findings": [finding._asdict() for finding in found]}))
    else:
        faults = sum(finding.level == "fault" for finding in found)
        warnings = sum(finding.level == "warning" for finding in found)
        click.echo(f"\n{plural(faults, 'fault', 'faults')}, {plural(warnings, 'warning', 'warnings')}")
    return int(any(finding.level == "fault" for finding in found))


def print_finding(finding: Finding) -> None:
    mark = {"ok": "ok     ", "warning": "WARNING", "fault": "FAULT  "}[finding.level]
    click.echo(f"{mark} {finding.what}: {harmless(finding.text)}")
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
    yield of_sqlite()
    checks = StartChecks(config)
    await checks.look()
    for finding in of_start(checks):
        yield finding
    for finding in of_disk(config):
        yield finding
    yield of_clock(config.data_dir)
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


def of_sqlite() -> Finding:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        return Finding("fault", "SQLite", f"{version} is older than {oldest}", "run a Python with a newer SQLite")
    if not sqlite3.threadsafety:
        return Finding("fault", "SQLite", f"{version} is built without threads", "run a Python with another SQLite")
    return Finding("ok", "SQLite", version)


def of_clock(data_dir: Path) -> Finding:
    """Whether the clock is behind the time that the spool last noted."""
    summary = read_summary(data_dir)
    noted_ms = None if summary is None else summary.written_ms
    behind_s = 0.0 if noted_ms is None else noted_ms / 1000 - time.time()
    if behind_s > SKEW_MOST_S:
        text = f"{behind_s:.0f} s behind what the spool noted last: it was set back"
        return Finding("warning", "clock", text, "set the machine's clock by NTP (`timedatectl`)")
    return Finding("ok", "clock", "is not behind what the spool noted last")


def of_start(checks: StartChecks) -> Iterator[Finding]:
    """What `run` would refuse, and what it would do besides."""
    bad = {found.part for found in (*checks.faults, *checks.notes)}
    for part in REMEDIES.keys() - bad - {"upstream", "disk"}:
        yield Finding("ok", part, "as `run` needs it")
    for found in checks.faults:
        yield Finding("fault", found.part, found.text, REMEDIES[found.part])
    for note in checks.notes:
        yield _noted(note)


def _noted(note: Found) -> Finding:
    if note.part == "listeners":
        return Finding("ok", note.part, note.text)
    return Finding("warning", note.part, note.text, REMEDIES[note.part])


def of_disk(config: Config) -> Iterator[Finding]:
    """Room, speed of a sync, and what kind of file system it is."""
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
    for what, reason in further_without_scope(upstream).items():
        yield Finding("ok", what, reason)
    for lane, reason in lanes_without_scope(upstream).items():
        remedy = "add a key with that scope under upstream.keys; what needs it is accepted and waits"
        yield Finding("warning", f"lane {lane}", reason, remedy)
    try:
        tried = await try_upstream(upstream)
    except CannotStart:
        return  # among the faults of the start
    for name, probed in tried:
        what = f"upstream key {name}"
        if probed.is_well:
            yield Finding("ok", what, probed.text)
        else:
            yield Finding("fault", what, f"{upstream.base_url}: {probed.text}", key_remedy(probed.text))
    skew_s = await clock_skew_s(upstream)
    if skew_s is not None and abs(skew_s) > SKEW_MOST_S:
        text = f"{abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} the upstream's"
        yield Finding("warning", "clock", text, "set the machine's clock by NTP (`timedatectl`)")
    elif skew_s is not None:
        yield Finding("ok", "clock", "agrees with the upstream's")


def key_remedy(text: str) -> str:
    """What to do about a key for which `probe_key` returned *text*."""
    return next((remedy for words, remedy in KEY_REMEDIES.items() if words in text), SILENT_REMEDY)


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


def of_senders(answer: Mapping[str, Any]) -> Iterator[Finding]:
    """Of the list of senders; what is refused is in the status."""
    for each in answer["senders"]:
        name = harmless(each["service_name"] or each["product"] or "unknown")
        key = f" with key {each['key']}" if each["key"] else ""
        for warned in each["warnings"]:
            if warned["code"] != "refused":
                text = f"{name} ({each['format']}){key}: {warned['text']}"
                yield Finding("warning", "senders", text, warned["remedy"])


def of_status(status: Mapping[str, Any]) -> Iterator[Finding]:
    """Of the document of `GET /v2/status`."""
    edge, lanes = status["edge"], status["lanes"]
    if edge["received"] != sum(edge[outcome] for outcome in EDGE_OUTCOMES):
        yield Finding("fault", "counts", "what was received is not accounted for", "report it with /v2/status")
    if not edge["received"]:
        remedy = "point one at it: `telemetry-gateway sources` shows how, for each kind"
        yield Finding("warning", "senders", "none has sent anything", remedy)
    for name, lane in lanes.items():
        yield of_lane(name, lane)
    if (upstream := status.get("upstream")) is not None:
        yield of_liveness(upstream)
    if (billing := status.get("billing")) is not None:
        yield of_billing(billing)
    for connection in status.get("billing_relay", ()):
        yield of_relay(connection)
    if "quarantine" in status and (why := degraded(status["quarantine"])) is not None:
        remedy = "docs/operations.md, `When the spool is damaged or lost`; then `spool acknowledge`"
        yield Finding("fault", "spool", why, remedy)
    letters = status.get("dead_letters", ())
    if letters:
        records = sum(letter["records"] for letter in letters)
        reasons = ", ".join(dict.fromkeys(letter["reason"] for letter in letters))
        remedy = "`spool dead-letters list`: remedy what it complained of, then replay or drop them"
        yield Finding("warning", "dead letters", f"{plural(records, 'record', 'records')}: {reasons}", remedy)
    for refused in status.get("refused", ())[:MOST_REFUSALS]:
        text = (
            f"{plural(refused['requests'], 'request', 'requests')} on {refused['route']} from {refused['last_peer']}"
            f" refused with {refused['status']} ({refused['reason']}), the last at {refused['last_at']}"
        )
        yield Finding("warning", "senders", text, refusal_remedy(refused))


def refusal_remedy(refused: Mapping[str, Any]) -> str:
    """What to do about refused requests; of a missing scope, the command that adds it."""
    if refused["reason"] != "scope_missing":
        return REFUSAL_REMEDIES.get(refused["reason"], "docs/operations.md, `When nothing arrives`")
    scopes = " ".join(f"--scope {scope}" for scope in scopes_at(refused["route"]))
    return f"`keys edit {scopes} {refused['last_key']}`, with the scopes that it has already"


def scopes_at(route: str) -> list[str]:
    """Those that requests at a *route* of senders need; to enrol by a heartbeat also needs
    `ENROLL_SCOPE`.
    """
    from gateway.admin.openapi.document import gateway_document  # noqa: PLC0415 - a tenth of a second, rarely needed

    described = gateway_document()["paths"].get(route, {})
    found = {each["x-scope"] for each in described.values() if isinstance(each, dict) and "x-scope" in each}
    if not described:  # of gRPC
        return [INGEST_SCOPE]
    return sorted(found | ({ENROLL_SCOPE} if HEARTBEAT_SCOPE in found else set()))


def of_liveness(upstream: Mapping[str, Any]) -> Finding:
    """What the gateway found when it asked last; a warning alone, since the lanes state what they
    meet.
    """
    at, success = upstream["checked_at"], upstream["last_success_at"] or "never since the start"
    match upstream["liveness"]:
        case "unreachable":
            text, remedy = f"did not answer at {at}; a lane got through last: {success}", "check upstream.base_url"
            return Finding("warning", "liveness", text, remedy)
        case "key_rejected_or_scope_missing":
            text = f"refused the key for {LIVENESS_SCOPE} at {at}; a lane got through last: {success}"
            remedy = "have the key given that scope at the service, or take the scope from it in upstream.keys"
            return Finding("warning", "liveness", text, remedy)
        case "no_key":
            text = f"not asked, since {no_key_grants([LIVENESS_SCOPE])}; a lane got through last: {success}"
            return Finding("ok", "liveness", text)
        case None:
            return Finding("ok", "liveness", "not asked yet")
        case _:
            return Finding("ok", "liveness", f"answered at {at}")


def of_billing(lane: Mapping[str, Any]) -> Finding:
    """Of the lane of billing drops."""
    what, days = "lane billing", f"{plural(lane['days_due'], 'day is', 'days are')} due"
    if lane["state"] != "ok":
        text = f"{lane['state']}, {days}: {lane['reason'] or 'no reason is known'}"
        level: Level = "warning" if lane["state"] == "retrying" else "fault"
        return Finding(level, what, text, BILLING_REMEDY)
    if lane["days_refused"]:
        text = f"{plural(lane['days_refused'], 'day is', 'days are')} refused"
        return Finding("fault", what, text, "`billing show --month YYYY-MM` states why; then `billing send`")
    return Finding("ok", what, f"ok, {days}")


def of_relay(connection: Mapping[str, Any]) -> Finding:
    """Of the drops that senders gave to the gateway for one connection."""
    what, state = f"billing connection {connection['connection']}", connection["state"]
    waiting = plural(connection["waiting"], "drop of senders waits", "drops of senders wait")
    if state != "ok":
        level: Level = "warning" if state == "retrying" else "fault"
        reason = connection["reason"] or "no reason is known"
        remedy = NO_SCOPE_REMEDY if "key that can be read grants" in reason else BILLING_REMEDY
        return Finding(level, what, f"{state}, {waiting}: {reason}", remedy)
    if connection["refused"]:
        text = f"{plural(connection['refused'], 'drop of senders was', 'drops of senders were')} refused"
        return Finding("fault", what, text, "`billing relayed --state refused` states why; then --retry or --remove ID")
    return Finding("ok", what, f"ok, {waiting}")


def of_lane(name: str, lane: LaneStatus) -> Finding:
    what, state = f"lane {name}", lane["state"]
    waiting = f"{plural(lane['pending'], 'record waits', 'records wait')}"
    if state == "ok" or (state == "off" and not lane["pending"]):
        return Finding("ok", what, f"{state}, {waiting}")
    text = f"{state}, {waiting}: {lane['reason'] or 'no reason is known'}"
    level: Level = "fault" if state == "held" or is_closed(lane) else "warning"
    return Finding(level, what, text, lane_remedy(name, lane))


def lane_remedy(name: str, lane: LaneStatus) -> str:
    for words, remedy in REASON_REMEDIES.items():
        if words in (lane["reason"] or ""):
            return remedy.replace("LANE", name)
    return LANE_REMEDIES[lane["state"]]
