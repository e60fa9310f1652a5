"""From calls without a team, project or tag to the form of rules that give them one. Pure."""

from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import urlencode

from gateway.common.contract.tags import is_tag
from gateway.operate.site.usage_question import title_of
from gateway.usage.allocation.body import TARGETS
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.names import Absent, Name
from gateway.usage.sums.tags import parameter_of

LIST: Final = "/allocation"
ONE: Final = LIST + "/{target}"
ADD: Final = "add"
"""Parameter of the form: it has one rule more, for the calls that the filters keep."""
NEW: Final = "new-rule"
"""Id of that rule."""


class GiveLink(NamedTuple):
    path: str
    text: str


def can_be_given(dimension: Dimension) -> bool:
    return dimension in TARGETS or is_tag(dimension)


def phrase_of(target: Dimension) -> str:
    """`a team`, `the tag customer`."""
    title = title_of(target)
    return f"the {title[:1].lower()}{title[1:]}" if is_tag(target) else f"a {title.lower()}"


def give_link(filters: Iterable[tuple[Dimension, Name]]) -> GiveLink | None:
    """For the calls that *filters* keep. None where they bring all that can be given, and for names
    that no rule can match.
    """
    kept = list(filters)
    missing = [dimension for dimension, name in kept if name is Absent.UNKNOWN and can_be_given(dimension)]
    if not missing or any(not isinstance(name, str) and name is not Absent.UNKNOWN for _, name in kept):
        return None
    return link_to(missing[0], [each for each in kept if each[0] != missing[0]])


def link_to(target: Dimension, filters: Iterable[tuple[Dimension, Name]] = ()) -> GiveLink:
    kept = list(filters)
    pairs = [parameter_of(dimension, name) for dimension, name in kept if isinstance(name, str)]
    if unknown := [dimension for dimension, name in kept if not isinstance(name, str)]:
        pairs.append(("unknown", ",".join(unknown)))
    path = f"{ONE.format(target=target)}?{urlencode([(ADD, 'rule'), *pairs])}#{NEW}"
    return GiveLink(path, f"Give these calls {phrase_of(target)}")
