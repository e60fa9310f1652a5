"""The body of an answer: how much of it is read, its content encoding and charset undone, and
whether it was read whole. Pure.

An answer may name every item of the request with a reason and repeat what it refused, so its
bound follows from the request (`answer_bytes`). The body that comes out is UTF-8 without a byte
order mark, but for protobuf. What was cut, or cannot be unpacked, comes out as far as it could be
read, with the `Cut`; of a success `whole_json` then decides whether it may be believed.
"""

import codecs
import json
import re
import zlib
from typing import Literal

import orjson

BASE_BYTES = 64 * 1024
BYTES_PER_ITEM = 4 * 1024
"""A reason with its code, in an entry of its own. A service that repeats what it was sent is
covered by the size of the request."""
OBJECTS_PER_ITEM = 64
"""Objects and arrays in an answer: each takes 64 bytes of memory, and three to send."""
ERROR_BYTES = 1024 * 1024
"""Read of an answer whose status is enough."""
LENIENT_BYTES = 1024 * 1024
"""The standard library reads what orjson refuses (NaN, half an emoji, raw control characters),
ten times slower: so only of answers up to this size."""
CHARSETS = frozenset(
    {"utf-8", "ascii", "iso8859-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"}
)
"""Those that a JSON text comes in; other codecs of Python may be slow, or are no text."""

PROTOBUF_TYPES = frozenset({"application/x-protobuf", "application/protobuf"})

MOST_CODINGS = 4
MOST_MEMBERS = 64
"""Of one gzip body: beyond them it is made to cost work."""

PIECE_BYTES = 64 * 1024

_PADDING = re.compile(rb"\0*+")
_STARTS_AS_JSON = re.compile(rb"\s*[\[{]")

Cut = Literal["broke off", "is longer than its bound", "cannot be unpacked"]
"""Why a body was not read whole, as the end of a sentence about the answer."""


class UnreadableAnswer(ValueError):
    """An answer that is JSON by its type or first character, and cannot be read whole: it may
    list items that were refused.
    """


def answer_bytes(items: int, sent_bytes: int) -> int:
    """How much is read of the answer to a request of *items* items in *sent_bytes* bytes: on the
    wire, and again once unpacked.
    """
    return BASE_BYTES + BYTES_PER_ITEM * items + sent_bytes


def read_body(
    raw: bytes, cut: Cut | None, *, coding: str, content_type: str, most_bytes: int
) -> tuple[bytes, Cut | None]:
    """*raw* unpacked, in UTF-8 if it was text, and why it was not read whole.

    *coding* and *content_type* are the headers `Content-Encoding` and `Content-Type`, empty when
    absent; *cut* is what kept *raw* from being read to its end.
    """
    names = [name for part in coding.split(",") if (name := part.strip().lower()) not in {"", "identity"}]
    for name in reversed(names) if raw else ():
        if name not in {"gzip", "x-gzip", "deflate"} or len(names) > MOST_CODINGS:
            return b"", cut or "cannot be unpacked"
        raw, unpacking = _unpacked(raw, most_bytes, is_deflate=name == "deflate")
        cut = cut or unpacking
    return raw if media_type(content_type) in PROTOBUF_TYPES else _as_utf8(raw, content_type), cut


def whole_json(text: bytes, cut: Cut | None, *, content_type: str, most_objects: int) -> object:
    """The JSON document of a success; None when it has no body, or text that is no JSON.

    Raises UnreadableAnswer when it may have been JSON and cannot be read whole.
    """
    is_json = _is_json_type(content_type) or _STARTS_AS_JSON.match(text) is not None
    if cut is not None and (is_json or cut != "is longer than its bound"):
        raise UnreadableAnswer(f"the answer {cut}")
    if not is_json or not text.strip():
        return None
    if text.count(b"{") + text.count(b"[") > most_objects:
        raise UnreadableAnswer("the answer has more objects than its bound")
    return lenient_json(text)


def lenient_json(text: bytes) -> object:
    """The JSON document in *text*. Raises UnreadableAnswer when it is none."""
    try:
        document: object = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if len(text) > LENIENT_BYTES:
            raise UnreadableAnswer("the answer is JSON that cannot be read") from error
        try:
            document = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            raise UnreadableAnswer("the answer is JSON that cannot be read") from error
    return document


def _unpacked(raw: bytes, most_bytes: int, *, is_deflate: bool) -> tuple[bytes, Cut | None]:
    """What *raw* holds, up to *most_bytes*. A gzip body may have several members; deflate comes
    with its zlib header or, from old servers, without.
    """
    window = 31
    if is_deflate:
        window = 15 if raw[0] & 0x0F == zlib.DEFLATED else -15
    text, rest = bytearray(), memoryview(raw)
    for _ in range(MOST_MEMBERS):
        unpacker = zlib.decompressobj(wbits=window)
        try:
            rest = rest[_unpack(unpacker, rest, text, most_bytes) :]
        except zlib.error:
            return bytes(text), "cannot be unpacked"
        if len(text) > most_bytes:
            return bytes(text[:most_bytes]), "is longer than its bound"
        if not unpacker.eof:
            return bytes(text), "broke off"
        rest = rest[_PADDING.match(rest).end() :]  # type: ignore[union-attr]  # it matches nothing, too
        if is_deflate or not rest.nbytes:
            return bytes(text), None
    return bytes(text), "cannot be unpacked"


def _unpack(unpacker: "zlib._Decompress", packed: memoryview, text: bytearray, most_bytes: int) -> int:
    """Add what the first member of *packed* holds to *text*, up to a byte more than *most_bytes*;
    the bytes that it took. In pieces, since the unpacker copies all that is behind the member.
    """
    taken = 0
    while taken < packed.nbytes and not unpacker.eof and len(text) <= most_bytes:
        piece = packed[taken : taken + PIECE_BYTES]
        text += unpacker.decompress(piece, most_bytes + 1 - len(text))
        taken += piece.nbytes - len(unpacker.unused_data) - len(unpacker.unconsumed_tail)
    return taken


def _as_utf8(raw: bytes, content_type: str) -> bytes:
    """*raw* in UTF-8: by its own byte order mark or zero bytes, else by the charset that is
    declared. Bytes that are in neither are replaced, since the JSON around them is ASCII.
    """
    raw = raw.removeprefix(codecs.BOM_UTF8)
    charset: str = json.detect_encoding(raw)
    if charset == "utf-8" and not _is_utf8(raw):
        charset = _charset(content_type) or "utf-8"
    return raw.decode(charset, "replace").encode()


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _charset(content_type: str) -> str | None:
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            try:
                known = codecs.lookup(value.strip().strip('"')).name
            except (LookupError, ValueError):
                return None
            return known if known in CHARSETS else None
    return None


def media_type(content_type: str) -> str:
    """Without parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def _is_json_type(content_type: str) -> bool:
    return media_type(content_type).endswith(("/json", "+json"))
