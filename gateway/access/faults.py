"""Collects every fault of a key: each check runs, and its refusal is noted. Pure."""

from collections.abc import Callable
from typing import TypeVar

from gateway.access.errors import InvalidKey

T = TypeVar("T")
U = TypeVar("U")
A = TypeVar("A")


class Faults:
    def __init__(self) -> None:
        self.found: list[str] = []

    def checked(self, check: Callable[[A], T], value: A, otherwise: U) -> T | U:
        """The result of *check* on *value*; *otherwise* when it raises InvalidKey, which is
        noted.
        """
        try:
            return check(value)
        except InvalidKey as error:
            self.found.append(str(error))
            return otherwise

    def refuse(self) -> None:
        """Raise InvalidKey with every noted fault, if there is one."""
        if self.found:
            raise InvalidKey("; ".join(self.found))
