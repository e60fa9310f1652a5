"""What a request's path states of its operation: gateways often log nothing else about it. Pure.

A path is compared from its end, so that prefixes (`/v1/{account}/{gateway}/openai/…`) and base
addresses do not matter; the path itself is never kept, for queries may hold keys. First match wins.
"""

import re
from functools import lru_cache
from typing import Final

_MAX_CHARS = 2048

_OPERATIONS: Final = (
    (re.compile(r"embeddings?$|:(batch)?embedcontents?$|/embed$"), "embeddings"),
    (re.compile(r"(chat/completions|/responses|/messages|/converse|/converse-stream|/chat)$|^(messages|responses|chat)$"), "chat"),
    (re.compile(r":(stream)?generatecontent$"), "generate_content"),
    (re.compile(r":(raw|streamraw)?predict$"), "chat"),
    (re.compile(r"images/(generations|edits|variations)$"), "image_generation"),
    (re.compile(r"audio/(transcriptions|translations)$"), "transcription"),
    (re.compile(r"audio/speech$"), "speech"),
    (re.compile(r"/?rerank$"), "rerank"),
    (re.compile(r"/?moderations$"), "moderation"),
    (re.compile(r"/?videos?(/generations)?$"), "video_generation"),
    (re.compile(r"/?completions?$"), "text_completion"),
)  # fmt: skip


def operation_of_path(path: str | None) -> str | None:
    """The well-known operation of a call to *path* (a path, or a whole
    address); None when it states none.
    """
    return _operation(path) if path is not None and len(path) <= _MAX_CHARS else None


@lru_cache(maxsize=512)
def _operation(path: str) -> str | None:
    end = path.partition("?")[0].partition("#")[0].rstrip("/").lower()
    for pattern, name in _OPERATIONS:
        if pattern.search(end):
            return name
    return None
