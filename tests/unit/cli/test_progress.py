"""Progress of long commands: lines where there is no terminal, and only when they take long."""

import pytest

from gateway.cli import progress


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_without_a_terminal_a_line_comes_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    advance = progress.Lines(clock).begin("Copying", 80 << 20)
    for _ in range(10):
        clock.now_s += 1
        advance(4 << 20)
    assert capsys.readouterr().err.splitlines() == [
        "Copying: 20 of 80 MiB (25 %)",
        "Copying: 40 of 80 MiB (50 %)",
    ]


def test_what_is_of_unknown_size_states_what_is_done() -> None:
    assert progress.line_of("Copying", 3 << 20, None) == "Copying: 3 MiB"


def test_what_is_done_is_measured_during_the_work() -> None:
    sizes, seen = iter([5, 5, 12]), []
    looked = progress.threading.Event()

    def measure() -> int:
        found = next(sizes, 12)
        if found == 12:
            looked.set()
        return found

    with progress.watched(measure, seen.append):
        assert looked.wait(30)
    assert sum(seen) == 12


def test_a_command_that_waits_says_so_only_when_it_takes_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress.waiting("Reading"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.01)
    printed = progress.threading.Event()
    monkeypatch.setattr(progress.click, "echo", lambda text, err: printed.set())
    with progress.waiting("Reading"):
        assert printed.wait(30)
