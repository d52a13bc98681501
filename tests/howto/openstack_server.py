"""`openstack` as often as one likes: its parts are imported once, and each command is a fork. `python … SOCKET` serves.

The client is a few lines of Python without site packages (CLIENT): arguments, directory and environment go over a Unix
socket, with the streams themselves; the exit status comes back.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path

POLL_S = 0.2
"""How long a client sleeps at most, which would ask again after 2 or 5 seconds only."""
CLIENT = """#!{python} -SE
import array, json, os, socket, sys
asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    server.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    server.sendall(asked)
    server.shutdown(socket.SHUT_WR)
    sys.exit(int(server.recv(8) or 1))
"""


def write_client(file: Path, path: str) -> None:
    """Make the `openstack` that asks the server at a socket."""
    file.write_text(CLIENT.format(python=sys.executable, path=path))
    file.chmod(0o755)


def main() -> None:
    """Serve until killed."""
    import openstack.connection  # noqa: F401 - what every command needs
    import osc_placement.plugin  # noqa: F401
    from openstackclient import shell

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen(16)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                if os.fork() == 0:  # nobody waits for the command but the client
                    _run(connection, shell)
                os._exit(0)
            os.wait()
            connection.close()


def _run(connection: socket.socket, shell: object) -> None:
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    text = b""
    while part := connection.recv(65536):
        text += part
    arguments, directory, environment = json.loads(text)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sleep = time.sleep
    time.sleep = lambda seconds: sleep(min(seconds, POLL_S))
    try:
        status = shell.main(arguments)  # type: ignore[attr-defined]
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    sys.stdout.flush()
    sys.stderr.flush()
    connection.sendall(str(int(status or 0)).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
