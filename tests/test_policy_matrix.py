"""Who may do what by default: every policy rule, twelve callers, beside the defaults of Nova, Neutron and Placement.

Where the two differ stands in docs/reference/policies.md, each with its reason, and nothing else does.
"""

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from msgspec import Struct
from oslo_policy.policy import RuleDefault
from tests.callers import CALLERS
from tests.upstream_rules import FOLDER, read_rules

from roost.cli.serving.access import default_rules
from roost.platform.auth import Caller, Forbidden
from roost.platform.policy import OsloPolicy

REFERENCE = Path(__file__).parents[1] / "docs" / "reference" / "policies.md"
OWN = {"project_id": "mine", "tenant_id": "mine", "network:project_id": "mine", "network:tenant_id": "mine"}
TARGETS = {
    "own": OWN,
    "shared": OWN | {"network:project_id": "cloud", "network:tenant_id": "cloud", "shared": "True"},
    "external": OWN | {"network:project_id": "cloud", "network:tenant_id": "cloud", "router:external": "True"},
    "in use": OWN | {"device_owner": "compute:nova"},
    "on own": OWN | {"project_id": "theirs", "tenant_id": "theirs"},
    "of a network": OWN | {"device_owner": "network:dhcp"},
}
"""What something is done to; `cloud` has the networks that are shared and external."""
pytestmark = pytest.mark.skipif(
    not os.environ.get("CI") and not (FOLDER / "neutron").exists(),
    reason="Nova's and Neutron's policies are not there: make test fetches them",
)


class Difference(Struct, frozen=True):
    """A row of the reference: rules (a pattern), callers and targets (names, or all), and who alone lets them in."""

    service: str
    rules: str
    callers: frozenset[str]
    targets: frozenset[str]
    lets_in: str

    def covers(self, service: str, rule: str, caller: str, target: str, lets_in: str) -> bool:
        return (
            (service, lets_in) == (self.service, self.lets_in)
            and any(fnmatchcase(rule, pattern) for pattern in self.rules.split(", "))
            and (caller in self.callers)
            and (target in self.targets)
        )


def read_differences() -> list[Difference]:
    """Return the rows of the reference's table: service, rules, callers, targets, who lets them in, why."""
    rows = [line.strip("| ").split(" | ") for line in REFERENCE.read_text().splitlines() if line.startswith("| `")]
    return [
        Difference(
            service.strip("`"),
            rules.replace("`", ""),
            frozenset(CALLERS if callers == "all" else callers.split(", ")),
            frozenset(TARGETS if targets == "all" else targets.split(", ")),
            lets_in,
        )
        for service, rules, callers, targets, lets_in, _why in rows
    ]


def lets_in(policy: OsloPolicy, rule: str, caller: Caller, target: dict[str, str]) -> bool:
    try:
        policy.enforce(caller, rule, target)
    except Forbidden:
        return False
    return True


def differences() -> Iterator[tuple[str, str, str, str, str]]:
    """Yield service, rule, caller, target and who alone lets the caller in, of all rules that both have."""
    for service, rules in read_rules().items():
        theirs = OsloPolicy([RuleDefault(rule.name, rule.check, scope_types=rule.scope_types) for rule in rules])
        ours = default_rules(service)
        ourselves = OsloPolicy(ours)
        operations = {rule.name for rule in ours if rule.scope_types} & {rule.name for rule in rules}
        assert len(operations) > 30
        for rule in sorted(operations):
            for caller_name, caller in CALLERS.items():
                for target_name, target in TARGETS.items():
                    here, there = (lets_in(policy, rule, caller, target) for policy in (ourselves, theirs))
                    if here != there:
                        yield service, rule, caller_name, target_name, "Roost" if here else "upstream"


def test_differences_from_the_packages_own_defaults_are_those_of_the_reference() -> None:
    rows = read_differences()
    used, unsaid = set(), []
    for found in differences():
        covering = [row for row in rows if row.covers(*found)]
        used.update(covering)
        if not covering:
            unsaid.append(" | ".join(found))
    assert unsaid == [], "\n".join(unsaid)
    assert [row for row in rows if row not in used] == []


def test_rules_that_upstream_has_not_are_named_in_the_reference() -> None:
    text = REFERENCE.read_text()
    for service, rules in read_rules().items():
        own = {rule.name for rule in default_rules(service)} - {rule.name for rule in rules}
        assert {name for name in own if not re.search(rf"`{re.escape(name)}`", text)} == set()
