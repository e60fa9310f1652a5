"""`allocation` reads rules as people write them."""

import re
from pathlib import Path

import click
import pytest

from gateway.cli.allocation import rules_in
from gateway.usage.allocation.body import NewDefinition

PAGE = Path(__file__).parents[3] / "docs" / "allocation.md"


def test_the_rules_of_the_docs_are_rules(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "rules.yaml"
    file.write_text(text)
    rules = NewDefinition.checked({"target": "team", "rules": rules_in(file)}).as_rules()
    assert [len(rule.shares) for rule in rules] == [2, 1, 1]


def test_the_digits_of_a_number_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(
        "rules: [{shares: [{name: a, percent: 33.333333}, {name: b, percent: 0.000001}, {name: c, percent: 7}]}]"
    )
    (rule,) = rules_in(file)
    assert [share["percent"] for share in rule["shares"]] == ["33.333333", "0.000001", "7"]


@pytest.mark.parametrize("text", [b"a: [", b"\xff"])
def test_what_is_no_yaml_is_named(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "rules.yaml"
    file.write_bytes(text)
    with pytest.raises(click.ClickException, match="no readable YAML or JSON"):
        rules_in(file)
