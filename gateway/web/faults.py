"""Errors as a log and an answer may show them: classes and places, no text. Pure."""

import re
import traceback
from pathlib import PurePath

from gateway.errors import GatewayError
from gateway.keys.errors import KeyRefused
from gateway.lists.conventions import BadListRequest

MAX_FRAMES = 6


def places(error: BaseException) -> list[str]:
    """The innermost frames as `module.py:line function`, outermost first."""
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    return [f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]


def kind_of(error: Exception) -> str:
    """The error's class as a word: TooLarge -> `too_large`; what is not ours -> `unavailable`."""
    if isinstance(error, BadListRequest):
        return error.kind
    if not isinstance(error, GatewayError | KeyRefused):
        return "unavailable"
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()
