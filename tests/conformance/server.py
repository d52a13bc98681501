"""A fresh server for each gabbi file: started, waited for, stopped, and nothing of it left behind."""

import contextlib
import http.client
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from tests import launching
from tests.memory import roomy_memory

STOP_TIMEOUT_S = 10.0
ASK_AGAIN_S = 0.02
LOG_TAIL_CHARACTERS = 2000
PROGRAM = str(Path(sys.executable).with_name("roost"))
"""Roost, which is started as a fork of a process that has imported it (tests/launching.py)."""


class ServerError(Exception):
    """The server could not be started or reached."""


class FreshServer:
    """A server that is started for one file and stopped after it: a context manager that gives the server's URL."""

    def __init__(self, command: str, policy: str, ports: range, *, timeout_s: float, keep: bool) -> None:
        self._command = command
        self._policy = policy
        self._ports = ports
        self._timeout_s = timeout_s
        self._keep = keep
        self._process: launching.Process | subprocess.Popen[bytes] | None = None

    def __enter__(self) -> str:
        self.workdir = Path(tempfile.mkdtemp(prefix="roost-conformance-", dir=roomy_memory()))
        self.workdir.chmod(0o711)  # a server may run its database as another user
        try:
            return self._start()
        except BaseException:
            self._stop()
            raise

    def __exit__(self, *_error: object) -> None:
        self._stop()

    def _start(self) -> str:
        port = _first_free(self._ports)
        argv = expand(self._command, port=port, workdir=self.workdir, policy=self._policy)
        with (self.workdir / "server.log").open("w") as log:
            try:
                # In a process group of its own, so that what it starts in its turn can be stopped with it.
                self._process = (
                    launching.start(*argv[1:], stdout=log, stderr=log)
                    if argv[0] == PROGRAM
                    else subprocess.Popen(
                        argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
                    )
                )
            except OSError as error:
                raise ServerError(f"{argv[0]}: {error.strerror}") from error
        url = f"http://127.0.0.1:{port}"
        wait_until_answers(url, timeout_s=self._timeout_s, check=self._check_alive)
        return url

    def _check_alive(self) -> None:
        if self._has_ended():
            log = (self.workdir / "server.log").read_text(errors="replace")
            raise ServerError(f"the server has ended by itself: {log[-LOG_TAIL_CHARACTERS:].strip()}")

    def _has_ended(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None

    def _stop(self) -> None:
        with _signals_held():
            if self._process:
                os.kill(self._process.pid, signal.SIGTERM)
                deadline = time.monotonic() + STOP_TIMEOUT_S
                while not self._has_ended() and time.monotonic() < deadline:
                    time.sleep(ASK_AGAIN_S)
                # What it started and did not stop, or the server itself. No other group gets this one's number while
                # any of it is left.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            if not self._keep:
                shutil.rmtree(self.workdir, ignore_errors=True)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Put off being interrupted until a server is stopped and cleared away."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def expand(command: str, **values: object) -> list[str]:
    """Split a command line like a shell, and fill in its {placeholders}."""
    argv = shlex.split(command)
    for name, value in values.items():
        argv = [word.replace(f"{{{name}}}", str(value)) for word in argv]
    return argv


def wait_until_answers(url: str, *, timeout_s: float, check: Callable[[], None]) -> None:
    """Return when `GET /` is answered with success; call check meanwhile. Raises ServerError, and what check does."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + timeout_s
    while True:
        check()
        try:
            with opener.open(f"{url}/", timeout=5):
                return
        except (OSError, http.client.HTTPException) as error:
            reason = error
        if time.monotonic() > deadline:
            raise ServerError(f"no answer to GET {url}/ within {timeout_s:.0f} seconds: {reason}")
        time.sleep(ASK_AGAIN_S)


def _first_free(ports: range) -> int:
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServerError(f"no free port among {ports}")
