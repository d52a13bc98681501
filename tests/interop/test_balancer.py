"""The load balancer of the swap: who waits behind it does not learn that a server went."""

import http.client
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from tests.interop.balancer import Balancer
from tests.ports import free_port

ANSWER_S = 30


def test_a_request_that_is_held_back_outlives_the_server_of_its_connection() -> None:
    with _listening() as first, _listening() as second, _balanced(first) as (balancer, client):
        client.request("GET", "/")
        with first.accept()[0] as connection:
            _answer(connection, b"one")
            assert client.getresponse().read() == b"one"
            balancer.hold()
            client.request("GET", "/")
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(ANSWER_S)
            assert connection.recv(1) == b""
        balancer.send_to(second.getsockname()[1])
        with second.accept()[0] as connection:
            _answer(connection, b"two")
            assert client.getresponse().read() == b"two"


def test_a_client_learns_that_its_request_will_not_be_answered() -> None:
    with _listening() as server, _balanced(server) as (_, client):
        client.request("GET", "/")
        with server.accept()[0] as connection:
            connection.recv(1 << 16)
        with pytest.raises(http.client.RemoteDisconnected):
            client.getresponse()


@contextmanager
def _listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(ANSWER_S)
        yield server


@contextmanager
def _balanced(server: socket.socket) -> Iterator[tuple[Balancer, http.client.HTTPConnection]]:
    """Give a balancer before the server, and a client of it."""
    port = free_port()
    with (
        closing(Balancer(port, server.getsockname()[1])) as balancer,
        closing(http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)) as client,
    ):
        yield balancer, client


def _answer(connection: socket.socket, word: bytes) -> None:
    connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(word), word))
