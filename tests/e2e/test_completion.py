"""`completion` in the shells themselves: what each makes of a line that is half typed."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.programs import needs_program

LIMIT_S: Final = 60
LINES: Final = {
    "telemetry-gateway sender": "telemetry-gateway senders",
    "telemetry-gateway keys cre": "telemetry-gateway keys create",
    "telemetry-gateway senders --lim": "telemetry-gateway senders --limit",
}
TAB: Final = "\t"
SHOW: Final = "\x14"
"""Ctrl-T: the settings below have it print the line."""
CLEAR: Final = "\x15"
"""Ctrl-U."""
BASH: Final = r"""PS1='ready> '
source {script}
bind -x '"\C-t": printf "<%s>\n" "$READLINE_LINE"'
"""
ZSH: Final = r"""PS1='ready> '
{fpath}
autoload -Uz compinit && compinit -D -u
{source}
show() {{ print -r -- "<$BUFFER>" }}
zle -N show && bindkey '^T' show
"""


def environment(home: Path) -> dict[str, str]:
    """No settings of the user who runs the tests."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "TERM": "dumb", "LC_ALL": "C.UTF-8"}


def script_of(shell: str, home: Path) -> str:
    command = ["telemetry-gateway", "completion", shell]
    return subprocess.run(command, env=environment(home), check=True, capture_output=True, text=True).stdout


class Typist:
    """Types at a shell's prompt."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._seen = ""

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def read_until(self, end: str) -> str:
        """What the shell wrote, through *end*. Raises AssertionError where that does not come."""
        while end not in self._seen:
            assert select.select([self._terminal], [], [], LIMIT_S)[0], f"no {end!r} in {self._seen!r}"
            self._seen += os.read(self._terminal, 4096).decode(errors="replace")
        read, _, self._seen = self._seen.partition(end)
        return read + end


@contextmanager
def prompt_of(home: Path, *command: str) -> Iterator[Typist]:
    """A terminal in which the shell waits for its first line."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        command, env=environment(home), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        typist = Typist(ours)
        typist.read_until("ready> ")
        yield typist
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def completed(typist: Typist) -> dict[str, str]:
    """Line -> what Tab makes of it."""
    found = {}
    for line in LINES:
        typist.type(f"{CLEAR}{line}{TAB}{SHOW}")
        typist.read_until("<")
        found[line] = typist.read_until(">").removesuffix(">").rstrip()
    return found


@needs_program("bash", get="Debian has it as bash")
def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    (tmp_path / "completion").write_text(script_of("bash", tmp_path))
    (tmp_path / "rc").write_text(BASH.format(script=tmp_path / "completion"))
    with prompt_of(tmp_path, "bash", "--noprofile", "--rcfile", str(tmp_path / "rc"), "-i") as typist:
        assert completed(typist) == LINES


@needs_program("zsh", get="Debian has it as zsh")
@pytest.mark.parametrize("way", ["fpath", "source"])
def test_zsh_completes_commands_and_options(tmp_path: Path, way: str) -> None:
    """As docs/start/developers.md has it: the script is in a folder of `$fpath`, or sourced."""
    script = tmp_path / "_telemetry-gateway"
    script.write_text(script_of("zsh", tmp_path))
    fpath, source = (f"fpath=({tmp_path} $fpath)", "") if way == "fpath" else ("", f"source {script}")
    (tmp_path / ".zshrc").write_text(ZSH.format(fpath=fpath, source=source))
    with prompt_of(tmp_path, "zsh", "-d", "-i") as typist:
        assert completed(typist) == LINES


@needs_program("fish", get="Debian has it as fish")
def test_fish_completes_commands_and_options(tmp_path: Path) -> None:
    folder = tmp_path / ".config/fish/completions"
    folder.mkdir(parents=True)
    (folder / "telemetry-gateway.fish").write_text(script_of("fish", tmp_path))
    for line, whole in LINES.items():
        command = ["fish", "-c", f"complete -C '{line}'"]
        done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert [each.partition("\t")[0] for each in done.stdout.splitlines()] == [whole.split()[-1]]
