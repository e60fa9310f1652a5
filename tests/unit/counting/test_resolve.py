"""The rules over one cluster: which reports are calls of their own, whatever their order."""

import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations

import pytest

from gateway.counting.calls.agreement import (
    is_co_instrumented,
    is_same_response,
    nested,
    overlaps,
    same_model,
    same_usage,
)
from gateway.counting.calls.digest import CallDigest, call_ref, fact_row, split_ref, unpack_fact
from gateway.counting.calls.resolve import Fixed, Member, Verdict, is_covered, resolve
from gateway.rules.call import Call
from tests.support.calls import call

ANTHROPIC = "opentelemetry.instrumentation.anthropic"


def fact(report: Call) -> CallDigest:
    return unpack_fact(fact_row(report), 0)


def members(calls: Iterable[Call], fixed: Mapping[int, Fixed] | None = None) -> list[Member]:
    """Each call at the reference of its place."""
    known = fixed or {}
    return [Member(call_ref(1, i), fact(c), known.get(i, Fixed.OPEN)) for i, c in enumerate(calls)]


def told(verdict: Verdict) -> tuple[dict[int, str], dict[int, list[int]], set[int]]:
    """The verdict by places rather than references."""

    def place(ref: int) -> int:
        return split_ref(ref).idx

    return (
        {place(ref): outcome for ref, outcome in verdict.dropped.items()},
        {place(ref): [place(x) for x in refs] for ref, refs in verdict.merged.items()},
        {place(ref) for ref in verdict.conflicts},
    )


def decided(
    calls: Sequence[Call],
    parents: Mapping[int, Sequence[int]] | None = None,
    *,
    fixed: Mapping[int, Fixed] | None = None,
    cut: Iterable[int] = (),
) -> tuple[dict[int, str], dict[int, list[int]], set[int]]:
    """The verdict, after it was seen to be the same for every order of the members."""
    all_members = members(calls, fixed)
    above = {call_ref(1, c): [call_ref(1, p) for p in ps] for c, ps in (parents or {}).items()}
    cut_refs = {call_ref(1, i) for i in cut}
    verdict = told(resolve(all_members, above, cut_refs))
    orders = list(permutations(all_members))
    for order in random.Random(1).sample(orders, min(len(orders), 60)):
        assert told(resolve(order, dict(reversed(above.items())), cut_refs)) == verdict
    return verdict


class TestSameResponse:
    """Rule 3b."""

    def test_two_reports_of_one_response_are_one_call_and_the_fullest_is_believed(self) -> None:
        calls = [call("a", response="r"), call("b", trace="u", response="r", service="gateway", cost="1")]
        assert decided(calls) == ({1: "duplicate.response_id"}, {0: [1, 0]}, set())

    def test_a_report_without_usage_agrees_with_any(self) -> None:
        calls = [call("a", response="r"), call("b", trace="u", response="r", service="gw", tokens=(None, None))]
        assert decided(calls)[0] == {1: "duplicate.response_id"}

    def test_an_id_at_another_time_is_another_call_in_conflict(self) -> None:
        calls = [call("a", response="r"), call("b", response="r", at=(9000, 9500))]
        assert decided(calls) == ({}, {}, {0, 1})

    def test_really_different_usage_is_another_call_in_conflict(self) -> None:
        calls = [call("a", response="r"), call("b", trace="u", response="r", service="gw", tokens=(100, 30))]
        assert decided(calls) == ({}, {}, {0, 1})

    def test_clocks_of_two_hosts_may_differ_by_a_second_those_of_one_process_may_not(self) -> None:
        later = (1900, 2900)
        assert decided([call("a", response="r"), call("b", response="r", at=later, service="gw")])[0]
        assert decided([call("a", response="r"), call("b", response="r", at=later)]) == ({}, {}, {0, 1})
        assert decided([call("a", response="r"), call("b", response="r", at=later, scope="x")]) == ({}, {}, {0, 1})

    def test_a_cache_hit_repeats_an_id_without_conflict(self) -> None:
        calls = [
            call("a", response="r", service="gw"),
            call("b", response="r", service="gw", at=(9000, 9002), hit=True),
        ]
        assert decided(calls) == ({}, {}, set())

    def test_a_cache_hit_and_what_the_application_saw_of_it_are_one_call(self) -> None:
        calls = [
            call("a", response="r", at=(0, 12)),
            call("b", trace="u", response="r", service="gw", scope="litellm", at=(2, 10), hit=True),
        ]
        assert decided(calls)[0] == {1: "duplicate.response_id"}

    def test_the_library_that_overcounts_is_not_believed(self) -> None:
        calls = [
            call("a", response="r", scope=ANTHROPIC, tokens=(100, 28), cost="1"),
            call("b", trace="u", response="r", service="gw", tokens=(100, 20)),
        ]
        assert decided(calls) == ({1: "duplicate.response_id"}, {0: [1, 0]}, set())
        too_many = [calls[0]._replace(record={**calls[0].record, "usage": {"input_tokens": 100, "output_tokens": 29}})]
        assert decided([*too_many, calls[1]])[2] == {0, 1}


class TestCoInstrumented:
    """Rule 3c."""

    def test_two_scopes_of_one_source_report_one_call(self) -> None:
        calls = [call("a", response="r"), call("b", trace="u", scope="x", at=(-40, 1040))]
        assert decided(calls) == ({1: "duplicate.twin"}, {0: [0, 1]}, set())

    @pytest.mark.parametrize(
        "other",
        [
            call("b", trace="u", scope="openai"),
            call("b", trace="u", scope="x", service="other"),
            call("b", trace="u", scope="x", at=(500, 1500)),
            call("b", trace="u", scope="x", model="gpt-4o-mini"),
            call("b", trace="u", scope="x", tokens=(100, 26)),
            call("b", trace="u", scope="x", tokens=(101, 21)),
            call("b", trace="u", scope="x", response="other"),
            call("b", trace="u", scope="x", failed=True),
            call("b", trace="u", scope="x", tokens=(None, None), failed=True),
            call("b", trace="u", scope="x", tokens=(None, None), model=None),
        ],
        ids=[
            "scope",
            "source",
            "time",
            "model",
            "usage",
            "input too",
            "response",
            "failed",
            "failed early",
            "no model",
        ],
    )
    def test_what_differs_is_another_call(self, other: Call) -> None:
        assert decided([call("a", response="r"), other]) == ({}, {}, set())

    def test_a_report_without_usage_is_of_the_call_that_another_scope_reports(self) -> None:
        silent = call("b", trace="u", scope="x", tokens=(None, None), at=(10, 14))
        assert decided([call("a", response="r"), silent]) == ({1: "duplicate.twin"}, {0: [0, 1]}, set())

    def test_an_output_to_which_a_library_adds_a_few_tokens_gives_way_to_the_smaller_one(self) -> None:
        calls = [call("a", response="r", tokens=(100, 21)), call("b", trace="u", scope="x", tokens=(100, 20))]
        assert decided(calls) == ({1: "duplicate.twin"}, {0: [1, 0]}, set())

    def test_reports_with_usage_are_paired_before_those_without(self) -> None:
        calls = [
            call("a", at=(0, 1000)),
            call("b", trace="u", scope="x", at=(40, 1040)),
            call("c", trace="v", scope="x", at=(0, 1000), tokens=(None, None)),
        ]
        assert decided(calls) == ({1: "duplicate.twin"}, {0: [0, 1]}, set())

    def test_a_report_without_usage_above_other_calls_is_of_none_of_them(self) -> None:
        calls = [
            call("a", scope="x", tokens=(None, None), at=(0, 1000)),
            call("b", at=(0, 500)),
            call("c", at=(500, 1000), tokens=(300, 40)),
        ]
        assert decided(calls, {1: [0], 2: [0]}) == ({0: "suppressed.ancestor"}, {}, set())

    def test_two_failed_calls_without_usage_are_one(self) -> None:
        calls = [call(n, trace=n, scope=n, tokens=(None, None), failed=True) for n in "ab"]
        assert decided(calls)[0] == {1: "duplicate.twin"}

    def test_pairs_are_one_to_one_and_nearest_first(self) -> None:
        calls = [
            call("a0", at=(0, 1000)),
            call("a1", at=(11, 991)),
            call("b0", trace="u", scope="x", at=(10, 990)),
            call("b1", trace="u", scope="x", at=(40, 1040)),
        ]
        dropped, merged, _ = decided(calls)
        assert dropped == {2: "duplicate.twin", 3: "duplicate.twin"}
        assert {slot: set(refs) for slot, refs in merged.items()} == {0: {0, 3}, 1: {1, 2}}

    def test_one_report_more_on_one_side_stays_a_call(self) -> None:
        calls = [call("a0"), call("b0", trace="u", scope="x"), call("b1", trace="v", scope="x", at=(10, 990))]
        dropped, _, _ = decided(calls)
        assert dropped == {1: "duplicate.twin"}

    def test_many_concurrent_pairs_are_decided_quickly(self) -> None:
        """4,000 reports of one source: comparing each with each would take half a minute."""
        calls = [
            call(f"{scope}{n}", trace=f"{scope}{n}", scope=scope, at=(n * 3000, n * 3000 + 1000))
            for n in range(2000)
            for scope in ("x", "y")
        ]
        verdict = resolve(members(calls), {})
        assert len(verdict.dropped) == 2000


class TestAncestors:
    """Rule 2."""

    def test_a_call_above_calls_that_cover_it_is_suppressed(self) -> None:
        calls = [
            call("p", tokens=(150, 30), at=(0, 5000)),
            call("c1", tokens=(100, 20), response="r"),
            call("c2", tokens=(50, 10), response_model="gpt-4o-2024-08-06"),
        ]
        assert decided(calls, {1: [0], 2: [0]}) == ({0: "suppressed.ancestor"}, {}, set())

    @pytest.mark.parametrize("tokens", [(151, 30), (150, 40)])
    def test_usage_that_is_not_covered_stays_in_conflict(self, tokens: tuple[int, int]) -> None:
        calls = [call("p", tokens=tokens), call("c", tokens=(150, 30), scope="x")]
        assert decided(calls, {1: [0]}) == ({}, {}, {0, 1})

    def test_the_only_call_that_the_same_scope_reports_below_a_greater_one_is_a_part_of_it(self) -> None:
        top, part = call("p", tokens=(150, 31)), call("c", tokens=(150, 30))
        assert decided([top, part], {1: [0]}) == ({1: "suppressed.part"}, {}, set())
        assert decided([top, part], {1: [0]}, fixed={1: Fixed.KEPT}) == ({}, {}, {0, 1})
        assert decided([top, part, call("d", tokens=(0, 0))], {1: [0], 2: [0]}) == ({}, {}, {0, 1, 2})
        assert decided([top, call("c", tokens=(151, 30))], {1: [0]}) == ({}, {}, {0, 1})
        assert decided([top, call("c", tokens=(150, 30), failed=True)], {1: [0]}) == ({}, {}, {0, 1})

    def test_an_input_with_the_cache_above_one_without_it_is_the_same_call(self) -> None:
        top, below = call("p", tokens=(150, 30)), call("c", tokens=(100, 30), cache_read=50)
        assert decided([top, below], {1: [0]}) == ({0: "suppressed.ancestor"}, {1: [1, 0]}, set())
        assert decided([top, call("c", tokens=(100, 30), cache_read=49)], {1: [0]}) == (
            {1: "suppressed.part"},
            {},
            set(),
        )

    def test_another_models_call_covers_nothing_but_equal_sums_are_another_name(self) -> None:
        guard = call("c", model="gpt-4o-mini", tokens=(50, 5))
        assert decided([call("p", tokens=(40, 4)), guard], {1: [0]}) == ({}, {}, {0, 1})
        assert decided([call("p", tokens=(50, 5)), guard], {1: [0]})[0] == {0: "suppressed.ancestor"}

    def test_a_call_that_states_nothing_is_covered(self) -> None:
        calls = [call("p", tokens=(None, None)), call("c")]
        assert decided(calls, {1: [0]})[0] == {0: "suppressed.ancestor"}

    def test_a_covered_call_in_the_middle_covers_nothing_itself(self) -> None:
        calls = [call("top", tokens=(200, 40)), call("mid", tokens=(100, 20)), call("leaf", tokens=(100, 20))]
        assert decided(calls, {1: [0], 2: [0, 1]}) == ({1: "suppressed.ancestor", 2: "suppressed.part"}, {}, set())

    def test_a_co_instrumented_span_below_is_counted_once_against_the_call_above(self) -> None:
        calls = [
            call("p", tokens=(200, 40), at=(0, 9000)),
            call("c", parent="p"),
            call("beside", trace="u", scope="x"),
        ]
        assert decided(calls, {1: [0], 2: [0]}) == ({2: "duplicate.twin"}, {1: [1, 2]}, {0, 1, 2})

    def test_a_call_with_the_response_id_of_the_one_below_is_that_call(self) -> None:
        calls = [call("p", response="r", at=(0, 1100)), call("c", response="r", scope="x")]
        assert decided(calls, {1: [0]}) == ({1: "duplicate.response_id"}, {0: [0, 1]}, set())

    def test_where_more_is_below_than_is_seen_the_call_above_is_taken_as_covered(self) -> None:
        calls = [call("p", tokens=(900, 90)), call("c")]
        assert decided(calls, {1: [0]}, cut=[0])[0] == {0: "suppressed.ancestor"}

    def test_the_known_overcount_below_covers_a_little_more(self) -> None:
        calls = [call("p", tokens=(100, 28), service="gw"), call("c", tokens=(100, 20), scope=ANTHROPIC)]
        assert decided(calls, {1: [0]})[0] == {0: "suppressed.ancestor"}


class TestForwarded:
    """What was forwarded stands."""

    def test_a_late_report_of_a_forwarded_call_is_its_duplicate_and_changes_nothing(self) -> None:
        calls = [call("late", response="r", cost="1"), call("old", trace="u", response="r", service="gw")]
        assert decided(calls, fixed={1: Fixed.KEPT}) == ({0: "duplicate.response_id"}, {}, set())

    def test_two_forwarded_reports_both_stay(self) -> None:
        calls = [call("a", response="r"), call("b", trace="u", response="r", service="gw"), call("c", response="r")]
        fixed = {0: Fixed.KEPT, 1: Fixed.KEPT}
        assert decided([*calls[:2], calls[2]._replace(scope=7)], fixed=fixed)[0] == {2: "duplicate.response_id"}

    def test_what_comes_late_below_a_forwarded_call_is_suppressed_where_that_accounts_for_it(self) -> None:
        late = decided([call("p"), call("c")], {1: [0]}, fixed={0: Fixed.KEPT})
        assert late == ({1: "suppressed.parent_forwarded"}, {}, set())
        more = decided([call("p"), call("c", tokens=(500, 20))], {1: [0]}, fixed={0: Fixed.KEPT})
        assert more == ({}, {}, {0, 1})

    def test_a_late_call_above_forwarded_ones_is_suppressed(self) -> None:
        assert decided([call("p"), call("c")], {1: [0]}, fixed={1: Fixed.KEPT})[0] == {0: "suppressed.ancestor"}


class TestRepeats:
    """Spans that are known to repeat their parent: LiteLLM's raw answers."""

    @staticmethod
    def decided_inside(
        above: Call, raw: Call, fixed: Fixed = Fixed.OPEN
    ) -> tuple[dict[int, str], dict[int, list[int]], set[int]]:
        parent, child = members([above, raw], {0: fixed})
        inside = {child.ref: parent.ref}
        return told(resolve([parent, child], {child.ref: [parent.ref]}, inside=inside))

    @pytest.mark.parametrize("fixed", Fixed)
    def test_one_of_the_same_call_is_its_duplicate(self, fixed: Fixed) -> None:
        for raw in (
            call("r", repeats=True, response="a", tokens=(90, 20)),
            call("r", repeats=True, response="b"),
            call("r", repeats=True, tokens=(90, 20)),
        ):
            assert self.decided_inside(call("p", response="a"), raw, fixed)[0] == {1: "duplicate.same_span"}

    @pytest.mark.parametrize("fixed", Fixed)
    @pytest.mark.parametrize("tokens", [(90, 10), (900, 200)])
    def test_one_with_another_response_and_other_usage_is_another_call(
        self, fixed: Fixed, tokens: tuple[int, int]
    ) -> None:
        raw = call("r", repeats=True, response="b", tokens=tokens)
        assert self.decided_inside(call("p", response="a"), raw, fixed) == ({}, {}, set())

    def test_it_stays_too_where_the_call_around_it_was_dropped_before(self) -> None:
        (raw,) = members([call("r", repeats=True, response="b", tokens=(900, 200))])
        around = fact(call("p", response="a"))
        assert told(resolve([raw], {}, inside_dropped={raw.ref: around})) == ({}, {}, set())


class TestAgreement:
    def test_co_instrumented_spans_run_in_one_place_where_both_say_where(self) -> None:
        here, elsewhere, unsaid = (
            call("x", scope=scope)._replace(place=place) for scope, place in (("a", 1), ("b", 2), ("c", 0))
        )
        assert is_co_instrumented(fact(here), fact(unsaid))
        assert is_co_instrumented(fact(elsewhere), fact(unsaid))
        assert not is_co_instrumented(fact(here), fact(elsewhere))

    def test_relations_are_symmetric(self) -> None:
        facts = [
            fact(call("x", at=at, tokens=tokens, scope=scope, service=service, response=response, hit=hit))
            for at in ((0, 1000), (1040, 1050), (900, 3000))
            for tokens in ((100, 20), (100, 25), (None, None), (100, None))
            for scope in ("openai", ANTHROPIC)
            for service in ("app", "gw")
            for response, hit in ((None, False), ("r", False), ("r", True))
        ]
        for a in facts:
            for b in facts:
                for relation in (is_same_response, is_co_instrumented, nested, same_model, same_usage):
                    assert relation(a, b) == relation(b, a), (relation.__name__, a, b)
                assert overlaps(a, b, 50) == overlaps(b, a, 50)

    def test_nothing_known_below_covers_only_what_is_not_stated(self) -> None:
        unknown = fact(call("c", tokens=(None, None)))
        assert not is_covered(members([call("p")]), [unknown])
        assert is_covered(members([call("p", tokens=(None, None))]), [unknown])
        assert not is_covered(members([call("p", tokens=(None, None))]), [])
