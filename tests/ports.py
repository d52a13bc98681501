"""Ports that nobody listens on."""

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """Return a port below those that the system gives to clients: it is still free a minute later, among many tests."""
    while True:
        port = random.randrange(20_000, 30_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
