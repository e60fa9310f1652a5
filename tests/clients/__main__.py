"""`python -m tests.clients NAME…`: real exporters against a gateway that is killed and started
again while they send, and applications as their users run them; `all` for every one, `live` for
the applications. Ends with 1 where what is counted is not what was sent.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.clients.live import APPLICATIONS, run_live
from tests.clients.runs import CASES, Compression, SenderFailed, run
from tests.support.client_environments import InstallFailed

GROUPS = {"all": [*CASES, *APPLICATIONS], "exporters": [*CASES], "live": [*APPLICATIONS]}
NAMES = GROUPS["all"]
MOST_SHOWN = 3000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__)
    parser.add_argument(
        "names", nargs="+", metavar="NAME", choices=[*NAMES, *GROUPS], help=", ".join([*NAMES, *GROUPS])
    )
    parser.add_argument(
        "--compression", choices=["none", "gzip"], help="exporters: both, where it is not given; applications: none"
    )
    parser.add_argument("--no-outage", action="store_true", help="of exporters: the gateway stays up")
    parser.add_argument(
        "--killed", action="store_true", help="of applications: twice, with kill -9 of the gateway between"
    )
    parser.add_argument("--keep", type=Path, help="keep what each application's gateway delivered in this folder")
    parser.add_argument("--verbose", action="store_true", help="print what the senders say")
    given = parser.parse_args()
    names = dict.fromkeys(name for each in given.names for name in GROUPS.get(each, [each]))
    return 1 if sum(failures(name, given) for name in names) else 0


def failures(name: str, given: argparse.Namespace) -> int:
    """Of the runs of *name*, each printed in a line."""
    failed = 0
    for compression in compressions(name, given.compression):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            if given.keep is not None:
                folder = given.keep / name
                folder.mkdir(parents=True)
            try:
                line, exact, said = (
                    of_application(name, compression, folder, killed=given.killed)
                    if name in APPLICATIONS
                    else of_exporter(name, compression, folder, outage=not given.no_outage)
                )
            except (InstallFailed, SenderFailed) as error:
                logs = [file.read_text() for file in folder.glob("*.log")]
                say(f"{name:20} {error}")
                say("\n".join(logs)[-MOST_SHOWN:])
                failed += 1
                continue
        failed += not exact
        say(line)
        if given.verbose or not exact:
            say(said[-MOST_SHOWN:])
    return failed


def of_exporter(name: str, compression: Compression, folder: Path, *, outage: bool) -> tuple[str, bool, str]:
    """(its line, whether it is exact, what the senders said)."""
    outcome = run(CASES[name], compression, folder, outage=outage)
    verdict = "exact" if outcome.is_exact() else f"WRONG: expected {outcome.expected} {outcome.broken}"
    line = f"{name:20} {compression:5} {outcome.seconds:5.1f} s  {outcome.counted}  {verdict}"
    return line, outcome.is_exact(), outcome.said


def of_application(name: str, compression: Compression, folder: Path, *, killed: bool) -> tuple[str, bool, str]:
    """As `of_exporter`."""
    outcome = run_live(APPLICATIONS[name], folder, compression, killed=killed)
    verdict = "exact" if not outcome.wrong else "\n  ".join(["WRONG", *outcome.wrong])
    return (
        f"{name:20} {compression:5} {outcome.seconds:5.1f} s  {outcome.calls} calls  {verdict}",
        not outcome.wrong,
        outcome.said,
    )


def compressions(name: str, given: Compression | None) -> list[Compression]:
    if name in APPLICATIONS:
        return [given or "none"]
    return ["none", "gzip"] if given is None else [given]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
