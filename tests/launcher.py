"""`python -m tests.launcher`: the process that the `roost` processes of tests are forks of (tests/launching.py).

It has imported all of Roost once: a `roost` that begins as its fork costs a tenth of one that begins with Python.
"""

import importlib
import os
import pkgutil
import socket
import sys

import msgspec

from roost import cli
from roost.cli import entry
from roost.cli.serving.fork_server import fork_on_request

REQUEST_BYTES_MAX = 1 << 17


class Launch(msgspec.Struct, frozen=True):
    """What a fork becomes. program: the name of its function in `roost.cli.entry`."""

    program: str
    arguments: list[str]
    directory: str
    environment: dict[str, str]


def main() -> None:
    """Fork on request, and become in each fork the program that is asked for, as if it had just been started."""
    for module in pkgutil.walk_packages(cli.__path__, "roost.cli."):
        importlib.import_module(module.name)
    fork_on_request()
    with socket.socket(fileno=os.dup(0)) as channel:
        text, descriptors, _, _ = socket.recv_fds(channel, REQUEST_BYTES_MAX, 3)
    launch = msgspec.json.decode(text, type=Launch)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(launch.directory)
    os.environ.clear()
    os.environ.update(launch.environment)
    sys.argv = [launch.program, *launch.arguments]
    getattr(entry, launch.program)()


if __name__ == "__main__":
    main()
