"""Whose change of a key it is."""

import pytest

from gateway.access.errors import InvalidKey
from gateway.access.operators import ANYONE, OPERATOR, Operators
from gateway.common.contract.errors import Forbidden

KNOWN = Operators({"Ops@Example.com": "operator", "reader@example.com": "viewer"})


def test_without_operators_any_name_is_taken_and_none_is_the_operator() -> None:
    assert ANYONE.person("root@host", OPERATOR) == "root@host"
    assert ANYONE.person(None, OPERATOR) == OPERATOR
    assert ANYONE.role_of("whoever@example.com") == "operator"


def test_with_operators_only_one_of_them_is_taken_in_any_case_of_letters() -> None:
    assert KNOWN.person("ops@example.com", OPERATOR) == "Ops@Example.com"
    for stated in (None, "root@host", "reader@example.com"):
        with pytest.raises(
            InvalidKey, match=r"^by: .* is no operator who may change keys: name one of Ops@Example.com"
        ):
            KNOWN.person(stated, OPERATOR)


def test_a_person_whom_the_connection_names_is_no_other() -> None:
    assert KNOWN.person(None, "ops@example.com") == "Ops@Example.com"
    assert ANYONE.person("Me@example.com", "me@example.com") == "me@example.com"
    with pytest.raises(InvalidKey, match="another person"):
        KNOWN.person("ops@example.com", "reader@example.com")


def test_a_role_is_that_of_the_configuration() -> None:
    assert KNOWN.role_of("OPS@example.com") == "operator"
    assert KNOWN.role_of("reader@example.com") == "viewer"
    with pytest.raises(Forbidden):
        KNOWN.role_of("stranger@example.com")
