"""Upstream's Placement as a process of its own, on SQLite: what an import reads from."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.ports import free_port

START_TIMEOUT_S = 60.0
CONFIGURATION = """
[api]
auth_strategy = noauth2
[placement_database]
connection = sqlite:///{directory}/placement.sqlite
sync_on_startup = true
[oslo_policy]
enforce_new_defaults = false
"""
SERVER = """
import sys
from wsgiref.simple_server import WSGIRequestHandler, make_server
from placement.wsgi.api import application
class Quiet(WSGIRequestHandler):
    def log_request(self, *_): pass
make_server("127.0.0.1", int(sys.argv[1]), application, handler_class=Quiet).serve_forever()
"""


class Upstream:
    """An upstream Placement at `url`, and a client of it that is an admin."""

    def __init__(self, url: str) -> None:
        self.url = url

    def call(self, method: str, path: str, body: Any = None, *, version: str = "1.39") -> Any:
        """One request; the decoded answer, None for an empty one. Raises urllib's HTTPError above 399."""
        headers = {
            "X-Auth-Token": "admin",
            "OpenStack-API-Version": f"placement {version}",
            "Content-Type": "application/json",
        }
        data = None if body is None else msgspec.json.encode(body)
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as response:
            text = response.read()
        return msgspec.json.decode(text) if text else None

    def make_provider(self, uuid: str, name: str, parent: str | None = None, **inventories: dict[str, Any]) -> None:
        """A provider with inventories."""
        extra = {} if parent is None else {"parent_provider_uuid": parent}
        self.call("POST", "/resource_providers", {"uuid": uuid, "name": name, **extra})
        if inventories:
            self.set_inventories(uuid, inventories)

    def set_inventories(self, uuid: str, inventories: dict[str, dict[str, Any]]) -> None:
        """All of a provider's."""
        self._put(uuid, "inventories", inventories)

    def set_traits(self, uuid: str, *traits: str) -> None:
        """All of a provider's."""
        self._put(uuid, "traits", traits)

    def set_aggregates(self, uuid: str, *aggregates: str) -> None:
        """All of a provider's."""
        self._put(uuid, "aggregates", aggregates)

    def claim(self, consumer: str, allocations: dict[str, dict[str, int]], *, version: str = "1.39") -> None:
        """What a consumer is to hold; before 1.38 it has no type."""
        held = self.call("GET", f"/allocations/{consumer}")
        typed = {"consumer_type": "INSTANCE"} if version == "1.39" else {}
        body = {
            "allocations": {uuid: {"resources": resources} for uuid, resources in allocations.items()},
            "project_id": "p", "user_id": "u", "consumer_generation": held.get("consumer_generation"), **typed,
        }  # fmt: skip
        self.call("PUT", f"/allocations/{consumer}", body, version=version)

    def _put(self, uuid: str, what: str, value: Any) -> None:
        generation = self.call("GET", f"/resource_providers/{uuid}")["generation"]
        body = {"resource_provider_generation": generation, what: value}
        self.call("PUT", f"/resource_providers/{uuid}/{what}", body)


@contextmanager
def upstream_running(directory: Path, configuration: str = CONFIGURATION) -> Iterator[Upstream]:
    """An upstream Placement on an empty database in `directory`, for as long as the block runs."""
    (directory / "placement.conf").write_text(configuration.format(directory=directory))
    port = free_port()
    with (directory / "placement.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(port)], stdout=log, stderr=log,
            env={**os.environ, "OS_PLACEMENT_CONFIG_DIR": str(directory)},
        )  # fmt: skip
    try:
        upstream = Upstream(f"http://127.0.0.1:{port}")
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                upstream.call("GET", "/")
                break
            except OSError:
                log_text = (directory / "placement.log").read_text()
                assert process.poll() is None, log_text
                assert time.monotonic() < deadline_s, log_text
                time.sleep(0.1)
        yield upstream
    finally:
        process.kill()
        process.wait()
