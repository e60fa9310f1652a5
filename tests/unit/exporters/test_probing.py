"""The order in which batches of a braked lane are probed."""

from exporters.probing import MAX_KEPT, GivenBack, Probing
from spool.record import Batch


def part(name: str, of: str) -> Batch:
    return Batch(name, "lane", 0, 0, of, (b"record",))


def kept(name: str, of: str, *, is_answered: bool) -> GivenBack:
    return GivenBack(Batch(name, "lane", 0, 0, of, ()), is_answered)


def test_other_parts_of_a_refused_batch_wait_for_the_next_round_and_other_batches_do_not() -> None:
    probing = Probing()
    assert probing.refused(part("a1", "a")) == []
    assert probing.skips(part("a2", "a"))
    assert not probing.skips(part("b1", "b"))
    assert probing.refused(part("b1", "b")) == []
    assert len(probing) == 3
    assert probing.next_round() == [kept("a2", "a", is_answered=False)], "what was refused stays"
    assert not probing.skips(part("a2", "a"))


def test_what_was_refused_goes_again_once_all_others_were() -> None:
    probing = Probing()
    probing.refused(part("a1", "a"))
    probing.refused(part("b1", "b"))
    assert probing.next_round() == [kept("a1", "a", is_answered=True), kept("b1", "b", is_answered=True)]
    assert probing.next_round() == []
    assert len(probing) == 0


def test_no_more_is_kept_than_a_bound() -> None:
    probing = Probing()
    again = [each for n in range(MAX_KEPT + 1) for each in probing.refused(part(f"a{n}", "a"))]
    assert len(again) == MAX_KEPT + 1
    assert [probing.skips(part(f"b{n}", "a")) for n in range(MAX_KEPT + 1)] == [True] * MAX_KEPT + [False]


def test_the_end_gives_everything_back() -> None:
    probing = Probing()
    probing.refused(part("a1", "a"))
    probing.skips(part("a2", "a"))
    assert {each.batch.batch_id for each in probing.end()} == {"a1", "a2"}
    assert len(probing) == 0
    assert not probing.skips(part("a3", "a"))
