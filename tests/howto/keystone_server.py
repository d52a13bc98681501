"""A real Keystone, from its package, on SQLite: `python keystone_server.py DIRECTORY PORT` makes it and serves.

Prints one line once it answers. One process, for its parts take seconds to import.
"""

import os
import sys
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

PASSWORD = "secret"
CONFIGURATION = """
[database]
connection = sqlite:///{directory}/keystone.sqlite
[fernet_tokens]
key_repository = {directory}/fernet
[fernet_receipts]
key_repository = {directory}/receipts
[credential]
key_repository = {directory}/credential
[identity]
password_hash_rounds = 4
"""


class Server(ThreadingMixIn, WSGIServer):
    """Requests wait for each other in Keystone itself, not here."""

    daemon_threads = True


class Quiet(WSGIRequestHandler):
    """No line for each request."""

    def log_request(self, *_: object) -> None:
        """See WSGIRequestHandler."""


def make_keystone(directory: Path, url: str) -> None:
    """An empty cloud: the domain Default, an admin in the project admin, the usual roles, Keystone's own endpoints."""
    from keystone.cmd import cli

    configuration = directory / "keystone.conf"
    configuration.write_text(CONFIGURATION.format(directory=directory))
    for folder in ("fernet", "receipts", "credential"):
        (directory / folder).mkdir(mode=0o700)
    owner = ["--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid())]
    endpoints = [f"--bootstrap-{interface}-url={url}/v3" for interface in ("public", "internal", "admin")]
    for words in (
        ["db_sync"],
        ["fernet_setup", *owner],
        ["credential_setup", *owner],
        ["bootstrap", f"--bootstrap-password={PASSWORD}", "--bootstrap-region-id=RegionOne", *endpoints],
    ):
        if os.fork() == 0:  # its configuration can be read once in a process
            os.dup2(2, 1)
            cli.main(argv=["keystone-manage", f"--config-file={configuration}", *words])
            os._exit(0)
        _, status = os.wait()
        assert status == 0, words
    os.environ["OS_KEYSTONE_CONFIG_FILES"] = str(configuration)


def main() -> None:
    """Make it and serve it."""
    directory, port = Path(sys.argv[1]), int(sys.argv[2])
    url = f"http://127.0.0.1:{port}"
    make_keystone(directory, url)
    from keystone.server.wsgi import initialize_public_application

    sys.argv = sys.argv[:1]  # Keystone would read these as its own
    server = make_server("127.0.0.1", port, initialize_public_application(), server_class=Server, handler_class=Quiet)
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
