"""`python -m tests.clients NAME…`: real exporters against a gateway that is killed and started
again while they send; `all` for every one. Ends with 1 where totals are not exact.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.clients.assistants import ASSISTANTS, ask
from tests.clients.runs import CASES, Compression, SenderFailed, run
from tests.support.client_environments import InstallFailed

NAMES = [*CASES, *ASSISTANTS]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", choices=[*NAMES, "all"], help=", ".join([*NAMES, "all"]))
    parser.add_argument("--compression", choices=["none", "gzip"], help="both, where it is not given")
    parser.add_argument("--no-outage", action="store_true", help="the gateway stays up")
    parser.add_argument("--verbose", action="store_true", help="print what the senders say")
    given = parser.parse_args()
    names = NAMES if "all" in given.names else given.names
    failed = 0
    for name in names:
        for compression in compressions(name, given.compression):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    if name in ASSISTANTS:
                        outcome = ask(name, Path(folder))
                    else:
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


def compressions(name: str, given: Compression | None) -> list[Compression]:
    """An assistant compresses as it likes."""
    if name in ASSISTANTS:
        return ["none"]
    return ["none", "gzip"] if given is None else [given]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
