"""A key of the gateway's own, its secret in a file (0600): the embedded service's reader, the
demo's sender.
"""

from contextlib import suppress
from pathlib import Path

import structlog

from exporters.secret import Secret
from gateway.access.errors import NoSuchKey
from gateway.access.record import KeyId
from gateway.access.store import KeyStore
from gateway.common.contract.scopes import Grant
from gateway.common.storage.private_files import restrict, write_private

log = structlog.get_logger()


async def kept_key(keys: KeyStore, path: Path, *, name: str, grant: Grant, by: str) -> Secret:
    """The secret in *path* when it is that of the enabled key *name*, which then has *grant*. So
    copies of the file stay valid. Else the key is replaced and written there.
    """
    text = _text(path)
    key = keys.authenticate(text or "")
    if text and key is not None and key.name == name:
        if key.grant != grant:
            await keys.edit(KeyId(key.key_id), by=by, grant=grant)
        return Secret(text)
    is_replaced = text is not None
    with suppress(NoSuchKey):
        await keys.delete(name, typed_name=name)
        is_replaced = True
    created = await keys.create(name, grant, by=by)
    write_private(path, created.secret.reveal().encode() + b"\n")
    if is_replaced:
        log.warning("a key file without the key's secret; a new key replaces it", file=path.name, key=name)
    return created.secret


def _text(path: Path) -> str | None:
    if not path.exists():
        return None
    restrict(path)
    return path.read_text(errors="replace").strip()
