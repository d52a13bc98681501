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
ACTION_EVENTS = "os_compute_api:os-instance-actions:events"
UNLOCK_OVERRIDE = "os_compute_api:os-lock-server:unlock:unlock_override"
READDRESS_SERVER = "os_compute_api:os-evacuate:readdress"
UNSHELVE_TO_HOST = "os_compute_api:os-shelve:unshelve_to_host"
FLAVOR_EXTRA_SPECS = "os_compute_api:os-flavor-extra-specs:index"

OPERATIONS = {
    f"{SERVERS}index": READER,
    f"{SERVERS}detail": f"{READER} or rule:service_api",
    SHOW_SERVER: READER,
    f"{SERVERS}create": MEMBER,
    f"{SERVERS}delete": MEMBER,
    f"{SERVERS}update": MEMBER,
    "os_compute_api:os-instance-actions:list": READER,
    "os_compute_api:os-instance-actions:show": READER,
    "os_compute_api:server-metadata:index": READER,
    "os_compute_api:server-metadata:show": READER,
    "os_compute_api:server-metadata:create": MEMBER,
    "os_compute_api:server-metadata:update_all": MEMBER,
    "os_compute_api:server-metadata:update": MEMBER,
    "os_compute_api:server-metadata:delete": MEMBER,
    "os_compute_api:os-server-tags:index": READER,
    "os_compute_api:os-server-tags:show": READER,
    "os_compute_api:os-server-tags:update_all": MEMBER,
    "os_compute_api:os-server-tags:delete_all": MEMBER,
    "os_compute_api:os-server-tags:update": MEMBER,
    "os_compute_api:os-server-tags:delete": MEMBER,
    "os_compute_api:ips:index": READER,
    "os_compute_api:ips:show": READER,
    "compute:server:topology:index": READER,
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
    **{f"os_compute_api:os-services:{name}": ADMIN for name in ("update", "delete")},
    **{f"os_compute_api:os-attach-interfaces:{name}": READER for name in ("list", "show")},
    **{f"os_compute_api:os-attach-interfaces:{name}": MEMBER for name in ("create", "delete")},
    "os_compute_api:os-migrations:index": ADMIN,
    **{f"os_compute_api:servers:migrations:{name}": ADMIN for name in ("index", "show", "delete", "force_complete")},
    **{f"os_compute_api:os-aggregates:{name}": ADMIN for name in ("index", "show", "create", "update", "delete")},
    "compute:aggregates:images": ADMIN,
    "os_compute_api:os-availability-zone:list": ANYBODY,
    "os_compute_api:os-availability-zone:detail": ADMIN,
    "os_compute_api:extensions": ANYBODY,
    "roost:hosts:list": SERVICE,
    "roost:hosts:declare": SERVICE,
    "roost:builds:list": SERVICE,
}
"""What operations enforce: about the caller's own project, or that of the server which the path names."""

ACTIONS = {
    **{f"{SERVERS}{name}": MEMBER for name in ("resize", "confirm_resize", "revert_resize")},
    **{f"os_compute_api:os-migrate-server:{name}": ADMIN for name in ("migrate", "migrate_live")},
    "os_compute_api:os-evacuate": ADMIN,
    "os_compute_api:os-shelve:shelve": MEMBER,
    "os_compute_api:os-shelve:shelve_offload": ADMIN,
    "os_compute_api:os-shelve:unshelve": MEMBER,
    f"{SERVERS}start": MEMBER,
    f"{SERVERS}stop": MEMBER,
    f"{SERVERS}reboot": MEMBER,
    f"{SERVERS}rebuild": MEMBER,
    f"{SERVERS}create_image": MEMBER,
    f"{SERVERS}trigger_crash_dump": MEMBER,
    "os_compute_api:os-pause-server:pause": MEMBER,
    "os_compute_api:os-pause-server:unpause": MEMBER,
    "os_compute_api:os-suspend-server:suspend": MEMBER,
    "os_compute_api:os-suspend-server:resume": MEMBER,
    "os_compute_api:os-lock-server:lock": MEMBER,
    "os_compute_api:os-lock-server:unlock": MEMBER,
    "os_compute_api:os-admin-actions:reset_state": ADMIN,
    "os_compute_api:os-admin-actions:inject_network_info": ADMIN,
    "os_compute_api:os-admin-password": MEMBER,
    "os_compute_api:os-console-output": MEMBER,
    "os_compute_api:os-create-backup": MEMBER,
    "os_compute_api:os-deferred-delete:force": MEMBER,
    "os_compute_api:os-deferred-delete:restore": MEMBER,
    "os_compute_api:os-rescue": MEMBER,
    "os_compute_api:os-unrescue": MEMBER,
    "os_compute_api:os-security-groups:add": MEMBER,
    "os_compute_api:os-security-groups:remove": MEMBER,
}
"""What POST /servers/{id}/action enforces, each action its own."""

AGGREGATE_ACTIONS = {
    f"os_compute_api:os-aggregates:{name}": ADMIN for name in ("add_host", "remove_host", "set_metadata")
}
"""What POST /os-aggregates/{id}/action enforces, each action its own."""

PARTS = {
    f"{SERVERS}index:get_all_tenants": ADMIN,
    f"{SERVERS}detail:get_all_tenants": SERVICE,
    ALL_FILTERS: ADMIN,
    FORCED_HOST: ADMIN,
    REQUESTED_HOST: ADMIN,
    ATTACH_NETWORK: MEMBER,
    ATTACH_EXTERNAL: ADMIN,
    HOST_STATUS: ADMIN,
    "os_compute_api:os-migrate-server:migrate:host": ADMIN,
    READDRESS_SERVER: ADMIN,
    UNSHELVE_TO_HOST: ADMIN,
    SERVER_EXTRA_SPECS: READER,
    HOST_ATTRIBUTES: ADMIN,
    ACTION_EVENTS: ADMIN,
    UNLOCK_OVERRIDE: ADMIN,
}
"""What is asked besides: of what a request says, and of what an answer shows."""


def rules() -> list["RuleDefault"]:
    """Return every rule with its default, as oslo.policy takes them."""
    from roost.platform.policy import make_rules  # with oslo.policy, 0.2 s, for which who asks nobody need not wait

    return [*make_rules(CHECKS), *make_rules(OPERATIONS | ACTIONS | AGGREGATE_ACTIONS | PARTS, scope_types=SCOPES)]
