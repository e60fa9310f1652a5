"""Which rule a call belongs to, and which calls may belong to some rules. Pure.

A call is matched in one step a dimension, however many rules there are: names are looked up, and
the rules that each keeps are bits of a number.
"""

from collections.abc import Mapping, Sequence

from gateway.usage.sums.allocation import Definition, Rule
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.names import Absent, Filters, Name


class Matcher:
    """The rules of *definition*, by the names that they look at."""

    def __init__(self, definition: Definition) -> None:
        self.target = definition.target
        self._rules = definition.rules
        self._all = (1 << len(definition.rules)) - 1
        self._kept_by = {name: _kept_by(definition.rules, name) for name in sorted(definition.matched)}

    def rule_for(self, names: Mapping[Dimension, Name]) -> Rule | None:
        """The first that a call with *names* matches; None where it has the target."""
        if names[self.target] is not Absent.UNKNOWN:
            return None
        left = self._all
        for dimension, (by_name, any_name) in self._kept_by.items():
            left &= by_name.get(names[dimension], any_name)
        return self._rules[(left & -left).bit_length() - 1] if left else None


def _kept_by(rules: Sequence[Rule], dimension: Dimension) -> tuple[Mapping[Name, int], int]:
    """Name -> the rules that keep it; and those that keep any name."""
    any_name = sum(1 << at for at, rule in enumerate(rules) if dimension not in rule.match)
    by_name: dict[Name, int] = {}
    for at, rule in enumerate(rules):
        for name in _named(rule, dimension):
            by_name[name] = by_name.get(name, any_name) | 1 << at
    return by_name, any_name


def _named(rule: Rule, dimension: Dimension) -> Sequence[Name]:
    return [Absent.UNKNOWN if name is None else name for name in rule.match.get(dimension, ())]


def filters_of(definitions: Sequence[Definition], where: Filters) -> list[Filters]:
    """Of *where*, which names calls as *definitions* give them, those of the calls themselves. No
    call is in two of them. Together they keep more where what is left over of counts depends on it:
    the calls of other rules.
    """
    filtered = [each.target for each in definitions if each.target in where]
    either: Filters = {**where, **{each: (*where[each], Absent.UNKNOWN) for each in filtered}}
    if not filtered or len(definitions) > 1 or Absent.UNKNOWN in where[filtered[0]]:
        return [either]
    (definition,) = definitions
    wanted = {*where[definition.target]}
    rules = [rule for rule in definition.rules if any(share.name in wanted for share in rule.shares)]
    without: Filters = {**_matched_by(rules), **where, definition.target: (Absent.UNKNOWN,)}
    return [where, without] if rules else [where]


def _matched_by(rules: Sequence[Rule]) -> Filters:
    """What every call has that one of *rules* keeps."""
    by_all = {*rules[0].match}.intersection(*(rule.match for rule in rules)) if rules else ()
    return {name: tuple({each for rule in rules for each in _named(rule, name)}) for name in sorted(by_all)}
