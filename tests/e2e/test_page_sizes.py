"""The page of a gateway with 10,000 dead letters, 2,000 keys, 20,000 devices and 1,000 insights."""

from pathlib import Path

from tests.support.crowded import crowded_gateway, look_at_views

MAX_BYTES = 300_000


def test_no_view_grows_with_what_there_is(tmp_path: Path) -> None:
    with crowded_gateway(tmp_path) as gateway:
        sizes = {seen.path: seen.size_bytes for seen in look_at_views(gateway, runs=1)}
    assert len(sizes) > 12
    assert {path: size for path, size in sizes.items() if size > MAX_BYTES} == {}
