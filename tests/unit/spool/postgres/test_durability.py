"""Settings under which an answered commit could be lost are refused, each with its remedy."""

import pytest

from spool.postgres.durability import Durability, unsafe_settings

SAFE = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "synchronous_standby_names": "ANY 1 (a, b)",
}


@pytest.mark.parametrize("synchronous_commit", ["on", "remote_apply"])
def test_a_durable_server_is_taken(synchronous_commit: str) -> None:
    settings = {**SAFE, "synchronous_commit": synchronous_commit}
    assert unsafe_settings(settings, "quorum") == []


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("fsync", "off", "set fsync = on"),
        ("full_page_writes", "off", "set full_page_writes = on"),
        ("synchronous_commit", "off", "set synchronous_commit = on"),
        ("synchronous_commit", "local", "set synchronous_commit = on"),
        ("synchronous_commit", "remote_write", "set synchronous_commit = on"),
    ],
)
@pytest.mark.parametrize("durability", ["quorum", "storage"])
def test_a_server_that_answers_too_early_is_named(name: str, value: str, remedy: str, durability: Durability) -> None:
    (found,) = unsafe_settings({**SAFE, name: value}, durability)
    assert found.startswith(f"{name} is {value}")
    assert remedy in found


def test_without_standbys_the_storage_must_be_replicated_and_be_declared() -> None:
    alone = {**SAFE, "synchronous_standby_names": " "}
    (found,) = unsafe_settings(alone, "quorum")
    assert "durability: storage" in found
    assert unsafe_settings(alone, "storage") == []
