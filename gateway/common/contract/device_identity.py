"""What names a device, what enrols it, and the ids that follow from its name. Pure.

1. `device.id` or `host.id` of the telemetry, or a record's own `device_id`
   (`gateway.rules.attribution`), 2. the id in the path of a heartbeat, ping or enrolment, 3. of
   known coding assistants the host's name and the user, as a keyed hash. Pod and container names
   name no device, so that a cluster does not mint one with each restart.
"""

import hashlib
import hmac
from typing import Final, Literal, get_args

Origin = Literal["telemetry", "heartbeat", "ping", "enrolment", "gateway"]
"""How a device made its first contact."""
Kind = Literal["workstation", "server", "gateway"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

POSTED: Final[Kind] = "workstation"
"""What a device is that was posted by itself, unless it states another kind."""
MAX_ID: Final = 128
ID_RULE: Final = (
    f"must be a text of 1 to {MAX_ID} printable characters, without white space at its ends, and neither . nor .."
)
MAX_CLONES: Final = 8
_HASH_HEX: Final = 32
_PHASE_BITS: Final = 32

ASSISTANTS: Final[frozenset[str]] = frozenset(
    {"claude-code", "codex", "codex_cli_rs", "codex_exec", "codex_vscode", "gemini-cli", "qwen-code", "copilot-chat"}
    | {"github.copilot", "goose", "cline", "cursor"}
)  # fmt: skip
"""`service.name` of coding assistants, which run on a person's machine."""


def is_device_id(text: str) -> bool:
    """1 to 128 printable characters, none of them white space at an end;
    anything else enrols no one.

    `.` and `..` are none: in the path of a request they name another path,
    however they are written.
    """
    return 0 < len(text) <= MAX_ID and text.isprintable() and text == text.strip() and text not in {".", ".."}


def machine_id(secret: bytes, host: str, user: str) -> str:
    """Of a machine that states no id: the same for one host and user at this gateway;
    it states neither of them.
    """
    hashed = f"{len(host)}:{host}{user}".encode("utf-8", "replace")
    return "machine-" + hmac.digest(secret, hashed, "sha256").hex()[:_HASH_HEX]


def enrollment_id(device_id: str, epoch: int) -> str:
    """The same for one device and epoch at any time, process and replica: a
    repeat enrols no one twice.
    """
    return hashlib.sha256(f"enroll|{device_id}|{epoch}".encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_HEX]


def clone_id(device_id: str, number: int) -> str:
    """The id of the *number*-th machine (from 2) that speaks under one id."""
    return f"{device_id}~{number}"


def fraction(*parts: object) -> float:
    """A number in [0, 1) that hangs on *parts* alone, spread evenly."""
    hashed = "|".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(hashed, digest_size=_PHASE_BITS // 8).digest()) / (1 << _PHASE_BITS)


def kind_of_service(service_name: str | None) -> Kind:
    """What a device that only sends telemetry most likely is."""
    return "workstation" if service_name in ASSISTANTS else "server"
