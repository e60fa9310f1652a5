"""Where an error arose, as a log may show it: an error's text may quote data, so only classes and
places are reported. Pure.
"""

import traceback
from pathlib import PurePath

MAX_FRAMES = 6


def places(error: BaseException) -> list[str]:
    """The innermost frames as `module.py:line function`, outermost first."""
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    return [f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
