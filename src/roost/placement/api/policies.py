"""The Placement API's rules: which operation asks which, and whom it lets in unless a policy file says otherwise.

Names and defaults are upstream's, so that operators' policy files mean here what they mean there; even the name of
the deprecated rule, which begins with `rule:` and can therefore never be overridden.
Source: openstack-placement 16.0.0, placement/policies.
"""

from collections.abc import Iterator

from oslo_policy.policy import DeprecatedRule, RuleDefault

SCOPES = ["project"]
"""Callers scoped to the whole system or to a domain are let in by no rule."""

ADMIN_OR_SERVICE = "rule:admin_or_service_api"

SHARED = {
    "service_api": "role:service",
    "admin_or_service_api": "role:admin or role:service",
    "admin_or_project_reader_or_service_api": "role:admin or rule:project_reader_api or role:service",
}
"""Checks that the operations' rules refer to; each had another default once."""

ACTIONS = {
    "resource_providers": ("list", "create", "show", "update", "delete"),
    "resource_classes": ("list", "create", "show", "update", "delete"),
    "resource_providers:inventories": ("list", "create", "show", "update", "delete"),
    "resource_providers:aggregates": ("list", "update"),
    "resource_providers:traits": ("list", "update", "delete"),
    "resource_providers:allocations": ("list",),
    "traits": ("list", "show", "update", "delete"),
    "allocations": ("manage", "list", "update", "delete"),
    "allocation_candidates": ("list",),
}
"""What administrators and services may do, by what it is done to."""

OPERATIONS = {
    **{f"placement:{name}:{action}": ADMIN_OR_SERVICE for name, actions in ACTIONS.items() for action in actions},
    "placement:resource_providers:usages": ADMIN_OR_SERVICE,
    "placement:usages": "rule:admin_or_project_reader_or_service_api",
    "placement:reshaper:reshape": "rule:service_api",
}
"""What operations enforce, on the caller's own project; `placement:usages` on the project that is asked about."""


def rules() -> list[RuleDefault]:
    """Return every rule with its default, as oslo.policy takes them."""
    return list(_rules())


def _rules() -> Iterator[RuleDefault]:
    was = DeprecatedRule(
        "rule:admin_api",
        "role:admin",
        deprecated_reason="Placement's rules now tell services, admins and readers of a project apart.",
        deprecated_since="5.0.0",
    )
    yield RuleDefault("admin_api", "role:admin", scope_types=SCOPES)
    reader = "role:reader and project_id:%(project_id)s"
    yield RuleDefault("project_reader_api", reader, deprecated_rule=was)
    for name, check in SHARED.items():
        yield RuleDefault(name, check, scope_types=SCOPES, deprecated_rule=was)
    for name, check in OPERATIONS.items():
        yield RuleDefault(name, check, scope_types=SCOPES)
