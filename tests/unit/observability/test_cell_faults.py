"""What the page and `status` say of a cell that is not well."""

import pytest

from gateway.cli.status import cell_text
from gateway.observability.cell_faults import cell_faults
from gateway.observability.metrics import CellMember, CellStatus
from gateway.operate.findings.status import of_cell
from gateway.operate.site import delivery
from tests.support.findings import texts_of
from tests.support.shown import shown, text_of
from tests.unit.operate.test_admin import figures

MIB = 1 << 20


def member(name: str, **fields: object) -> CellMember:
    made = {"name": name, "release": "0.3.0", "owns": False, "alive": True, "up_s": 7200.0, "silent_s": 0.4}
    return {**made, **fields}  # type: ignore[typeddict-item]  # the test's own keywords


def cell(**fields: object) -> CellStatus:
    made: CellStatus = {
        "owner": "one",
        "epoch": 3,
        "why": "expired",
        "since_s": 600.0,
        "members": [member("one", owns=True), member("two")],
        "journal_bytes": 3 * MIB,
        "behind_s": None,
    }
    return {**made, **fields}  # type: ignore[typeddict-item]  # the test's own keywords


def test_nothing_is_wrong_with_a_cell_that_is_well() -> None:
    assert list(cell_faults(cell(), 100 * MIB)) == []
    assert list(cell_faults(cell(behind_s=9.9), None)) == [], "a burst"
    assert [found.level for found in of_cell(cell(), 100 * MIB)] == ["ok"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"owner": None}, "no gateway owns the cell: nothing is counted or delivered"),
        (
            {"behind_s": 11.0},
            "the owner of the cell has been behind for 11 s: more waits in the journal than it counts",
        ),
        ({"journal_bytes": 51 * MIB}, "the journal of the cell takes 51 MiB; senders are refused above 100 MiB"),
        (
            {"members": [member("two", alive=False, silent_s=185.0)]},
            "gateway two of the cell has been silent for 3 minutes",
        ),
        (
            {"members": [member("one"), member("two", release="0.2.9")]},
            "the gateways of the cell are of different releases: 0.2.9, 0.3.0",
        ),
    ],
)
def test_what_is_wrong_is_in_the_verdict_and_in_the_findings(fields: dict[str, object], text: str) -> None:
    found = cell(**fields)
    status = figures(cell=found, spool={"used_bytes": 0, "max_bytes": 100 * MIB})
    assert f"cell: {text}" in texts_of(status)
    (finding,) = [each for each in of_cell(found, 100 * MIB) if each.level != "ok"]
    assert finding.text == text
    assert finding.remedy
    assert finding.level == ("fault" if found["owner"] is None else "warning")


def test_the_release_of_a_gateway_that_is_gone_differs_from_none() -> None:
    gone = [member("one"), member("two", release="0.2.9", alive=False)]
    assert [fault.text for fault in cell_faults(cell(members=gone), None)] == [
        "gateway two of the cell has been silent for 0 s"
    ]


def test_delivery_shows_the_cell() -> None:
    members = [member("one", owns=True), member("two"), member("three", alive=False, silent_s=40.0)]
    found = text_of(shown(delivery.VIEW, delivery.delivery(figures(cell=cell(members=members)))))
    assert "Owner one The owner before it fell silent. Epoch 3 since 10 min" in found
    assert "Journal 3.0 MiB The owner keeps up." in found
    assert "one owner 0.3.0 2 h 0 s ago two alive 0.3.0" in found
    assert "three silent 0.3.0 2 h 40 s ago" in found
    without = text_of(shown(delivery.VIEW, delivery.delivery(figures(cell=cell(owner=None, why=None, since_s=None)))))
    assert "Owner none There was no owner yet." in without
    assert "Cell" not in text_of(shown(delivery.VIEW, delivery.delivery(figures())))


def test_the_line_of_the_screen() -> None:
    assert cell_text(cell()) == "owner one (epoch 3, expired, since 10 min); journal 3.0 MiB"
    assert cell_text(cell(owner=None)) == "no owner; journal 3.0 MiB"
    assert cell_text(cell(behind_s=65.0)).endswith("journal 3.0 MiB, behind for 65 s")
