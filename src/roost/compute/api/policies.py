"""The Compute API's rules: which operation asks which, and whom it lets in unless a policy file says otherwise.

Names and defaults are upstream's new ones, without those that they replaced, so that operators' policy files mean here
what they mean there. Besides, the role `service` may what Roost's commands need that load a cloud and show it: those
rules say SERVICE. Roost's own paths have rules of their own. Source: Nova 34, nova/policies.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oslo_policy.policy import RuleDefault

SCOPES = ["project"]
"""Callers scoped to the whole system or to a domain are let in by no rule."""

IS_ADMIN = "context_is_admin"
"""Whom it lets in sees flavors that are not public, others' networks and ports, and the details of faults."""

CHECKS = {
    IS_ADMIN: "role:admin",
    "project_member_api": "role:member and project_id:%(project_id)s",
    "project_reader_api": "role:reader and project_id:%(project_id)s",
    "service_api": "role:service",
    "project_member_or_admin": "rule:project_member_api or rule:context_is_admin",
    "project_reader_or_admin": "rule:project_reader_api or rule:context_is_admin",
    "service_or_admin": "rule:service_api or rule:context_is_admin",
}
"""What the rules of operations refer to."""

ADMIN = "rule:context_is_admin"
MEMBER = "rule:project_member_or_admin"
READER = "rule:project_reader_or_admin"
SERVICE = "rule:service_or_admin"
ANYBODY = "@"

SERVERS = "os_compute_api:servers:"
SHOW_SERVER = f"{SERVERS}show"
ALL_FILTERS = f"{SERVERS}allow_all_filters"
FORCED_HOST = f"{SERVERS}create:forced_host"
REQUESTED_HOST = "compute:servers:create:requested_destination"
ATTACH_NETWORK = f"{SERVERS}create:attach_network"
ATTACH_EXTERNAL = "network:attach_external_network"
HOST_STATUS = f"{SERVERS}show:host_status"
SERVER_EXTRA_SPECS = f"{SERVERS}show:flavor-extra-specs"
HOST_ATTRIBUTES = "os_compute_api:os-extended-server-attributes"
FLAVOR_EXTRA_SPECS = "os_compute_api:os-flavor-extra-specs:index"

OPERATIONS = {
    f"{SERVERS}index": READER,
    f"{SERVERS}detail": f"{READER} or rule:service_api",
    SHOW_SERVER: READER,
    f"{SERVERS}create": MEMBER,
    f"{SERVERS}delete": MEMBER,
    "os_compute_api:ips:index": READER,
    "os_compute_api:ips:show": READER,
    "os_compute_api:os-flavor-manage:create": SERVICE,
    "os_compute_api:os-flavor-manage:delete": ADMIN,
    FLAVOR_EXTRA_SPECS: READER,
    "os_compute_api:os-flavor-extra-specs:show": READER,
    "os_compute_api:os-flavor-extra-specs:create": ADMIN,
    "os_compute_api:os-flavor-extra-specs:delete": ADMIN,
    "os_compute_api:os-hypervisors:list": ADMIN,
    "os_compute_api:os-hypervisors:list-detail": ADMIN,
    "os_compute_api:os-hypervisors:show": ADMIN,
    "os_compute_api:os-hypervisors:uptime": ADMIN,
    "os_compute_api:os-hypervisors:search": ADMIN,
    "os_compute_api:os-hypervisors:servers": ADMIN,
    "os_compute_api:os-services:list": SERVICE,
    "os_compute_api:os-services:update": ADMIN,
    "os_compute_api:os-aggregates:index": ADMIN,
    "os_compute_api:os-aggregates:show": ADMIN,
    "os_compute_api:os-availability-zone:list": ANYBODY,
    "os_compute_api:os-availability-zone:detail": ADMIN,
    "os_compute_api:extensions": ANYBODY,
    "roost:hosts:list": SERVICE,
    "roost:hosts:declare": SERVICE,
    "roost:builds:list": SERVICE,
}
"""What operations enforce: about the caller's own project, or that of the server which the path names."""

PARTS = {
    f"{SERVERS}index:get_all_tenants": ADMIN,
    f"{SERVERS}detail:get_all_tenants": SERVICE,
    ALL_FILTERS: ADMIN,
    FORCED_HOST: ADMIN,
    REQUESTED_HOST: ADMIN,
    ATTACH_NETWORK: MEMBER,
    ATTACH_EXTERNAL: ADMIN,
    HOST_STATUS: ADMIN,
    SERVER_EXTRA_SPECS: READER,
    HOST_ATTRIBUTES: ADMIN,
}
"""What is asked besides: of what a request says, and of what an answer shows."""


def rules() -> list["RuleDefault"]:
    """Return every rule with its default, as oslo.policy takes them."""
    from roost.platform.policy import make_rules  # with oslo.policy, 0.2 s, for which who asks nobody need not wait

    return [*make_rules(CHECKS), *make_rules(OPERATIONS | PARTS, scope_types=SCOPES)]
