"""The commit that a release was built from."""

from pathlib import Path

from gateway.common.release import checked_out_commit, commit, release, written_commit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_build_wrote_its_commit_down(tmp_path: Path) -> None:
    (tmp_path / "commit.txt").write_text(f"{COMMIT}\n")
    assert written_commit(tmp_path / "commit.txt") == COMMIT
    assert written_commit(tmp_path / "none.txt") is None


def test_a_checkout_has_it_wherever_git_keeps_it(tmp_path: Path) -> None:
    assert checked_out_commit(tmp_path) is None
    (tmp_path / "HEAD").write_text(f"{COMMIT}\n")
    assert checked_out_commit(tmp_path) == COMMIT, "no branch is checked out"
    (tmp_path / "HEAD").write_text("ref: refs/heads/main\n")
    assert checked_out_commit(tmp_path) is None, "a branch without a commit"
    (tmp_path / "packed-refs").write_text(
        f"# pack-refs with: peeled\n{'f' * 40} refs/heads/other\n{COMMIT} refs/heads/main\n"
    )
    assert checked_out_commit(tmp_path) == COMMIT
    (tmp_path / "refs/heads").mkdir(parents=True)
    (tmp_path / "refs/heads/main").write_text(f"{'e' * 40}\n")
    assert checked_out_commit(tmp_path) == "e" * 40, "a loose ref is newer than a packed one"


def test_version_and_commit_are_short() -> None:
    assert release().count(".") == 2
    found = commit()
    assert found is None or len(found) == 12
