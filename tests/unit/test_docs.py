"""The pages state what the code does: every field, flag, option and command is documented, and
nothing that is not there.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from gateway.cli.main import main
from gateway.common.contract import errors
from gateway.common.contract.errors import (
    BadRecord,
    Forbidden,
    GatewayError,
    LaneNotHeld,
    NameInUse,
    NoAnswer,
    NothingTaken,
    OverQuota,
    StreamInUse,
    StreamMismatch,
    StreamUnknown,
    TooManyKept,
    Unauthenticated,
)
from gateway.config.environment import leaf_options
from gateway.config.model import MAPPING_OPTIONS, config_schema
from gateway.products.catalogue import SOURCES
from gateway.products.otlp_senders import OTLP_SENDERS, OtlpSender
from gateway.products.source import Source as PushSource
from gateway.serve.answers import kind_of
from gateway.serve.http.telemetry import telemetry_routes
from gateway.usage.events.derived import SOURCES as SOURCE_FIELDS
from gateway.usage.events.faults import REMEDIES
from spool.record import FIELDS, FLAGS
from spool.span_form import OF_RESOURCE, OF_SPAN
from tests.conformance.otlp_http.recording import RecordingIntake

ROOT = Path(__file__).parents[2]
FORMATS = (ROOT / "docs/formats.md").read_text()
OPERATIONS = (ROOT / "docs/operations.md").read_text()
CONFIGURATION = (ROOT / "docs/configuration.md").read_text()


def test_the_fields_of_the_record_are_documented_by_their_rows() -> None:
    rows = [(".".join(field.path), field.row.means, field.row.absent) for field in FIELDS]
    lines = [f"| `{path}` | {means}{absent and f'; absent: {absent}'} |" for path, means, absent in rows]
    assert FORMATS.split("| field | means |\n|---|---|\n")[1].split("\n\n")[0].splitlines() == lines


def test_the_attributes_of_the_fields_are_documented_by_their_rows() -> None:
    page = (ROOT / "docs/otlp-export.md").read_text()
    table = dict(re.findall(r"^\| `([\w.]+)` \| `([\w.]+)`", page.split("| field | attribute |")[1], re.MULTILINE))
    assert table == {".".join(path): name for path, name in (OF_RESOURCE | OF_SPAN).items()}


def test_the_fields_that_divide_a_stream_are_documented() -> None:
    page = (ROOT / "docs/unit-cost.md").read_text()
    named = page.split("An element or dimension is ")[1].split(". ")[0]
    assert set(re.findall(r"`(\w+)`", named)) == SOURCE_FIELDS


def test_every_flag_is_documented_in_the_order_of_the_record() -> None:
    """That code sets no other is the type's (`spool.record.Flag`)."""
    table = FORMATS.split("| flag | means |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(FLAGS)


def test_every_flag_is_set_somewhere() -> None:
    code = "".join(path.read_text() for path in (ROOT / "gateway").rglob("*.py") if path.parent.name != "explain")
    assert [flag for flag in FLAGS if f'"{flag}"' not in code] == []


def test_every_option_is_documented() -> None:
    schema = config_schema()
    options = {".".join(path) for path in leaf_options(schema, schema, ())}
    options |= {f"sources.generic.{name.rstrip('_')}" for name in MAPPING_OPTIONS}
    documented = set(re.findall(r"^\| `([\w.]+)`", CONFIGURATION, re.MULTILINE))
    groups = {
        "upstream.keys",
        "upstream.names",
        "upstream.unused_lanes",
        "exporters",
        "sources",
        "http.cors_origins",
        "operators",
        "operator_identity.trusted_proxies",
        "sign_in.roles",
        "sign_in.host_names",
        "sign_in.oidc.scopes",
        "unit_cost.dimensions",
        "budgets.webhooks",
        "telemetry.headers",
        "tags",
    }
    assert options - documented == set()
    assert documented - options - groups == set()


def commands(group: click.Group, before: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield before + name


def test_every_command_is_documented() -> None:
    pages = "".join(path.read_text() for path in [ROOT / "README.md", ROOT / "Makefile", *(ROOT / "docs").glob("*.md")])
    assert [name for name in commands(main) if f"telemetry-gateway {name}" not in pages] == []


def test_every_page_has_its_place_on_the_site() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if page not in nav} == set(), "name them under `nav` in mkdocs.yml"


def test_links_between_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("source", SOURCES.values(), ids=lambda source: source.name)
def test_every_source_has_a_page_with_the_snippet_that_the_command_prints(source: PushSource) -> None:
    page = (ROOT / "docs/senders" / f"{source.name}.md").read_text()
    for snippet in source.snippets:
        for line in snippet.addressed(url="URL", key="KEY").splitlines():
            assert line.strip() in page.replace("YOUR_KEY", "KEY").replace(
                f"http://127.0.0.1:4318/v1/sources/{source.name}", "URL"
            )
    assert f"{source.name}.md" in (ROOT / "docs/senders/README.md").read_text()


@pytest.mark.parametrize("sender", OTLP_SENDERS.values(), ids=lambda sender: sender.name)
def test_every_sender_of_otlp_has_a_page_with_the_snippets_that_the_command_prints(sender: OtlpSender) -> None:
    page = (ROOT / "docs/senders" / f"{sender.name}.md").read_text()
    for paste in sender.pastes:
        text = paste.addressed(url="http://127.0.0.1:4318", grpc="127.0.0.1:4317", key="YOUR_KEY")
        assert f"```{paste.language}\n{text}```\n" in page
        assert not paste.file or f"`~/{paste.file}`" in page
    words = " ".join(page.split())
    assert f"- **Run with**: {sender.run_with}." in words
    assert f"- **Needs**: {sender.needs}." in words
    assert not sender.unreported or f"- **Not reported**: {sender.unreported}." in words
    assert (
        f"| `{sender.name}` | [{sender.name}.md]({sender.name}.md) |" in (ROOT / "docs/senders/README.md").read_text()
    )


def test_every_reason_that_a_request_is_refused_for_is_documented() -> None:
    told_by_code = {BadRecord, NothingTaken, StreamInUse, StreamMismatch, StreamUnknown}
    by_own_reason = {OverQuota, Unauthenticated, Forbidden}
    kinds = {kind_of(error("")) for error in refusals() - told_by_code - by_own_reason}
    table = OPERATIONS.split("| reason | means | do |")[1].split("\n\n")[0]
    assert {kind for kind in kinds | {"spool_full"} if f"`{kind}`" not in table} == set()


def refusals() -> set[Any]:
    """Each class of error that senders meet."""
    of_admin = {NoAnswer, NameInUse, TooManyKept, LaneNotHeld}
    return {error for error in vars(errors).values() if is_error(error)} - of_admin - {GatewayError}


def is_error(named: Any) -> bool:
    return isinstance(named, type) and issubclass(named, GatewayError)


def test_what_each_path_of_senders_asks_of_a_key_is_documented() -> None:
    table = (ROOT / "docs/keys.md").read_text().split("| to post to | a sender needs |")[1].split("\n\n")[0]
    for route in telemetry_routes(RecordingIntake()):
        path = re.sub(r"^/v1/unit-cost/(allocation|metric)/.*", "/v1/unit-cost/{kind}/…", route.path)
        method = "" if "POST" in route.methods else f"{min(route.methods)} "
        assert f"| `{method}{path}` | `{route.scope}` |" in table


def test_every_fault_of_events_and_unit_cost_is_documented() -> None:
    pages = "".join((ROOT / "docs" / name).read_text() for name in ("events.md", "unit-cost.md"))
    assert [code for code in REMEDIES if f"`{code}`" not in pages] == []
