"""The names under which spans and logs state whose call it is: user, session, team and project.

1. Names that conventions define.
2. Free metadata, by the place that a library gives it (`_PLACES`) and the spellings in use.
3. Names of a library's own that end like one of these (`stated_by`).
"""

import re
from typing import Final

_PLACES = (
    "traceloop.association.properties.",
    "ai.telemetry.metadata.",
    "langsmith.metadata.",
    "langfuse.trace.metadata.",
    "mastra.metadata.",
    "metadata.",
)
SPELLINGS: dict[str, tuple[str, ...]] = {
    "user": ("user_id", "userId", "user.id", "user", "end_user_id", "endUserId"),
    "session": (
        "session_id", "sessionId", "session.id", "thread_id", "threadId", "conversation_id", "conversationId",
        "chat_id", "chatId",
    ),
    "team": ("team_id", "teamId", "team.id", "team"),
    "project": ("project_id", "projectId", "project.id", "project"),
}  # fmt: skip


def _in_metadata(field: str) -> tuple[str, ...]:
    return tuple(place + spelling for place in _PLACES for spelling in SPELLINGS[field])


_DEFINED: dict[str, tuple[str, ...]] = {
    "user": (
        "user.id",
        "enduser.id",
        "gen_ai.user",
        "gen_ai.user.id",
        "gen_ai.request.user",
        "llm.user",
        "langfuse.user.id",
        "user.email",
        *_in_metadata("user"),
        "mastra.metadata.resourceId",
        "enduser.pseudo.id",
    ),
    "session": (
        "session.id",
        "gen_ai.conversation.id",
        "gen_ai.session.id",
        "langfuse.session.id",
        "gcp.vertex.agent.session_id",
        *_in_metadata("session"),
    ),
    "team": (
        "team.id",
        "gen_ai.team_id",
        "litellm.team.id",
        "litellm.team_id",
        "litellm.team.alias",
        "team.name",
        *_in_metadata("team"),
    ),
    "project": ("project.id", "project.name", *_in_metadata("project")),
}
"""`session.id` goes before the conversation's id: an application sets the first on purpose, a
library mints the second. Mastra's `resourceId` is whom a memory belongs to."""

_BARE: dict[str, tuple[str, ...]] = {
    "user": ("user_id", "userId"),
    "session": ("session_id", "sessionId", "threadId"),
    "team": ("team", "teamId"),
    "project": ("project", "projectId"),
}
"""Read on spans and logs of AI libraries only: elsewhere they may mean anything. `thread.id` is the
operating system's or the runtime's thread in OpenTelemetry, of no conversation."""

NAMES: dict[str, tuple[str, ...]] = {field: (*_DEFINED[field], *_BARE[field]) for field in _DEFINED}
ANYWHERE: dict[str, tuple[str, ...]] = _DEFINED
"""Those that mean the same on a span of any library."""

_OWN: Final = re.compile(
    r"(?:[\w-]+\.)+(?:association[._]?properties\.(?P<field>user|session)[._]?id|(?P<session>(?:session|conversation)[._]id)|(?P<user>(?:end_?)?user_id))"
    r"|(?P<bare>conversation\.id)",
    re.ASCII,
)
_NOT_OURS: Final = ("http.", "url.", "db.", "rpc.", "messaging.", "browser.", "aws.", "os.", "process.", "device.")


def stated_by(name: str) -> str | None:
    """Rule 3: the field that an attribute of an AI span states by the end of its name; None for
    most names.
    """
    found = None if name.startswith(_NOT_OURS) else _OWN.fullmatch(name)
    if found is None:
        return None
    return found["field"] or ("user" if found["user"] else "session")
