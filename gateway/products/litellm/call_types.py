"""LiteLLM's call types: which are calls of a model, and what they are called in a record. Pure.

Read from `litellm/types/utils.py` (`CallTypes`) and `litellm/constants.py`
(`NON_INFERENCE_CALL_TYPES`) of 1.106. An a before the name is the asynchronous form, an underscore
marks the realtime ones; both are left out here.

1. A name of `_CALLS` is a call, whatever usage it states.
2. A name of `_READS` reads an object that an earlier call made. It states usage only where no one
   stated it before: of a batch that is done, or of a response that ran in the background. So
   without usage it is none; with usage it is the object's call, stated at each read.
3. A name of `_STEPS` is AI around the calls (search, agents): it never bills.
4. A name of `_OTHERS` manages something: files, threads, containers, tools.
5. Passed-through requests and names that no table knows are calls where they state tokens or a
   cost, or failed at a model.
"""

from functools import lru_cache
from typing import Final, Literal, NamedTuple

Kind = Literal["call", "read", "step", "other", "open"]

_CALLS: Final = {
    "completion": "chat",
    "responses": "chat",
    "responses_websocket": "chat",
    "anthropic_messages": "chat",
    "realtime": "chat",
    "create_interaction": "chat",
    "run_thread": "chat",
    "run_thread_stream": "chat",
    "generate_content": "generate_content",
    "generate_content_stream": "generate_content",
    "text_completion": "text_completion",
    "embedding": "embeddings",
    "image_generation": "image_generation",
    "image_edit": "image_generation",
    "image_variation": "image_generation",
    "passthrough-image-generation": "image_generation",
    "transcription": "transcription",
    "speech": "speech",
    "rerank": "rerank",
    "moderation": "moderation",
    "create_video": "video_generation",
    "video_generation": "video_generation",
    "video_remix": "video_generation",
    "video_edit": "video_generation",
    "video_extension": "video_generation",
    "ocr": "ocr",
}
_READS: Final = frozenset({"retrieve_batch", "get_responses", "video_retrieve", "video_status", "retrieve_interaction"})
_STEPS: Final = frozenset(
    {"search", "vector_store_search", "query", "ingest", "send_message", "run_code", "code_interpreter_tool"}
)
_OTHERS: Final = frozenset({"call_mcp_tool", "list_mcp_tools", "create_batch", "cancel_batch", "count_tokens", "skill"})
_OTHER_WORDS: Final = (
    "get_", "list_", "create_", "delete_", "retrieve_", "cancel_", "add_", "upload_", "file_", "vector_store_", "video_",
)  # fmt: skip


class CallType(NamedTuple):
    kind: Kind
    operation: str


@lru_cache(maxsize=512)
def call_type(sent: str) -> CallType:
    """What LiteLLM's *sent* call type means."""
    whole = sent.strip().lower().lstrip("_")
    for name in (whole, whole.removeprefix("a").lstrip("_")):
        if name in _CALLS:
            return CallType("call", _CALLS[name])
        if name in _READS:
            return CallType("read", "video_generation" if name.startswith("video") else "chat")
        if name in _STEPS:
            return CallType("step", "")
        if name in _OTHERS or name.startswith(_OTHER_WORDS):
            return CallType("other", "")
    return CallType("open", "chat")
