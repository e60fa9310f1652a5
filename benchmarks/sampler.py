"""Runs the gateway's command with a sampling profiler inside: standard library only, all threads.

python -m benchmarks.sampler OUT run --config FILE …

Every `INTERVAL_S` a thread notes the stack of each other thread. At exit OUT holds, a thread a
section, the functions with the most samples at the top of the stack (self) and anywhere in it (with
callees). A thread that waits (for the disk, for the loop's next event) is sampled too and shows as
the function it waits in. Samples fall where the interpreter may switch threads, so a long call into
C stands at the line that made it.
"""

import atexit
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

INTERVAL_S = 0.003
SWITCH_S = 0.0005
"""Else a busy thread keeps the interpreter for 5 ms before the sampler sees it, and idle ones
look larger than they are."""
_TOP = 30


class Sampler:
    """Counts of functions by thread name."""

    def __init__(self) -> None:
        self._self: dict[str, Counter[str]] = {}
        self._total: dict[str, Counter[str]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Begin sampling."""
        sys.setswitchinterval(SWITCH_S)
        self._thread.start()

    def stop(self) -> None:
        """End sampling."""
        self._stop.set()
        self._thread.join()

    def report(self) -> str:
        """The two rankings of each thread."""
        lines: list[str] = []
        for thread, total in self._total.items():
            samples = self._self[thread].total()
            lines.append(f"thread {thread}: {samples} samples")
            for title, counter in (("self", self._self[thread]), ("with callees", total)):
                lines.append(f"  {title}")
                lines += [f"    {100 * count / samples:5.1f} %  {name}" for name, count in counter.most_common(_TOP)]
        return "\n".join(lines)

    def _run(self) -> None:
        names: dict[int, str] = {}
        while not self._stop.wait(INTERVAL_S):
            names.update({thread.ident: thread.name for thread in threading.enumerate() if thread.ident is not None})
            for ident, frame in sys._current_frames().items():  # noqa: SLF001 - the documented way to see other threads
                if ident != self._thread.ident:
                    self._note(names.get(ident, str(ident)), frame)

    def _note(self, thread: str, frame: FrameType) -> None:
        self._self.setdefault(thread, Counter())[_name(frame)] += 1
        total, seen = self._total.setdefault(thread, Counter()), set()
        above: FrameType | None = frame
        while above is not None:
            seen.add(_name(above))
            above = above.f_back
        total.update(seen)


def _name(frame: FrameType) -> str:
    code = frame.f_code
    path = Path(code.co_filename)
    return f"{'/'.join(path.parts[-2:])}:{code.co_firstlineno} {code.co_qualname}"


def main() -> None:
    """Entry point: the output file first, then the command's own arguments."""
    from gateway.cli.main import main as command  # noqa: PLC0415 - only this command needs it

    out = Path(sys.argv.pop(1))
    sampler = Sampler()

    def write() -> None:
        sampler.stop()
        out.write_text(sampler.report() + "\n")

    atexit.register(write)
    sampler.start()
    command()


if __name__ == "__main__":
    main()
