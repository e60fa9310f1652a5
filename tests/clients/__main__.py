"""`python -m tests.clients NAME…`: real exporters against a gateway that is killed and started
again while they send; `all` for every one. Ends with 1 where totals are not exact.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.clients.runs import CASES, SenderFailed, run
from tests.support.client_environments import InstallFailed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", choices=[*CASES, "all"], help=", ".join([*CASES, "all"]))
    parser.add_argument("--compression", choices=["none", "gzip"], help="both, where it is not given")
    parser.add_argument("--no-outage", action="store_true", help="the gateway stays up")
    parser.add_argument("--verbose", action="store_true", help="print what the senders say")
    given = parser.parse_args()
    names = list(CASES) if "all" in given.names else given.names
    failed = 0
    for name in names:
        for compression in [given.compression] if given.compression else ["none", "gzip"]:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    outcome = run(CASES[name], compression, Path(folder), outage=not given.no_outage)
                except (InstallFailed, SenderFailed) as error:
                    logs = [file.read_text() for file in Path(folder).glob("*.log")]
                    say(f"{name:20} {error}")
                    say("\n".join(logs)[-3000:])
                    failed += 1
                    continue
            verdict = "exact" if outcome.is_exact() else f"WRONG: expected {outcome.expected} {outcome.broken}"
            failed += not outcome.is_exact()
            say(f"{name:20} {compression:5} {outcome.seconds:5.1f} s  {outcome.counted}  {verdict}")
            if given.verbose or not outcome.is_exact():
                say(outcome.said[-3000:])
    return 1 if failed else 0


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
