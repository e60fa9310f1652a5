"""What the option `tags` may name. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from gateway.common.contract.tags import NAME
from gateway.rules.attribution import RESOURCE_NAMES
from gateway.rules.conventions import who
from gateway.usage.sums.grains import DIMENSIONS
from spool.record import FIELDS

MAX_ATTRIBUTES: Final = 8
"""Of one tag."""
MAX_ATTRIBUTE_CHARS: Final = 128
_NAME: Final = re.compile(NAME)
_ATTRIBUTE: Final = re.compile(r"[!-~]{1,128}")
_OF_RECORDS: Final = ({field.name for field in FIELDS.of("attribution")} | {*DIMENSIONS}) - {"environment"}
"""Names that mean something else."""
_OF_USERS: Final = frozenset({*RESOURCE_NAMES["user"], *who.NAMES["user"]})
_CONTENT: Final = re.compile(
    r"(?:^|[._])(?:prompts?|completions?|messages?|content|text|input|output|system_instructions|arguments|result|body|query)"
    r"(?:$|[._])|(?:^|\.)(?:header|headers|authorization|cookie)(?:$|\.)|\.value$",
    re.IGNORECASE,
)
"""Names under which senders put prompts, answers and headers."""


def check_tags(tags: Mapping[str, Sequence[str]]) -> None:
    """Raises ValueError, which names the fault and the remedy."""
    for tag, names in tags.items():
        _check_name(tag)
        if len(names) > MAX_ATTRIBUTES:
            raise ValueError(f"{tag}: at most {MAX_ATTRIBUTES} attributes are possible")
        for name in names:
            _check_attribute(tag, name)
    if twice := [name for name, times in Counter(x for names in tags.values() for x in names).items() if times > 1]:
        raise ValueError(f"{', '.join(twice)}: an attribute states one tag only")


def _check_name(tag: str) -> None:
    if _NAME.fullmatch(tag) is None:
        raise ValueError(
            "a tag's name is 1 to 32 lower-case letters, digits and _, a letter first, such as cost_center"
        )
    if tag in _OF_RECORDS:
        raise ValueError(f"{tag}: a record has a field of that name: leave it out, or choose another name")


def _check_attribute(tag: str, name: str) -> None:
    if _ATTRIBUTE.fullmatch(name) is None:
        raise ValueError(
            f"{tag}: an attribute's name is 1 to {MAX_ATTRIBUTE_CHARS} printable ASCII characters without spaces"
        )
    if name in _OF_USERS:
        raise ValueError(f"{tag}: {name} states a user, of whom attributes.user decides what is kept: leave it out")
    if _CONTENT.search(name):
        raise ValueError(f"{tag}: {name} may hold a prompt, an answer or a header: name an attribute that holds a name")
