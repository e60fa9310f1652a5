"""Bodies about keys: a new key, a change, a deletion; each refused with all its faults at once.
Pure.

`scopes` and `managed` are the two kinds of grant; a key has exactly one. `labels` and `limits` of a
change merge into those of the key (RFC 7396): a name sets, null removes, the rest stays. Null in
any other field equals its absence.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema, field_validator, model_validator

from exporters.secret import Secret
from gateway.access.errors import InvalidKey
from gateway.access.key import GATEWAY_PREFIX, LEGACY_MAX_CHARS, LEGACY_MIN_CHARS, SERVICE_PREFIX, legacy_fault, parse
from gateway.access.labels import LABEL_MAX_CHARS, MAX_LABELS, Labels, valid_labels
from gateway.access.limits import MAX_LIMIT, NO_LIMITS, RateLimits, valid_limits
from gateway.access.record import (
    DESCRIPTION_MAX_CHARS,
    LEGACY_NAME,
    NAME_MAX_CHARS,
    NAME_MIN_CHARS,
    KeyRecord,
    edited,
    valid_description,
    valid_grant,
    valid_name,
    valid_person,
)
from gateway.common.body import Body, FieldFault, RefusedValue
from gateway.common.contract.reach import (
    MAX_NAME_CHARS,
    MAX_NAMES,
    NAMED,
    Reach,
    is_limiting,
    reach_faults,
    reach_of,
)
from gateway.common.contract.scopes import Fixed, Grant, Managed, scope_name, use_case_name
from gateway.common.contract.tags import NAME, PREFIX

T = TypeVar("T")
V = TypeVar("V")


def _by(check: Callable[[T], V]) -> AfterValidator:
    """*check* as a validator that lets null through and words its faults itself."""

    def checked(value: T | None) -> V | None:
        try:
            return None if value is None else check(value)
        except InvalidKey as error:
            raise RefusedValue(str(error)) from error

    return AfterValidator(checked)


def _is_ours(secret: str) -> bool:
    """Whether a gateway made it."""
    return any(parse(prefix, secret) is not None for prefix in (GATEWAY_PREFIX, SERVICE_PREFIX))


def _secret(text: str) -> str:
    if not _is_ours(text) and (fault := legacy_fault(text)) is not None:
        raise InvalidKey(f"secret: {fault}")
    return text


def _labels(given: Mapping[str, str | None]) -> Mapping[str, str | None]:
    valid_labels({name: value for name, value in given.items() if value is not None})
    return given


def _limits(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of what it may send and of what it sees. Raises InvalidKey with every fault."""
    if not all(name in _RATES or is_limiting(name) for name in given):
        raise InvalidKey(f"limits: an object of {_LIMIT_NAMES} is needed")
    beyond = {name: names for name, names in given.items() if name not in _RATES and names is not None}
    faults = reach_faults(beyond, "limits")
    try:
        valid_limits(replace(NO_LIMITS, **_rates(given)))
    except InvalidKey as error:
        faults.append(str(error))
    if faults:
        raise InvalidKey("; ".join(faults))
    return given


def _seen(given: Mapping[str, Any]) -> Mapping[str, Any]:
    if not all(map(is_limiting, given)):
        raise InvalidKey(f"limits: an object of {_SEEN_NAMES} is needed")
    if faults := reach_faults(given, "limits"):
        raise InvalidKey("; ".join(faults))
    return given


def _rates(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in _RATES}


_RATES = tuple(NO_LIMITS.as_json())
_SEEN_NAMES = f"{', '.join(NAMED)} and tags such as {PREFIX}feature"
_LIMIT_NAMES = f"{', '.join(_RATES)}, {_SEEN_NAMES}"


_TEXT = "a text"
_NAMES = {"type": ["array", "null"], "minItems": 1, "items": {"type": "string"}}
_LABEL = {"type": ["string", "null"], "minLength": 1, "maxLength": LABEL_MAX_CHARS}
_LABELS = {"type": ["object", "null"], "maxProperties": MAX_LABELS, "additionalProperties": _LABEL}
_LIMIT = {"type": ["integer", "null"], "minimum": 1, "maximum": MAX_LIMIT, "description": "Null for no limit."}
_TAG = f"^{PREFIX}{NAME}$"
_SEEN = {
    "type": ["array", "null"],
    "minItems": 1,
    "maxItems": MAX_NAMES,
    "items": {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS},
    "description": "It sees the calls of these alone. Null for no limit.",
}
_LIMITS = {
    "type": ["object", "null"],
    "additionalProperties": False,
    "properties": {**dict.fromkeys(_RATES, _LIMIT), **dict.fromkeys(NAMED, _SEEN)},
    "patternProperties": {_TAG: _SEEN},
}

Name = Annotated[
    str | None,
    _by(valid_name),
    Field(description=_TEXT, json_schema_extra={"minLength": NAME_MIN_CHARS, "maxLength": NAME_MAX_CHARS}),
]
Description = Annotated[
    str | None,
    _by(valid_description),
    Field(description=_TEXT, json_schema_extra={"maxLength": DESCRIPTION_MAX_CHARS}),
]
Names = Annotated[list[str] | None, WithJsonSchema(_NAMES), Field(description="a list of names")]
LabelChanges = Annotated[
    dict[str, str | None] | None,
    _by(_labels),
    WithJsonSchema(_LABELS),
    Field(description="an object of texts, with null for a label to remove,"),
]
LimitChanges = Annotated[
    dict[str, Any] | None,
    _by(_limits),
    WithJsonSchema(_LIMITS),
    Field(description=f"an object of {_LIMIT_NAMES}"),
]
SeenLimits = Annotated[
    dict[str, list[str]] | None,
    _by(_seen),
    WithJsonSchema(
        {
            "type": ["object", "null"],
            "additionalProperties": False,
            "properties": dict.fromkeys(NAMED, _SEEN),
            "patternProperties": {_TAG: _SEEN},
        }
    ),
    Field(description=f"an object of {_SEEN_NAMES}, each a list of names,"),
]
"""What a viewer's token sees; null for everything."""
Person = Annotated[str | None, _by(valid_person), Field(description="an e-mail or a name of who asks, as text,")]


class KeyBody(Body):
    """Base of the bodies about keys: a refusal names every fault."""

    @classmethod
    def refusal(cls, faults: Sequence[FieldFault]) -> Exception:
        return InvalidKey("; ".join(fault.text for fault in faults))


class By(KeyBody):
    """Who asks, and nothing else."""

    by: Person = None


class KeyFields(KeyBody):
    """What a new key and a change have in common."""

    name: Name = None
    description: Description = None
    scopes: Names = None
    managed: Names = Field(default=None, validate_default=True)
    labels: LabelChanges = None
    limits: LimitChanges = None
    by: Person = None

    @field_validator("managed")
    @classmethod
    def _one_sound_grant(cls, managed: list[str] | None, info: ValidationInfo) -> list[str] | None:
        """A key has scopes or use cases; names are taken as people type them."""
        if "scopes" in info.data:  # else it is refused already
            grants = _grants(info.data["scopes"], managed)
            both = ["scopes, managed: a key has fixed scopes or managed use cases, never both"]
            faults = [*both[: len(grants) - 1], *(fault for grant in grants for fault in _faults(grant))]
            faults += cls.faults_without_grant() if not grants else []
            if faults:
                raise RefusedValue("; ".join(faults))
        return managed

    @classmethod
    def faults_without_grant(cls) -> list[str]:
        return []

    @property
    def grant(self) -> Grant | None:
        return next(iter(_grants(self.scopes, self.managed)), None)

    def labels_on(self, had: Labels) -> Labels:
        """*had* with the changes. Raises InvalidKey, where together they are too many."""
        merged = {**had, **(self.labels or {})}
        return valid_labels({name: value for name, value in merged.items() if value is not None})

    def limits_on(self, had: RateLimits) -> RateLimits:
        return replace(had, **_rates(self.limits or {}))

    def reach_on(self, had: Reach) -> Reach:
        given = {name: names for name, names in (self.limits or {}).items() if name not in _RATES}
        merged = {**dict(had), **given}
        return reach_of({name: names for name, names in merged.items() if names is not None})


class NewKey(KeyFields):
    """A key to create. With `secret` and `name`, a key that another gateway made; with `secret`
    alone, the one key from before there were several.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "checkout",
                "managed": ["send-ai-telemetry"],
                "labels": {"team": "core"},
                "by": "ops@example.com",
            }
        }
    )

    secret: Annotated[
        str | None,
        _by(_secret),
        Field(
            description=_TEXT,
            repr=False,
            json_schema_extra={"minLength": LEGACY_MIN_CHARS, "maxLength": LEGACY_MAX_CHARS},
        ),
    ] = None
    replace: Annotated[bool, Field(description="true or false")] = False
    """With `secret`: where a key was imported already, it takes this secret and these rights."""
    confirmed: Annotated[bool, Field(description="true or false", validate_default=True)] = False
    """The caller knows which senders the first key refuses."""

    @field_validator("confirmed")
    @classmethod
    def _name_fits_secret(cls, confirmed: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 a field's value
        """Judged behind both fields: an imported key has a fixed name, any other needs one."""
        if "name" in info.data and "secret" in info.data:
            name, secret = info.data["name"], info.data["secret"]
            is_legacy = secret is not None and not _is_ours(secret)
            if is_legacy and name not in (None, LEGACY_NAME):
                raise RefusedValue(f"name: a key with its own secret is named {LEGACY_NAME!r}; leave the name out")
            if not is_legacy and name is None:
                raise RefusedValue("name: it is needed, with at least 3 characters")
            if not is_legacy and info.data.get("replace"):
                raise RefusedValue("replace: it is for a key with its own secret; give secret, or leave replace out")
        return confirmed

    @classmethod
    def faults_without_grant(cls) -> list[str]:
        return ["scopes, managed: one of them is needed, with at least one entry"]

    @property
    def legacy_secret(self) -> Secret | None:
        return None if self.secret is None or _is_ours(self.secret) else Secret(self.secret)

    @property
    def taken_secret(self) -> Secret | None:
        """Of a key that another gateway made."""
        return Secret(self.secret) if self.secret is not None and _is_ours(self.secret) else None


class KeyChange(KeyFields):
    """Fields that are not given stay as they are."""

    model_config = ConfigDict(
        json_schema_extra={"minProperties": 1, "example": {"limits": {"requests_per_minute": 600}}}
    )

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.model_fields_set - {"by"}:
            names = [name for name in KeyFields.model_fields if name != "by"]
            raise RefusedValue(f"nothing is changed: one of {', '.join(names)} is needed")
        return self

    def apply(self, key: KeyRecord) -> KeyRecord:
        """*key* with the change. Raises InvalidKey."""
        return edited(
            key,
            name=self.name,
            description=self.description,
            grant=self.grant,
            labels=self.labels_on(key.labels),
            limits=self.limits_on(key.limits),
            reach=self.reach_on(key.reach),
        )


class KeyDeletion(KeyBody):
    """The key's exact name, typed to confirm."""

    name: Annotated[str, Field(description="the key's exact name, to confirm,")]
    by: Person = None


def _grants(scopes: list[str] | None, managed: list[str] | None) -> list[Grant]:
    found: list[Grant] = []
    if scopes is not None:
        found.append(Fixed(frozenset(map(scope_name, scopes))))
    if managed is not None:
        found.append(Managed(frozenset(map(use_case_name, managed))))
    return found


def _faults(grant: Grant) -> list[str]:
    try:
        valid_grant(grant)
    except InvalidKey as error:
        return [str(error)]
    return []
