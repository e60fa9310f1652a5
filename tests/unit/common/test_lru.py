"""Bounded memory in the order of use."""

from gateway.common.lru import forget_oldest


def test_the_first_go_and_only_when_there_are_too_many() -> None:
    memory = dict.fromkeys(range(20))
    forget_oldest(memory, 20)
    assert list(memory) == list(range(20))
    memory[20] = None
    forget_oldest(memory, 20)
    assert list(memory) == list(range(3, 21)), "one too many, and a tenth"
