"""Calls for which no key is asked, with messages of a few bytes: health and reflection."""

from abc import ABC, abstractmethod
from typing import Final

from google.protobuf.message import DecodeError

from gateway.common.contract.errors import BadPayload
from gateway.serve.grpc.call import GrpcCall
from gateway.serve.grpc.wire import MessageReader, TooLong

MAX_MESSAGE_BYTES: Final = 4096
INVALID_ARGUMENT, RESOURCE_EXHAUSTED = 3, 8


class SmallMessages(ABC):
    """`gateway.serve.grpc.call.Handler`, a message at a time."""

    def __init__(self, call: GrpcCall) -> None:
        self.call = call
        self._reader = MessageReader()

    @abstractmethod
    def message(self, body: bytes) -> None:
        """Serve one message. Raises DecodeError for one that is not of its type."""

    def received(self, data: bytes) -> None:
        try:
            for message in self._reader.feed(data, MAX_MESSAGE_BYTES):
                if message.is_compressed:
                    raise BadPayload("send messages of this service uncompressed")
                if self.call.trailers is None:
                    self.message(message.body)
        except TooLong:
            self._refuse(RESOURCE_EXHAUSTED, f"the message has more than {MAX_MESSAGE_BYTES} bytes")
        except DecodeError:
            self._refuse(INVALID_ARGUMENT, "the message is not of the method's type")
        except BadPayload as error:
            self._refuse(INVALID_ARGUMENT, str(error))

    def ended(self) -> None:
        """Without a message there is nothing to answer."""
        if self.call.trailers is None:
            self._refuse(INVALID_ARGUMENT, "the call holds no message")

    def gone(self) -> None:  # noqa: B027 - most hold nothing
        """Give up what is held for the call."""

    def _refuse(self, code: int, text: str) -> None:
        self.gone()
        self.call.end(code, text)
