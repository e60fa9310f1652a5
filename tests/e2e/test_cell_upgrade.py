"""A cell is upgraded one gateway after the other, and back: nothing is lost or counted twice."""

from pathlib import Path

import psycopg

from gateway.fleet.senders.noting import SenderNotes
from gateway.pipeline.journal.form import OLDEST, Entry, SentBy
from gateway.pipeline.parsing.parse import ParseRules, Payload, parse
from gateway.rules.context import Context
from gateway.usage.pricing.prices import Prices
from tests.support import next_release
from tests.support.calls import span_id
from tests.support.cell_processes import Cell, Traffic, check_all_is_there_once, owns, running_cell
from tests.support.gateway_process import GatewayProcess
from tests.support.polling import wait_until_true
from tests.support.postgres import needs_postgres, shared_server
from tests.support.spans import call_span

pytestmark = needs_postgres

THIS = "gateway.cli.main"
NEXT = "tests.support.next_release"
NOTE_FORMS = (
    "CREATE TABLE written (form BIGINT PRIMARY KEY);"
    " CREATE FUNCTION note_form() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN INSERT INTO written VALUES (NEW.form) ON CONFLICT DO NOTHING; RETURN NEW; END $$;"
    " CREATE TRIGGER note_form AFTER INSERT ON journal FOR EACH ROW EXECUTE FUNCTION note_form()"
)


def become(gateway: GatewayProcess, program: str) -> None:
    assert gateway.stop() == 0
    gateway.program = program
    gateway.start()


def written(cell: Cell) -> set[int]:
    """Forms of the rows that were ever written."""
    with psycopg.connect(shared_server().dsn(f"cell_{cell.name}")) as connection:
        return {form for (form,) in connection.execute("SELECT form FROM written")}


def test_gateways_are_upgraded_and_rolled_back_under_traffic(tmp_path: Path) -> None:
    """Rows of the newer form are written once all gateways read it."""
    with running_cell(tmp_path) as cell:
        cell.wait_until_owned()
        cell.change(f"SET search_path = cell_{cell.name}; {NOTE_FORMS}")
        first, second, third = cell.gateways
        with Traffic(cell) as traffic:
            for gateway, program in ((first, NEXT), (second, NEXT), (second, THIS), (second, NEXT)):
                become(gateway, program)
                traffic.wait_for(30)
            assert written(cell) == {OLDEST}
            become(third, NEXT)
            wait_until_true(lambda: written(cell) == {OLDEST, next_release.FORM}, what="rows of the newer form")
            traffic.wait_for(30)
            become(first, THIS)
            traffic.wait_for(30)
        check_all_is_there_once(cell, traffic)


def test_an_owner_leaves_the_cell_to_a_gateway_that_reads_what_waits(tmp_path: Path) -> None:
    """As after a gateway was rolled back while rows of the newer form waited."""
    with running_cell(tmp_path, 2) as cell:
        old, newer = cell.owner(), cell.others()[0]
        become(newer, NEXT)
        assert owns(old)
        with psycopg.connect(shared_server().dsn(f"cell_{cell.name}"), autocommit=True) as connection:
            connection.execute(
                "INSERT INTO journal (form, payloads, packed, body) VALUES (%s, 1, FALSE, %s)",
                (next_release.FORM, row_of("of the next release")),
            )
        wait_until_true(lambda: owns(newer), what="the newer gateway as the owner")
        cell.wait_until_delivered(1)
        assert [each["trace"]["span_id"] for each in cell.service.records()] == [span_id("of the next release").hex()]
        assert "another gateway reads them" in old.log.read_text()


def row_of(name: str) -> bytes:
    """The body of a row with one call, as the next release writes it."""
    context = Context(1_767_607_200_000, "2026-01-05T10:00:00.000Z", peer="127.0.0.1")
    parsed = parse(Payload("traces", call_span(name, (100, 20)), json=False), context, ParseRules(Prices()))
    return next_release.write([Entry("traces", parsed, SentBy.of(context))], SenderNotes([], []))
