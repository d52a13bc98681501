"""The gabbi files of the reference implementation, as its distribution has them, and how one of them is run."""

import importlib.metadata
import os
import re
import socket
import unittest
import urllib.parse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gabbi import exception, handlers, suitemaker, utils
from tests.conformance.fixtures import FIXTURES
from tests.conformance.states import Placement, State, StateError

DISTRIBUTION = "openstack-placement"


class NoGabbits(Exception):
    """There are no gabbi files to run."""


def find_gabbits() -> Path:
    """The folder of gabbi files in the installed distribution. Raises NoGabbits."""
    try:
        distribution = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError as error:
        raise NoGabbits(f"{DISTRIBUTION}, which has the tests, is not installed: make conformance does it") from error
    return Path(str(distribution.locate_file("placement/tests/functional/gabbits")))


class GabbiFile:
    """One gabbi file: an ordered list of requests that share a fixture.

    policy: the mode that the server must be in, None if the fixture is none of FIXTURES.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self._content = utils.load_yaml(yaml_file=str(path))
        self.tests = [str(test["name"]) for test in self._content["tests"]]
        self.fixture = " and ".join(self._content["fixtures"])  # no file of the reference needs more than one
        self.policy: str | None
        self._build: Callable[[State], None] | None
        self.policy, self._build = FIXTURES.get(self.fixture, (None, None))

    def run(self, url: str, *, seed: str, timeout_s: float) -> "Outcome":
        """Set up the fixture on an empty server and run all the tests there.

        The environment of this process carries the fixture's variables meanwhile: a process runs one file at a time.
        """
        assert self._build is not None
        outcome = Outcome()
        state = State(Placement(url, timeout_s), f"{seed} {self.name}")
        try:
            self._build(state)
        except StateError as error:
            outcome.fail_all(self.tests, f"the fixture could not be set up: {error}")
            return outcome
        os.environ.update(state.environ)
        os.environ.update({"NO_PROXY": "*", "no_proxy": "*"})  # the server is never behind a proxy
        try:
            self._make_suite(url, timeout_s, outcome).run(outcome)
        except exception.GabbiFormatError as error:
            outcome.fail_all(self.tests, f"gabbi cannot read the file: {error}")
        finally:
            for variable in state.environ:
                del os.environ[variable]
        # Nothing may go missing unnoticed.
        outcome.fail_all(["(unknown)"] * (len(self.tests) - outcome.total()), "a test was not run")
        return outcome

    def _make_suite(self, url: str, timeout_s: float, outcome: "Outcome") -> unittest.TestSuite:
        host, port, prefix, _ssl = utils.host_info_from_target(url)
        # Loading certificates for each test would take most of the time.
        defaults = {**self._content.get("defaults", {}), "timeout": timeout_s, "cert_validate": False}
        suite: unittest.TestSuite = suitemaker.test_suite_from_dict(
            unittest.TestLoader(),
            self.path.stem,
            {**self._content, "defaults": defaults},
            str(self.path.parent),
            host,
            port,
            None,
            None,
            prefix=prefix,
            handlers=[handler() for handler in handlers.RESPONSE_HANDLERS],
        )
        for test in suite:
            if _has_malformed_length(test):
                test.http = RawHttp()
                test.test_data["response_strings"] = []
                outcome.adapted.append(_name(test))
        return suite


class Outcome(unittest.TestResult):
    """Which tests passed, failed or were skipped, and why; adapted: those that do not run quite as written."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[str] = []
        self.failed: list[tuple[str, str]] = []
        self.left_out: list[tuple[str, str]] = []
        self.adapted: list[str] = []

    def total(self) -> int:
        """How many tests have come to an end."""
        return len(self.passed) + len(self.failed) + len(self.left_out)

    def fail_all(self, names: Iterable[str], message: str) -> None:
        """Let every one of them have failed for one reason."""
        self.failed.extend((name, message) for name in names)

    # What unittest calls.

    def addSuccess(self, test: Any) -> None:
        if not test.test_data["xfail"]:  # else it is reported here too, whatever came of it
            self.passed.append(_name(test))

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.passed.append(_name(test))

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.failed.append((_name(test), "passed, though marked as expected to fail"))

    def addFailure(self, test: Any, err: Any) -> None:
        self.failed.append((_name(test), str(err[1])))

    def addError(self, test: Any, err: Any) -> None:
        self.failed.append((_name(test), f"{err[0].__name__}: {err[1]}"))

    def addSkip(self, test: Any, reason: str) -> None:
        self.left_out.append((_name(test), reason))

    def stopTest(self, test: Any) -> None:
        super().stopTest(test)
        # Without this every test would leave a connection open, and a server with one thread for each would be starved.
        test.http.client.close()


def _name(test: Any) -> str:
    return str(test.test_data["name"])


def _has_malformed_length(test: Any) -> bool:
    length = test.test_data["request_headers"].get("content-length", "0")
    return not str(length).isdigit()


class RawHttp:
    """Sends a request that no HTTP client library agrees to send.

    It stands in for `gabbi.httpclient.Http` where a test has a Content-Length that is not a number. A server's HTTP
    layer may refuse such a message before the application sees it, so only the status is read.
    """

    def __init__(self) -> None:
        self.client = self

    def close(self) -> None:
        """Nothing is kept open."""

    def request(
        self, absolute_uri: str, method: str, body: bytes, headers: dict[str, str], redirect: bool, timeout: float
    ) -> tuple[dict[str, str], bytes]:
        """The response's headers, of which only the status is true, and no body."""
        parsed = urllib.parse.urlsplit(absolute_uri)
        head = [f"{method} {parsed.path or '/'} HTTP/1.1", f"Host: {parsed.netloc}", "Connection: close"]
        head += [f"{name}: {value}" for name, value in headers.items()]
        message = "\r\n".join([*head, "", ""]).encode() + body
        with socket.create_connection((parsed.hostname or "", parsed.port or 80), timeout) as connection:
            connection.sendall(message)
            status_line = connection.makefile("rb").readline().decode("latin1")
        match = re.match(r"HTTP/1\.[01] (\d{3})", status_line)
        if not match:
            raise AssertionError(f"not an HTTP status line: {status_line!r}")
        return {"status": match[1], "content-type": ""}, b""
