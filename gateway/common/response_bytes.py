"""Answers as bytes, as aiohttp writes them to a POST of HTTP/1.1. Pure but for the date."""

from abc import abstractmethod
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.http import SERVER_SOFTWARE

NO_BODY: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class ReadyBytes(web.StreamResponse):
    """An answer that is its own bytes."""

    @abstractmethod
    def bytes_now(self) -> bytes:
        """The whole answer."""


def bytes_of(response: web.StreamResponse) -> bytes:
    """Head and body of *response*, whose body is bytes. Raises ValueError for a header that has
    more than one line.
    """
    if isinstance(response, ReadyBytes):
        return response.bytes_now()
    body = response.body if isinstance(response, web.Response) else None
    if not isinstance(body, bytes | bytearray | None):
        raise TypeError("the body of the answer is a stream")
    headers, has_body = response.headers, response.status not in NO_BODY
    if has_body:
        headers["Content-Length"] = str(len(body or b""))
    if body and has_body:
        headers.setdefault("Content-Type", "application/octet-stream")
    if "Date" not in headers:
        headers["Date"] = formatdate(usegmt=True)
    headers.setdefault("Server", SERVER_SOFTWARE)
    if response.keep_alive is False:
        headers.setdefault("Connection", "close")
    lines = [f"HTTP/1.1 {response.status} {response.reason}", *(f"{name}: {value}" for name, value in headers.items())]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header of the answer has more than one line")
    head = "\r\n".join([*lines, "", ""]).encode()
    return head + body if body and has_body else head
