"""The body of an answer: how much of it is read, its content encoding and charset undone, and
whether it was read whole. Pure.

An answer may name every item of the request with a reason and repeat what it refused, so its
bound follows from the request (`answer_bytes`). The body that comes out is UTF-8 without a byte
order mark, but for protobuf. What was cut, or cannot be unpacked, comes out as far as it could be
read, with the `Cut`; of a success `whole_json` then decides whether it may be believed.
`exporters.accounting` reads what the document says.
"""

import codecs
import json
import re
import zlib
from collections.abc import Callable
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

MAX_CODINGS = 4
MAX_MEMBERS = 64
"""Of one gzip body: beyond them it is made to cost work."""

PIECE_BYTES = 64 * 1024

_PADDING = re.compile(rb"\0*+")
_STARTS_AS_JSON = re.compile(rb"\s*[\[{]")
_STARTS_AS_MARKUP = re.compile(rb"\s*<")

Cut = Literal["broke off", "is longer than its bound", "cannot be unpacked"]
"""Why a body was not read whole, as the end of a sentence about the answer."""


class UnreadableAnswer(ValueError):
    """An answer that is JSON by its type or first character, and cannot be read whole: it may
    list items that were refused.
    """


class AnswerNotUnderstood(ValueError):
    """An answer that was read whole and leaves open what became of the items; the text says why."""


def answer_bytes(items: int, sent_bytes: int) -> int:
    """How much is read of the answer to a request of *items* items in *sent_bytes* bytes: on the
    wire, and again once unpacked.
    """
    return BASE_BYTES + BYTES_PER_ITEM * items + sent_bytes


def read_body(
    raw: bytes, cut: Cut | None, *, coding: str, content_type: str, max_bytes: int
) -> tuple[bytes, Cut | None]:
    """*raw* unpacked, in UTF-8 if it was text, and why it was not read whole.

    *coding* and *content_type* are the headers `Content-Encoding` and `Content-Type`, empty when
    absent; *cut* is what kept *raw* from being read to its end.
    """
    names = [name for part in coding.split(",") if (name := part.strip().lower()) not in {"", "identity"}]
    for name in reversed(names) if raw else ():
        if name not in {"gzip", "x-gzip", "deflate"} or len(names) > MAX_CODINGS:
            return b"", cut or "cannot be unpacked"
        raw, unpacking = _unpacked(raw, max_bytes, is_deflate=name == "deflate")
        cut = cut or unpacking
    return raw if media_type(content_type) in PROTOBUF_TYPES else _as_utf8(raw, content_type), cut


def whole_json(text: bytes, cut: Cut | None, *, content_type: str, most_objects: int) -> object:
    """The JSON document of a success; an empty object when it has no body.

    Raises UnreadableAnswer when it may have been JSON and cannot be read whole, AnswerNotUnderstood
    when it is text, or names a member twice.
    """
    is_json = _may_be_json(text, content_type)
    if cut is not None and (is_json or cut != "is longer than its bound"):
        raise UnreadableAnswer(f"the answer {cut}")
    if not text.strip():
        return {}
    if not is_json:
        raise AnswerNotUnderstood(_what_text(text))
    if text.count(b"{") + text.count(b"[") > most_objects:
        raise UnreadableAnswer("the answer has more objects than its bound")
    return _read_json(text, _each_once)


def lenient_json(text: bytes) -> object:
    """The JSON document in *text*. Raises UnreadableAnswer when it is none."""
    try:
        document: object = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if len(text) > LENIENT_BYTES:
            raise UnreadableAnswer("the answer is JSON that cannot be read") from error
        return _read_json(text)
    return document


def _read_json(text: bytes, pairs_hook: Callable[[list[tuple[str, object]]], object] | None = None) -> object:
    """By the standard library, which reads NaN, half an emoji and raw control characters. Of a
    document of long texts it is as fast as orjson, of one of small objects half as fast.
    """
    try:
        return json.loads(text, strict=False, object_pairs_hook=pairs_hook)
    except AnswerNotUnderstood:
        raise
    except (ValueError, RecursionError) as error:
        raise UnreadableAnswer("the answer is JSON that cannot be read") from error


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Raises AnswerNotUnderstood for a name that comes twice: no one knows which is meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise AnswerNotUnderstood("it names a member twice")
    return found


def _may_be_json(text: bytes, content_type: str) -> bool:
    if _STARTS_AS_JSON.match(text):
        return True
    return _is_json_type(content_type) and not _STARTS_AS_MARKUP.match(text)


def _what_text(text: bytes) -> str:
    if _STARTS_AS_MARKUP.match(text):
        return "it is a web page: a login or a proxy answers in the upstream's place"
    return "it is text, and no JSON"


def _unpacked(raw: bytes, max_bytes: int, *, is_deflate: bool) -> tuple[bytes, Cut | None]:
    """What *raw* holds, up to *max_bytes*. A gzip body may have several members; deflate comes
    with its zlib header or, from old servers, without.
    """
    window = 31
    if is_deflate:
        window = 15 if raw[0] & 0x0F == zlib.DEFLATED else -15
    text, rest = bytearray(), memoryview(raw)
    for _ in range(MAX_MEMBERS):
        unpacker = zlib.decompressobj(wbits=window)
        try:
            rest = rest[_unpack(unpacker, rest, text, max_bytes) :]
        except zlib.error:
            return bytes(text), "cannot be unpacked"
        if len(text) > max_bytes:
            return bytes(text[:max_bytes]), "is longer than its bound"
        if not unpacker.eof:
            return bytes(text), "broke off"
        rest = rest[_PADDING.match(rest).end() :]  # type: ignore[union-attr]  # it matches nothing, too
        if is_deflate or not rest.nbytes:
            return bytes(text), None
    return bytes(text), "cannot be unpacked"


def _unpack(unpacker: "zlib._Decompress", packed: memoryview, text: bytearray, max_bytes: int) -> int:
    """Add what the first member of *packed* holds to *text*, up to a byte more than *max_bytes*;
    the bytes that it took. In pieces, since the unpacker copies all that is behind the member.
    """
    taken = 0
    while taken < packed.nbytes and not unpacker.eof and len(text) <= max_bytes:
        piece = packed[taken : taken + PIECE_BYTES]
        text += unpacker.decompress(piece, max_bytes + 1 - len(text))
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
