"""Runs osc-placement's own functional tests, as its package has them, against a server: URL on the command line.

They come with a fixture that serves upstream Placement in their process; in its place stands one that names the URL.
Each begins on an empty ledger, as with that fixture: what a test leaves is taken away. Standard output: a JSON object,
test -> the last line of why it failed, "" where it passed.
"""

import json
import sys
import types
import unittest
from collections.abc import Iterator

import fixtures
import requests

URL = sys.argv[1]
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
FILES = (
    "aggregate", "allocation", "allocation_candidate", "inventory", "plugin", "resource_class", "resource_provider",
    "trait", "usage",
)  # fmt: skip


class Served(fixtures.Fixture):
    """Stands for placement.tests.functional.fixtures.placement.PlacementFixture."""

    endpoint = URL
    token = "admin"

    def _setUp(self) -> None:
        self.addCleanup(empty)


class Quiet(fixtures.Fixture):
    """Stands for placement.tests.functional.fixtures.capture.Logging."""


def empty() -> None:
    """Delete every consumer, provider, custom class and custom trait."""
    session = requests.Session()
    session.headers.update(HEADERS)

    def read(path: str, key: str) -> list:
        found = session.get(f"{URL}{path}").json()[key]
        return list(found)

    providers = session.get(f"{URL}/resource_providers").json()["resource_providers"]
    for provider in providers:
        for consumer in read(f"/resource_providers/{provider['uuid']}/allocations", "allocations"):
            session.delete(f"{URL}/allocations/{consumer}")
    while providers:  # children before their parents
        left = [
            one for one in providers if session.delete(f"{URL}/resource_providers/{one['uuid']}").status_code == 409
        ]
        assert len(left) < len(providers), left
        providers = left
    for resource_class in session.get(f"{URL}/resource_classes").json()["resource_classes"]:
        if resource_class["name"].startswith("CUSTOM_"):
            session.delete(f"{URL}/resource_classes/{resource_class['name']}")
    for trait in read("/traits?name=startswith:CUSTOM_", "traits"):
        session.delete(f"{URL}/traits/{trait}")


def cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Every test of a suite of suites."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from cases(item)
        else:
            yield item


def main() -> None:
    """Run them one after another."""
    package = "placement.tests.functional.fixtures"
    for name, member, kind in (("placement", "PlacementFixture", Served), ("capture", "Logging", Quiet)):
        module = types.ModuleType(f"{package}.{name}")
        setattr(module, member, kind)
        sys.modules[module.__name__] = module
    loader = unittest.TestLoader()
    modules = [f"osc_placement.tests.functional.test_{name}" for name in FILES]
    outcome = {}
    for case in cases(loader.loadTestsFromNames(modules)):
        result = unittest.TestResult()
        case.run(result)
        said = "\n".join(text for _, text in (*result.failures, *result.errors)).strip().splitlines()
        outcome[case.id()] = said[-1] if said else ""
    json.dump(outcome, sys.stdout)


main()
