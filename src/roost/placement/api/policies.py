"""What the policy rules of the Placement API's operations refer to; each stands with its operation.

Names and defaults are upstream's, so that operators' policy files mean here what they mean there; even the name of
the deprecated rule, which begins with `rule:` and can therefore never be overridden.
Source: openstack-placement 16.0.0, placement/policies.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from roost.platform.operations import Rule

if TYPE_CHECKING:
    from oslo_policy.policy import RuleDefault

SCOPES = ["project"]
"""Callers scoped to the whole system or to a domain are let in by no rule."""

ADMIN_OR_SERVICE = "rule:admin_or_service_api"

SHARED = {
    "service_api": "role:service",
    "admin_or_service_api": "role:admin or role:service",
    "admin_or_project_reader_or_service_api": "role:admin or rule:project_reader_api or role:service",
}
"""Checks that the operations' rules refer to; each had another default once."""


def admin_or_service(noun: str) -> Callable[[str], Rule]:
    """Return what makes the rule of each action on the noun: one for administrators and services."""
    return lambda action: Rule(f"placement:{noun}:{action}", ADMIN_OR_SERVICE)


def make_rules(defaults: Mapping[str, str]) -> list["RuleDefault"]:
    """Return the rules with these defaults and those that they refer to, as oslo.policy takes them."""
    from oslo_policy.policy import DeprecatedRule, RuleDefault  # 0.2 s, for which who asks nobody need not wait

    was = DeprecatedRule(
        "rule:admin_api",
        "role:admin",
        deprecated_reason="Placement's rules now tell services, admins and readers of a project apart.",
        deprecated_since="5.0.0",
    )
    reader = "role:reader and project_id:%(project_id)s"
    return [
        RuleDefault("admin_api", "role:admin", scope_types=SCOPES),
        RuleDefault("project_reader_api", reader, deprecated_rule=was),
        *(RuleDefault(name, check, scope_types=SCOPES, deprecated_rule=was) for name, check in SHARED.items()),
        *(RuleDefault(name, check, scope_types=SCOPES) for name, check in defaults.items()),
    ]
