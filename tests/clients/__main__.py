"""`python -m tests.clients NAME…`: real exporters against a gateway that is killed and started
again while they send, and applications as their users run them; `all` for every one, `live` for
the applications. Ends with 1 where what is counted is not what was sent.

`python -m tests.clients recipes [NAME…]` executes what `telemetry-gateway sources` prints for each
application, with the pinned and the newest versions, over each transport; `--write` keeps the
results, and shows them in docs/senders/README.md.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients import recipes
from tests.clients.catalogue import APPLICATIONS
from tests.clients.live import LiveOutcome, Way, run_live
from tests.clients.recipes import Recipe, line, recipe, rows, ways, write
from tests.clients.runs import CASES, Compression, SenderFailed, run
from tests.support.client_environments import InstallFailed

GROUPS = {"all": [*CASES, *APPLICATIONS], "exporters": [*CASES], "live": [*APPLICATIONS]}
NAMES = GROUPS["all"]
RECIPES = "recipes"
MAX_SHOWN = 3000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__)
    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        choices=[*NAMES, *GROUPS, RECIPES],
        help=", ".join([*NAMES, *GROUPS, RECIPES]),
    )
    parser.add_argument(
        "--compression", choices=["none", "gzip"], help="exporters: both, where it is not given; applications: none"
    )
    parser.add_argument("--no-outage", action="store_true", help="of exporters: the gateway stays up")
    parser.add_argument(
        "--killed", action="store_true", help="of applications: twice, with kill -9 of the gateway between"
    )
    parser.add_argument("--versions", choices=["pinned", "newest"], help="recipes: both, where it is not given")
    parser.add_argument("--write", action="store_true", help="recipes: keep the results")
    parser.add_argument("--keep", type=Path, help="keep what each application's gateway delivered in this folder")
    parser.add_argument("--verbose", action="store_true", help="print what the senders say")
    given = parser.parse_args()
    if RECIPES in given.names:
        return 1 if failed_recipes([name for name in given.names if name != RECIPES] or [*recipes.NAMES], given) else 0
    names = dict.fromkeys(name for each in given.names for name in GROUPS.get(each, [each]))
    return 1 if sum(failures(name, given) for name in names) else 0


def failures(name: str, given: argparse.Namespace) -> int:
    """Of the runs of *name*, each printed in a line."""
    if name in APPLICATIONS:
        way = Way(given.versions or "pinned", compression=given.compression or "none", killed=given.killed)
        outcome = executed(name, way, given)
        return int(outcome is None or bool(outcome.wrong))
    compressions: list[Compression] = ["none", "gzip"] if given.compression is None else [given.compression]
    return sum(failed_export(name, compression, given) for compression in compressions)


def failed_export(name: str, compression: Compression, given: argparse.Namespace) -> bool:
    with run_folder(name, given) as folder:
        try:
            outcome = run(CASES[name], compression, folder, outage=not given.no_outage)
        except (InstallFailed, SenderFailed) as error:
            say_failed(name, error, folder)
            return True
    verdict = "exact" if outcome.is_exact() else f"WRONG: expected {outcome.expected} {outcome.broken}"
    say(f"{name:20} {compression:5} {outcome.seconds:5.1f} s  {outcome.counted}  {verdict}")
    say_more(outcome.said, given, is_exact=outcome.is_exact())
    return not outcome.is_exact()


def failed_recipes(names: list[str], given: argparse.Namespace) -> int:
    """How many were not exact; what is known not to be reported counts as exact."""
    failed = 0
    for name in names:
        done: list[Recipe] = []
        for way in ways(APPLICATIONS[name]):
            if given.versions in (None, way.versions):
                outcome = executed(name, way, given)
                failed += outcome is None or bool(outcome.wrong)
                if outcome is not None:
                    done.append(recipe(name, way, outcome))
        say("".join(map(line, rows(done))).rstrip())
        if given.write:
            write(done)
    return failed


def executed(name: str, way: Way, given: argparse.Namespace) -> LiveOutcome | None:
    """The run of an application, printed in a line; None where it could not be run."""
    with run_folder(name, given) as folder:
        try:
            outcome = run_live(APPLICATIONS[name], folder, way)
        except (InstallFailed, SenderFailed) as error:
            say_failed(f"{name} {way.versions} {way.transport}", error, folder)
            return None
    verdict = "exact" if not outcome.wrong else "\n  ".join(["WRONG", *outcome.wrong])
    said = f"{way.versions} {way.transport} {way.compression:5}"
    say(f"{name:20} {said} {outcome.seconds:5.1f} s  {len(outcome.served)} calls  {verdict}")
    say_more(outcome.said, given, is_exact=not outcome.wrong)
    return outcome


@contextmanager
def run_folder(name: str, given: argparse.Namespace) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as temporary:
        if given.keep is None:
            yield Path(temporary)
            return
        folder = given.keep / name
        folder.mkdir(parents=True)
        yield folder


def say_failed(name: str, error: Exception, folder: Path) -> None:
    logs = [file.read_text() for file in folder.glob("*.log")]
    say(f"{name:20} {error}")
    say("\n".join(logs)[-MAX_SHOWN:])


def say_more(said: str, given: argparse.Namespace, *, is_exact: bool) -> None:
    if given.verbose or not is_exact:
        say(said[-MAX_SHOWN:])


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
