"""Leaves LiteLLM's price map out of a body before it is parsed: half of each payload, and most of
the time it takes to read one. Pure.

A payload ends `"hidden_params": {…}, "model_map_information": {…}, "error_str": …` in all
versions that send it. What lies from the second name to the third is left out, unless the
count of tokens stands there, which no price map has: then the names are someone's content, or
the price map was the last of its payload. What is left is JSON wherever a whole member was
cut; where it is not, the reader falls back to the body as it came
(`gateway.products.reading`). So no client hides its usage by using these names.
"""

from typing import Final

_MAP: Final = b'"model_map_information"'
_NEXT: Final = b'"error_str"'
_ELSEWHERE: Final = b'"prompt_tokens"'
"""Stands in each payload between all that a client writes, and in the next payload too."""
MAX_MAP_BYTES: Final = 64 * 1024


MAPS_KNOWN: Final = 4


def without_price_maps(body: bytes) -> bytes:
    """*body* without its price maps; *body* itself where it has none. Linear in its length."""
    found = body.find(_MAP)
    if found < 0:
        return body
    maps = _Maps(body)
    parts: list[bytes] = []
    begin = 0
    while found >= 0:
        end = maps.end(found)
        if end >= 0:
            parts.append(body[begin:found])
            begin = found = end
        found = body.find(_MAP, found + 1)
    parts.append(body[begin:])
    return b"".join(parts)


class _Maps:
    """Where the price maps of a body end; asked for from its begin on.

    Calls of one model have the same map: it is compared at once, and not looked through again. What
    is looked for is found once, and one that is not the same is not compared again.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._known: list[bytes] = []
        self._next = self._elsewhere = -1

    def end(self, begin: int) -> int:
        """Where `_NEXT` stands behind the map that begins there; -1 where no map does."""
        body = self._body
        for known in tuple(self._known):
            end = begin + len(known)
            if body.startswith(_NEXT, end):
                if body.startswith(known, begin):
                    return end
                self._known.remove(known)
        self._next = self._place(_NEXT, self._next, begin)
        end = self._next
        if not begin < end <= begin + MAX_MAP_BYTES - len(_NEXT):
            return -1
        self._elsewhere = self._place(_ELSEWHERE, self._elsewhere, begin)
        if self._elsewhere + len(_ELSEWHERE) <= end:
            return -1
        self._known = [body[begin:end], *self._known[: MAPS_KNOWN - 1]]
        return end

    def _place(self, name: bytes, last: int, begin: int) -> int:
        """The first *name* from *begin* on, far behind the body where there is none; *last*: the
        one found before.
        """
        if last >= begin:
            return last
        found = self._body.find(name, begin)
        return len(self._body) + MAX_MAP_BYTES if found < 0 else found
