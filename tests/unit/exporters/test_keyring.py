import os
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from exporters.keyring import KeyFault, Keyring, KeySetting, read_secret
from exporters.secret import Secret

SEND = "ai-telemetry-ingest:ingest-ai-telemetry"
ENROLL = "ai-control-plane:enroll-device"


def key(name: str, secret: str, *scopes: str) -> KeySetting:
    return KeySetting(name, Secret(secret), frozenset(scopes).__contains__)


def revealed(ring: Keyring, scope: str) -> str | None:
    found = ring.key_for(scope)
    return None if found is None else found.secret.reveal()


def secret_in_file(folder: Path) -> tuple[Path, Keyring]:
    """A key's file, and the ring that read `old` from it."""
    path = folder / "key"
    path.write_text("old")
    ring = Keyring([key("a", f"${{file:{path}}}", SEND)])
    assert revealed(ring, SEND) == "old"
    return path, ring


def test_the_first_key_that_grants_the_scope_serves_it() -> None:
    ring = Keyring([key("a", "secret-a", ENROLL), key("b", "secret-b", SEND), key("c", "secret-c", SEND, ENROLL)])
    assert revealed(ring, SEND) == "secret-b"
    assert revealed(ring, ENROLL) == "secret-a"
    assert ring.key_for("billing:read_costs") is None
    assert ring.grants(SEND)
    assert not ring.grants("billing:read_costs")


def test_grants_are_asked_at_each_use_so_that_a_managed_key_follows_the_catalogue() -> None:
    granted: set[str] = set()
    asks: Callable[[str], bool] = granted.__contains__
    ring = Keyring([KeySetting("managed", Secret("secret-m"), asks)])
    assert ring.key_for(SEND) is None
    granted.add(SEND)
    assert revealed(ring, SEND) == "secret-m"


def test_secrets_come_from_the_environment_a_file_or_the_setting_trimmed(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("  from-file \n")
    environment = {"KEY": "\tfrom-env\n"}
    assert read_secret(Secret("${env:KEY}"), environment).reveal() == "from-env"
    assert read_secret(Secret(f"${{file:{path}}}"), environment).reveal() == "from-file"
    assert read_secret(Secret(" literal "), environment).reveal() == "literal"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty: the bare key is needed"),
        (" \n", "is empty: the bare key is needed"),
        ("abc\r\ndef", "line break inside: give the key alone"),
        ("abc\ndef", "line break inside: give the key alone"),
        ("Bearer abc", "Bearer ': give the bare key"),
        ("bearer abc", "Bearer ': give the bare key"),
        ("BEARER\tabc", "Bearer ': give the bare key"),
        ("Bearer ", "Bearer ': give the bare key"),
        ("abc\x00def", "no header may hold: give the key in printable ASCII"),
        ("schlüssel abc", "no header may hold: give the key in printable ASCII"),
        ("\ufeffabc", "without a byte order mark"),
    ],
)
def test_a_text_that_cannot_be_a_bare_header_value_is_refused_without_being_quoted(text: str, words: str) -> None:
    with pytest.raises(KeyFault, match=words) as caught:
        read_secret(Secret("${env:KEY}"), {"KEY": text})
    assert "abc" not in str(caught.value)
    assert "KEY" in str(caught.value)


@pytest.mark.parametrize("text", ["${ENV:abc}", "${abc}", "x${env:KEY}", "${env:KEY}${env:KEY}", "${file:}"])
def test_a_mistyped_reference_is_not_sent_as_the_key(text: str) -> None:
    with pytest.raises(KeyFault, match="the secret in the config must be") as caught:
        read_secret(Secret(text), {"KEY": "abc"})
    assert "abc" not in str(caught.value)


def test_faults_name_the_key_and_its_source(tmp_path: Path) -> None:
    ring = Keyring(
        [key("a", "${env:NOWHERE}", SEND), key("b", f"${{file:{tmp_path}/none}}", SEND), key("c", "fine", SEND)], {}
    )
    assert ring.faults() == [
        "upstream.keys, 'a', secret: environment variable NOWHERE is not set",
        f"upstream.keys, 'b', secret: file {tmp_path}/none cannot be read: No such file or directory",
    ]
    assert revealed(ring, SEND) == "fine"


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path, ring = secret_in_file(tmp_path)
    path.write_text("newer")
    assert revealed(ring, SEND) == "newer"


def test_a_file_that_is_swapped_by_rename_is_read_again(tmp_path: Path) -> None:
    path, ring = secret_in_file(tmp_path)
    before = path.stat()
    beside = tmp_path / "key.new"
    beside.write_text("new")
    os.utime(beside, ns=(before.st_atime_ns, before.st_mtime_ns))  # the same age and size: only the file is another
    beside.rename(path)
    assert ring.look()
    assert revealed(ring, SEND) == "new"


def test_a_mounted_secret_that_is_swapped_by_its_folder_is_read_again(tmp_path: Path) -> None:
    """As Kubernetes does it: key -> ..data/key, ..data -> ..2026_01,
    and ..data is replaced as a whole.
    """
    for name, text in (("..2026_01", "old"), ("..2026_02", "new")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text(text)
        os.utime(tmp_path / name / "key", ns=(1, 1))
    (tmp_path / "..data").symlink_to("..2026_01")
    (tmp_path / "key").symlink_to("..data/key")
    ring = Keyring([key("a", f"${{file:{tmp_path}/key}}", SEND)])
    assert revealed(ring, SEND) == "old"
    (tmp_path / "..data_tmp").symlink_to("..2026_02")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert ring.look()
    assert revealed(ring, SEND) == "new"


def test_a_file_that_is_empty_for_a_moment_leaves_its_last_secret_in_use(tmp_path: Path) -> None:
    path, ring = secret_in_file(tmp_path)
    path.write_text("")
    assert revealed(ring, SEND) == "old"
    path.write_text("new")
    assert revealed(ring, SEND) == "new"


def test_a_refusal_that_comes_late_does_not_mark_the_secret_that_took_over(tmp_path: Path) -> None:
    path, ring = secret_in_file(tmp_path)
    old = ring.key_for(SEND)
    assert old is not None
    path.write_text("newer")
    assert ring.refuse(old, SEND)
    assert ring.refuse(old, SEND), "of a request that was under way with it"
    assert revealed(ring, SEND) == "newer"


def test_a_file_that_vanishes_leaves_its_last_secret_in_use(tmp_path: Path) -> None:
    path, ring = secret_in_file(tmp_path)
    path.unlink()
    assert revealed(ring, SEND) == "old"


def test_a_refused_key_is_read_again_and_used_when_it_is_another_one() -> None:
    environment = {"KEY": "old"}
    ring = Keyring([key("a", "${env:KEY}", SEND)], environment)
    old = ring.key_for(SEND)
    assert old is not None
    environment["KEY"] = "new"
    assert ring.refuse(old, SEND)
    assert revealed(ring, SEND) == "new"


def test_a_refused_key_gives_way_to_the_next_one_and_comes_back_when_its_secret_changes(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("first")
    ring = Keyring([key("a", f"${{file:{path}}}", SEND, ENROLL), key("b", "second", SEND)])
    first = ring.key_for(SEND)
    assert first is not None
    assert ring.refuse(first, SEND)
    assert revealed(ring, SEND) == "second"
    assert revealed(ring, ENROLL) == "first", "a refusal counts for its scope only"
    path.write_text("first again")
    assert revealed(ring, SEND) == "first again"


def test_when_all_keys_are_refused_the_lane_is_held_and_probing_starts_over() -> None:
    ring = Keyring([key("a", "first", SEND), key("b", "second", SEND)])
    first = ring.key_for(SEND)
    assert first is not None
    assert ring.refuse(first, SEND)
    second = ring.key_for(SEND)
    assert second is not None
    assert not ring.refuse(second, SEND)
    assert revealed(ring, SEND) == "first"


def test_no_secret_shows_in_the_repr_of_anything() -> None:
    setting = key("a", "hush-hush", SEND)
    ring = Keyring([setting])
    assert "hush-hush" not in f"{setting!r} {ring!r} {ring.key_for(SEND)!r} {vars(ring)!r}"


def test_no_secret_shows_in_a_fault_or_its_traceback(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"hush-hush \xff")
    for reference in ("Bearer hush-hush", "hush-hush\nsecond", f"${{file:{path}}}"):
        with pytest.raises(KeyFault) as caught:
            read_secret(Secret(reference), {})
        shown = "".join(traceback.format_exception(caught.value))
        assert "hush-hush" not in shown


def test_a_key_file_that_appears_or_changes_is_seen_once(tmp_path: Path) -> None:
    path = tmp_path / "key"
    ring = Keyring([key("a", f"${{file:{path}}}", SEND), key("b", "${env:UNSET}", SEND)], {})
    assert not ring.look()
    path.write_text("one")
    assert (ring.look(), ring.look()) == (True, False)
    path.write_text("second")
    assert (ring.look(), ring.look()) == (True, False)
