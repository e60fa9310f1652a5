"""`python -m tests.conformance.otlp --http URL --grpc ADDRESS`: the checklist against any server.

Ends with 1 where a line fails. `--save` keeps the results, `--beside` prints those of several runs
as one table.
"""

import argparse
import asyncio
import sys
from pathlib import Path

from tests.conformance.otlp.grpc_wire import Grpc
from tests.conformance.otlp.http_wire import Http
from tests.conformance.otlp.table import markdown, report, results, saved
from tests.conformance.otlp.target import Target


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.otlp", description="The OTLP checklist, B01 to B70"
    )
    add = parser.add_argument
    add(
        "--http",
        metavar="URL",
        help="http://HOST:PORT, https://HOST:PORT or unix:/PATH, with a base path if it has one",
    )
    add("--grpc", metavar="ADDRESS", help="HOST:PORT, https://HOST:PORT for TLS, or unix:/PATH")
    add("--key", help="a key that may send")
    add("--weak-key", help="a known key that may not")
    add("--ca", metavar="FILE", help="certificates that the server's is trusted by")
    add("--cert", nargs=2, metavar=("CERTIFICATE", "KEY"), help="files of the client's certificate and key")
    add("--busy-http", metavar="URL", help="the same server where it takes nothing for now")
    add("--busy-grpc", metavar="ADDRESS")
    add("--origin", help="of a page that may post to it")
    add("--pid", type=int, help="of its process on this machine: its memory is looked at")
    add("--status", metavar="URL", help="/v2/status of a telemetry gateway: what it keeps is counted")
    add("--sender", metavar="URL", help="the same server where it forwards to --destination, if not --http")
    add("--destination", metavar="HOST:PORT", help="where the server forwards to; the kit listens there (B70)")
    add("--save", metavar="FILE", type=Path, help="write the results there, as JSON")
    add("--beside", nargs="+", metavar="NAME=FILE", help="print saved results as one table, and check nothing")
    given = parser.parse_args()
    if not (given.http or given.grpc or given.beside):
        parser.error("give --http, --grpc or both")
    return given


def target_of(given: argparse.Namespace) -> Target:
    def http(address: str | None) -> Http | None:
        return None if address is None else Http(address, given.key, given.ca, given.cert)

    def grpc(address: str | None) -> Grpc | None:
        return None if address is None else Grpc(address, given.key, given.ca, given.cert)

    host, _, port = (given.destination or "").rpartition(":")
    return Target(
        http(given.http),
        grpc(given.grpc),
        http(given.busy_http),
        grpc(given.busy_grpc),
        weak_key=given.weak_key,
        origin=given.origin,
        pid=given.pid,
        status_url=given.status,
        sender=http(given.sender),
        destination=(host, int(port)) if port else None,
    )


def main() -> int:
    given = arguments()
    if given.beside:
        pairs = (text.partition("=") for text in given.beside)
        sys.stdout.write(markdown({name: saved(Path(file)) for name, _, file in pairs}) + "\n")
        return 0
    return report(asyncio.run(results(target_of(given))), given.save)


if __name__ == "__main__":
    sys.exit(main())
