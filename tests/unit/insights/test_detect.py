"""What the detectors find in the gateway's figures."""

from gateway.counting.gaps import Gap
from gateway.insights.detect import Figures, detect
from gateway.insights.finding import Finding


def gap(**fields: object) -> Gap:
    made: Gap = {
        "sender": "key:prod", "service_name": "app", "model": "gpt-4o", "tokens_by_calls": 80, "tokens_by_metrics": 100,
    }  # fmt: skip
    return {**made, **fields}  # type: ignore[typeddict-item]  # the test's own keywords


def only(figures: Figures) -> Finding:
    (finding,) = detect(figures)
    return finding


def test_nothing_is_found_where_all_is_well() -> None:
    assert detect(Figures()) == []


def test_a_gap_is_told_by_its_share_of_the_tokens() -> None:
    found = only(Figures(gaps=[gap()]))
    assert found.title.startswith("app (key prod): 20 % of the tokens of gpt-4o ")
    assert (found.category, found.effort, found.cost_impact) == ("data quality", "medium", None)


def test_a_model_without_any_call_is_told_as_lost_wholly() -> None:
    found = only(Figures(gaps=[gap(tokens_by_calls=0, service_name="", sender="peer:192.0.2.1")]))
    assert found.title.startswith("peer 192.0.2.1: no call of gpt-4o arrives")


def test_a_service_that_is_billed_by_its_metrics_loses_nothing() -> None:
    assert detect(Figures(gaps=[gap()], prefer_metrics=frozenset({"app"}))) == []


def test_models_without_a_price_are_told_with_their_calls() -> None:
    found = detect(Figures(unpriced={"new-model": 1, "newer-model": 12}))
    assert [x.model for x in found] == ["newer-model", "new-model"]
    assert "12 calls without a cost" in found[0].title
    assert "1 call without a cost" in found[1].title
    assert {x.cost_impact for x in found} == {None}, "nobody knows it, so it is not 0"


def test_one_cause_has_one_id_whatever_is_told_of_it() -> None:
    one = only(Figures(gaps=[gap()]))
    assert only(Figures(gaps=[gap(tokens_by_calls=10)])).insight_id == one.insight_id
    others = [
        gap(model="m"),
        gap(sender="key:b"),
        gap(service_name="other"),
        gap(sender="key:prod\x00app", service_name=""),
    ]
    ids = {only(Figures(gaps=[other])).insight_id for other in others}
    ids.add(only(Figures(unpriced={"gpt-4o": 1})).insight_id)
    assert len(ids) == 5
    assert one.insight_id not in ids
