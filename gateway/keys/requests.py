"""What a request asks of a key: JSON fields become a new key or a change of one, or all their faults at once. Pure.

`scopes` and `managed` are the two kinds of grant, of which a key has exactly one. `labels` and `limits` of a change are merged into
what the key has (RFC 7396): what is named is set, null takes it away, the rest stays.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from exporters.secret import Secret
from gateway.contract.scopes import Fixed, Grant, Managed, scope_name, use_case_name
from gateway.keys.errors import InvalidKey
from gateway.keys.faults import Faults
from gateway.keys.key import legacy_fault
from gateway.keys.labels import NO_LABELS, Labels, valid_labels
from gateway.keys.limits import NO_LIMITS, Limits, valid_limits
from gateway.keys.record import LEGACY_NAME, KeyRecord, edited, valid_description, valid_grant, valid_name, valid_person

OPERATOR = "operator"
"""Created By and Updated By where a request does not say who asks: the admin token is no person's."""

Fields = Mapping[str, Any]

_NO_GRANT: Grant = Fixed(frozenset())

OF_A_KEY = ("name", "description", "scopes", "managed", "labels", "limits", "by")
OF_A_NEW_KEY = (*OF_A_KEY, "secret", "confirmed")
OF_A_DELETION = ("name", "by")


class NewKey(NamedTuple):
    name: str
    description: str
    grant: Grant
    labels: Labels
    limits: Limits
    by: str
    legacy_secret: Secret | None
    """Of the one key from before there were several; None: a secret is made."""
    is_confirmed: bool
    """Whoever asks knows which senders the first key refuses."""


class Change(NamedTuple):
    by: str
    apply: Callable[[KeyRecord], KeyRecord]


def new_key(fields: Fields) -> NewKey:
    """Raises InvalidKey with every fault."""
    faults = _faults_of_names(fields, OF_A_NEW_KEY)
    found = NewKey(
        name=faults.checked(_new_name, fields, ""),
        description=faults.checked(_description, fields, "") or "",
        grant=faults.checked(_new_grant, fields, _NO_GRANT),
        labels=faults.checked(_labels(NO_LABELS), fields, NO_LABELS),
        limits=faults.checked(_limits(NO_LIMITS), fields, NO_LIMITS),
        by=faults.checked(by_in, fields, ""),
        legacy_secret=faults.checked(_secret, fields, None),
        is_confirmed=faults.checked(_confirmed, fields, otherwise=False),
    )
    faults.refuse()
    return found


def change_of(fields: Fields) -> Change:
    """Raises InvalidKey with every fault that shows before the key is looked at."""
    faults = _faults_of_names(fields, OF_A_KEY)
    name = faults.checked(_name, fields, None)
    description = faults.checked(_description, fields, None)
    grant = faults.checked(_grant, fields, None)
    by = faults.checked(by_in, fields, "")
    for check in (_labels(NO_LABELS), _limits(NO_LIMITS)):
        faults.checked(check, fields, None)
    if not fields.keys() & set(OF_A_KEY) - {"by"}:
        faults.found.append(f"nothing is changed: one of {', '.join(OF_A_KEY[:-1])} is needed")
    faults.refuse()

    def apply(key: KeyRecord) -> KeyRecord:
        labels, limits = _labels(key.labels)(fields), _limits(key.limits)(fields)
        return edited(key, name=name, description=description, grant=grant, labels=labels, limits=limits)

    return Change(by, apply)


def deletion(fields: Fields) -> str:
    """The name that was typed to confirm. Raises InvalidKey."""
    faults = _faults_of_names(fields, OF_A_DELETION)
    faults.checked(by_in, fields, "")
    typed = fields.get("name")
    if not isinstance(typed, str):
        faults.found.append("name: the key's exact name is needed, to confirm")
    faults.refuse()
    return str(typed)


def by_in(fields: Fields) -> str:
    """Who asks."""
    by = _text(fields, "by")
    return OPERATOR if by is None else valid_person(by)


def only_by(fields: Fields) -> str:
    """Who asks, in a body that may hold nothing else. Raises InvalidKey."""
    faults = _faults_of_names(fields, ("by",))
    by = faults.checked(by_in, fields, "")
    faults.refuse()
    return by


def _faults_of_names(fields: Fields, known: Iterable[str]) -> Faults:
    """Begins with what is no field; its name is not told, for anything may have been put there."""
    faults = Faults()
    if fields.keys() - set(known):
        faults.found.append(f"the body may hold {', '.join(known)}, and nothing else")
    return faults


def _text(fields: Fields, name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidKey(f"{name}: a text is needed")
    return value


def _name(fields: Fields) -> str | None:
    name = _text(fields, "name")
    return None if name is None else valid_name(name)


def _new_name(fields: Fields) -> str:
    name = _name(fields)
    if fields.get("secret") is not None:
        if name not in (None, LEGACY_NAME):
            raise InvalidKey(f"name: a key that brings its secret is named {LEGACY_NAME!r}; leave the name out")
        return LEGACY_NAME
    if name is None:
        raise InvalidKey("name: it is needed, with at least 3 characters")
    return name


def _description(fields: Fields) -> str | None:
    text = _text(fields, "description")
    return None if text is None else valid_description(text)


def _grant(fields: Fields) -> Grant | None:
    """Names are taken as people type them."""
    faults = Faults()
    scopes = faults.checked(lambda found: _names(found, "scopes"), fields, None)
    managed = faults.checked(lambda found: _names(found, "managed"), fields, None)
    grants: list[Grant] = []
    if scopes is not None:
        grants.append(Fixed(frozenset(scope_name(name) for name in scopes)))
    if managed is not None:
        grants.append(Managed(frozenset(use_case_name(name) for name in managed)))
    if len(grants) > 1:
        faults.found.append("scopes, managed: a key has fixed scopes or managed use cases, never both")
    for grant in grants:
        faults.checked(valid_grant, grant, grant)
    faults.refuse()
    return grants[0] if grants else None


def _new_grant(fields: Fields) -> Grant:
    grant = _grant(fields)
    if grant is None:
        raise InvalidKey("scopes, managed: one of them is needed, with at least one entry")
    return grant


def _names(fields: Fields, name: str) -> list[str] | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidKey(f"{name}: a list of names is needed")
    return value


def _labels(had: Labels) -> Callable[[Fields], Labels]:
    def merged(fields: Fields) -> Labels:
        asked = fields.get("labels")
        if asked is None:
            return had
        if not isinstance(asked, dict) or not all(value is None or isinstance(value, str) for value in asked.values()):
            raise InvalidKey("labels: an object of texts is needed, or null for a label to be taken away")
        kept = {name: value for name, value in {**had, **asked}.items() if value is not None}
        return valid_labels(kept)

    return merged


def _limits(had: Limits) -> Callable[[Fields], Limits]:
    def merged(fields: Fields) -> Limits:
        asked = fields.get("limits")
        if asked is None:
            return had
        names = had.as_json().keys()
        if not isinstance(asked, dict) or asked.keys() - names:
            raise InvalidKey(f"limits: an object of {' and '.join(names)} is needed")
        return valid_limits(replace(had, **asked))

    return merged


def _secret(fields: Fields) -> Secret | None:
    text = _text(fields, "secret")
    fault = None if text is None else legacy_fault(text)
    if fault is not None:
        raise InvalidKey(f"secret: {fault}")
    return None if text is None else Secret(text)


def _confirmed(fields: Fields) -> bool:
    value = fields.get("confirmed", False)
    if not isinstance(value, bool):
        raise InvalidKey("confirmed: true or false is needed")
    return value
