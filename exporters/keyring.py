"""Which secret serves which scope. Outbound keys in the operator's order; the first that
grants a scope serves it.

A secret is named by `${env:NAME}` or `${file:PATH}`, or stands there literally. A file is
read again when it changes. When the upstream refuses a key (401, 403), its secret is read
again; is it the same, the next granting key takes over, so that two keys on one lane
rotate with no gap. When all are refused the marks are cleared: the lane is held, and each
probe starts from the first key.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exporters.secret import Secret

_REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")
_FileStamp = tuple[int, int, int]
"""(mtime in ns, size, inode)"""
NO_KEY_GRANTS = "no configured key grants"
"""How the reason begins for which a lane is off, or keeps back a part of what it holds."""
NOT_WANTED = "not wanted here (upstream.unused_lanes)"
"""The reason of a lane that the configuration turned off."""


class KeyFault(Exception):
    """A secret cannot be read or cannot be a key; the text names the source, never the secret."""


@dataclass(frozen=True, slots=True)
class KeySetting:
    """One configured key."""

    name: str
    secret: Secret
    """`${env:NAME}`, `${file:PATH}`, or the secret itself."""
    grants: Callable[[str], bool]
    """Whether the key grants a scope; asked at each use, so that a
    managed key follows the catalogue."""


@dataclass(frozen=True, slots=True)
class OutboundKey:
    """A key ready to be sent."""

    name: str
    secret: Secret


@dataclass(slots=True)
class _Slot:
    setting: KeySetting
    secret: Secret | None = None
    stamp: _FileStamp | None = None
    refused_for: set[str] = field(default_factory=set)
    """Scopes for which the upstream refused the secret as it is now."""


class Keyring:
    def __init__(self, settings: Sequence[KeySetting], environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._slots = [_Slot(setting) for setting in settings]
        self._files = self._file_stamps()

    def use(self, settings: Sequence[KeySetting]) -> None:
        """Take other keys, in their order; every secret is read again, and none is refused yet."""
        self._slots = [_Slot(setting) for setting in settings]
        self._files = self._file_stamps()

    def faults(self) -> list[str]:
        """What is wrong with the configured secrets now, one line
        each, for the start and `doctor`.
        """
        return [fault for slot in self._slots if (fault := self._read(slot)) is not None]

    def grants(self, scope: str) -> bool:
        """Whether any configured key grants *scope*; if none does, the lane is off."""
        return any(slot.setting.grants(scope) for slot in self._slots)

    def look(self) -> bool:
        """Whether a secret's file changed since the last look: what is held for
        its key is worth another try.
        """
        before, self._files = self._files, self._file_stamps()
        return self._files != before

    def _file_stamps(self) -> list[_FileStamp | None]:
        return [_file_stamp(slot.setting.secret) for slot in self._slots]

    def key_for(self, scope: str) -> OutboundKey | None:
        """The first key that grants *scope*, can be read, and was not refused
        for it; None when there is none.
        """
        for slot in self._slots:
            if slot.setting.grants(scope):
                self._read_if_changed(slot)
                if slot.secret is not None and scope not in slot.refused_for:
                    return OutboundKey(slot.setting.name, slot.secret)
        return None

    def refuse(self, key: OutboundKey, scope: str) -> bool:
        """The upstream would not take *key* for *scope*.

        True when another try makes sense: a new secret, or another key.
        """
        for slot in self._slots:
            if slot.setting.name == key.name:
                self._read(slot)
                if slot.secret == key.secret:
                    slot.refused_for.add(scope)
        if self.key_for(scope) is not None:
            return True
        for slot in self._slots:
            slot.refused_for.discard(scope)
        return False

    def _read_if_changed(self, slot: _Slot) -> None:
        if slot.secret is None or _file_stamp(slot.setting.secret) != slot.stamp:
            self._read(slot)

    def _read(self, slot: _Slot) -> str | None:
        """Read the slot's secret again; the fault when that fails, and
        then the last good secret stands.
        """
        stamp = _file_stamp(slot.setting.secret)
        try:
            secret = read_secret(slot.setting.secret, self._environment)
        except KeyFault as fault:
            return f"upstream.keys, {slot.setting.name!r}, secret: {fault}"
        slot.stamp = stamp
        if secret != slot.secret:
            slot.secret = secret
            slot.refused_for.clear()
        return None


def no_key_grants(scopes: Iterable[str]) -> str:
    """Why a lane that needs one of *scopes* sends nothing."""
    return f"{NO_KEY_GRANTS} {' or '.join(scopes)}"


def read_secret(reference: Secret, environment: Mapping[str, str]) -> Secret:
    """The secret that *reference* names, trimmed.

    Raises KeyFault when it cannot be read or cannot be a header value.
    """
    match = _REFERENCE.fullmatch(reference.reveal().strip())
    if match is None:
        if "${" in reference.reveal():  # else a mistyped reference would be sent as the key, and refused there
            raise KeyFault('the secret in the config must be "${env:NAME}" or "${file:path}", and nothing around it')
        return checked_secret(reference.reveal(), "the secret in the config")
    kind, name = match.groups()
    if kind == "env":
        if name not in environment:
            raise KeyFault(f"environment variable {name} is not set")
        return checked_secret(environment[name], f"environment variable {name}")
    try:
        text = Path(name).read_text("utf-8")
    except OSError as error:
        raise KeyFault(f"file {name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise KeyFault(
            f"file {name} is not UTF-8: write the key as plain text"
        ) from None  # the error's text would quote the bytes
    return checked_secret(text, f"file {name}")


def checked_secret(text: str, source: str) -> Secret:
    """*text* without surrounding white space, as a bare `Authorization` value.

    Raises KeyFault when it cannot be one.
    """
    trimmed = text.strip()
    if not trimmed:
        raise KeyFault(f"{source} is empty: the bare key is needed")
    if "\r" in trimmed or "\n" in trimmed:
        raise KeyFault(f"{source} has a line break inside: give the key alone, on one line")
    if trimmed.lower().split(maxsplit=1)[0] == "bearer":
        raise KeyFault(f"{source} starts with 'Bearer ': give the bare key")
    if not (trimmed.isascii() and trimmed.isprintable()):
        raise KeyFault(
            f"{source} has characters that no header may hold: give the key in printable ASCII, without a byte order mark"
        )
    return Secret(trimmed)


def _file_stamp(reference: Secret) -> _FileStamp | None:
    match = _REFERENCE.fullmatch(reference.reveal().strip())
    if match is None or match.group(1) != "file":
        return None
    try:
        status = Path(match.group(2)).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
