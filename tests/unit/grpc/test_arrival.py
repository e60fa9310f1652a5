"""What messages that are on their way are charged with."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest

from gateway.grpc import arrival
from gateway.grpc.connections import Connections
from gateway.receiver.body import MIB, Budget, Hold, Limits


class OnOneConnection:
    """A connection of which a test says what it received, and the messages that it brings."""

    PEER = "ipv4:127.0.0.1:50000"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.received = 0
        monkeypatch.setattr(Connections, "received_bytes", lambda *_: self.received)
        self.budget = Budget(256 * MIB)
        self.arrivals = arrival.Arrivals(Connections())
        self.limits = Limits(max_body_bytes=64 * MIB)
        self.stack = ExitStack()

    def awaited(self) -> arrival.Awaited:
        hold = Hold(self.budget)
        hold.belongs_to("a sender")
        return self.stack.enter_context(self.arrivals.awaiting(self.PEER, hold, self.limits, 0))

    def receives(self, n_bytes: int) -> None:
        self.received += n_bytes
        self.arrivals.look()


@pytest.fixture
async def connection(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OnOneConnection]:
    made = OnOneConnection(monkeypatch)
    with made.stack:
        yield made


async def test_messages_of_one_connection_share_what_it_received(connection: OnOneConnection) -> None:
    """Ten messages of a batch size were charged with all of it each, and refused at 4 MiB."""
    messages = [connection.awaited() for _ in range(10)]
    for _ in range(20):
        connection.receives(MIB)
    assert not any(each.refused.done() for each in messages)
    assert connection.budget.used_bytes == pytest.approx(4 * 20 * MIB, abs=100)


async def test_what_a_whole_message_was_not_is_of_the_others(connection: OnOneConnection) -> None:
    large, small = connection.awaited(), connection.awaited()
    connection.receives(8 * MIB)
    before = large.held_bytes
    connection.arrivals.came(connection.PEER, 64 * 1024, small)
    assert large.held_bytes > 1.9 * before
    connection.arrivals.came(connection.PEER, 8 * MIB)
    held = large.held_bytes
    connection.receives(MIB)
    assert large.held_bytes == held, "what came at once on the connection was not of it"


async def test_the_youngest_message_of_a_connection_gives_way(connection: OnOneConnection) -> None:
    old, young = connection.awaited(), connection.awaited()
    connection.budget.limit_bytes = 12 * MIB
    for _ in range(12):
        connection.receives(MIB // 4)
    assert young.refused.done()
    assert not old.refused.done()


def test_a_file_that_another_kind_of_socket_got_meanwhile_is_no_connection() -> None:
    connections = Connections(lambda: 0.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
    peer = f"ipv4:127.0.0.1:{client.getsockname()[1]}"
    with client, accepted:
        client.sendall(b"seven b")
        accepted.recv(7)
        assert connections.received_bytes(peer) == 7
        one, other = socket.socketpair()
        with one, other:
            os.dup2(one.fileno(), accepted.fileno())
            assert connections.received_bytes(peer) is None
