"""Records that the upstream refused, in its own words. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from gateway.common.plural import plural
from gateway.common.printable import harmless
from gateway.operate.findings.finding import Finding, Step
from spool.dead_letters import QUARANTINED

MAX_KINDS: Final = 3
WORDS_MAX_CHARS: Final = 200
REMEDY: Final = "correct what it complains of, then replay or drop them: `telemetry-gateway spool dead-letters list`"


def of_letters(kinds: Sequence[Mapping[str, Any]], letters: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """*kinds*: of the status, by lane and reason. *letters*: the newest, whose words are shown.

    What the spool lost is no refusal: the finding about the spool names it.
    """
    refused = [each for each in kinds if each["reason"] != QUARANTINED]
    for each in refused[:MAX_KINDS]:
        step = Step("Look at them", f"/dead-letters?{urlencode({'lane': each['lane'], 'reason': each['reason']})}")
        yield Finding("warning", "dead letters", kind_text(each), REMEDY, words_of(each, letters), step)
    if further := refused[MAX_KINDS:]:
        records = plural(sum(each["records"] for each in further), "record was", "records were")
        text = f"{records} refused for {plural(len(further), 'other reason', 'other reasons')}"
        yield Finding("warning", "dead letters", text, REMEDY, step=Step("Look at them", "/dead-letters"))


def kind_text(kind: Mapping[str, Any]) -> str:
    records = plural(kind["records"], "record was", "records were")
    return f"{records} refused by the upstream of lane {kind['lane']} ({harmless(kind['reason'])})"


def words_of(kind: Mapping[str, Any], letters: Sequence[Mapping[str, Any]]) -> str | None:
    """The upstream's words about the newest of *kind*; None where none are known."""
    for each in letters:
        if (each["lane"], each["reason"]) == (kind["lane"], kind["reason"]) and each["message"]:
            words = harmless(each["message"])
            return words if len(words) <= WORDS_MAX_CHARS else f"{words[:WORDS_MAX_CHARS]}…"
    return None
