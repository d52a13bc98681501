"""A private RabbitMQ for tests, from the distribution's package: own ports on 127.0.0.1, own folder, own epmd."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

from tests.ports import free_port

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""The server itself: the one on the path changes to the user of the system's own broker."""
START_TIMEOUT_S = 120.0
HEARD_TIMEOUT_S = 60.0
"""How long a listener may take until it listens, or for one notification."""

MISSING = (
    None
    if SERVER.exists() and shutil.which("epmd")
    else "RabbitMQ is not installed: apt-get install --no-install-recommends rabbitmq-server"
)
"""Why there can be no broker here; None where there can."""


class Broker:
    """One broker, which can be stopped and started again with what it had."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, self._dist_port, self._epmd_port = (free_port() for _ in range(3))
        self._node = f"roost-{uuid.uuid4().hex[:8]}@localhost"
        self._epmd: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address for Roost."""
        return f"amqp://guest:guest@127.0.0.1:{self._port}/"

    @property
    def transport_url(self) -> str:
        """The address for oslo.messaging."""
        return f"rabbit://guest:guest@127.0.0.1:{self._port}/"

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1",
            "RABBITMQ_MNESIA_BASE": str(self._folder / "data"),
            "RABBITMQ_LOG_BASE": str(self._folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(self._folder / "none"),
            "RABBITMQ_CONF_ENV_FILE": str(self._folder / "none.env"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
            "RABBITMQ_PID_FILE": str(self._folder / "pid"),
        }
        if self._epmd is None:
            self._epmd = subprocess.Popen(["epmd", "-port", str(self._epmd_port), "-address", "127.0.0.1"])
        with (self._folder / "server.log").open("ab") as log:
            self._server = subprocess.Popen(
                [SERVER], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _answers(self._port):
            assert self._server.poll() is None, (self._folder / "server.log").read_text()
            assert time.monotonic() < deadline, (self._folder / "server.log").read_text()
            time.sleep(0.1)  # another process is at work; nothing here can move its clock

    def stop(self) -> None:
        """End it; what it was told to keep is there when it is started again."""
        if self._server is not None:
            self._server.terminate()
            self._server.wait(60)
            self._server = None

    def close(self) -> None:
        """End all that was started."""
        self.stop()
        if self._epmd is not None:
            self._epmd.terminate()
            self._epmd.wait(10)


@contextmanager
def broker() -> Iterator[Broker]:
    """A broker that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="roost-rabbitmq-", ignore_cleanup_errors=True) as folder:
        made = Broker(Path(folder))
        try:
            made.start()
            yield made
        finally:
            made.close()


@contextmanager
def listening(rabbit: Broker, exchange: str, topic: str) -> Iterator[Callable[[], Any]]:
    """A real listener; `heard()` is the next notification that it got, within HEARD_TIMEOUT_S."""
    words = [sys.executable, "-m", "tests.notification_listener", rabbit.transport_url, exchange, topic]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    lines: Queue[str] = Queue()
    assert process.stdout is not None
    reader = threading.Thread(target=lambda output: [lines.put(line) for line in output], args=(process.stdout,))
    reader.start()
    try:
        assert lines.get(timeout=HEARD_TIMEOUT_S) == "ready\n"
        yield lambda: json.loads(lines.get(timeout=HEARD_TIMEOUT_S))
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()


def _answers(port: int) -> bool:
    """Whether the broker speaks its protocol: its port is open a moment before."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            return connection.recv(1) == b"\x01"
    except OSError:
        return False
