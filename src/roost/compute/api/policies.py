"""The Compute API's policy rules that belong to no operation, and what the rules of operations refer to.

Names and defaults are upstream's new ones, without those that they replaced, so that operators' policy files mean here
what they mean there. Besides, the role `service` may what Roost's commands need that load a cloud and show it: those
rules say SERVICE. Roost's own paths have rules of their own. Source: Nova 34, nova/policies.
"""

SCOPES = ["project"]
"""Callers scoped to the whole system or to a domain are let in by no rule."""

IS_ADMIN = "context_is_admin"
"""Whom it lets in sees flavors that are not public, others' networks and ports, and the details of faults."""

CHECKS = {
    IS_ADMIN: "role:admin",
    "admin_api": "is_admin:True",
    "admin_or_owner": "is_admin:True or project_id:%(project_id)s",
    "project_manager_api": "role:manager and project_id:%(project_id)s",
    "project_member_api": "role:member and project_id:%(project_id)s",
    "project_reader_api": "role:reader and project_id:%(project_id)s",
    "service_api": "role:service",
    "project_manager_or_admin": "rule:project_manager_api or rule:context_is_admin",
    "project_member_or_admin": "rule:project_member_api or rule:context_is_admin",
    "project_reader_or_admin": "rule:project_reader_api or rule:context_is_admin",
    "service_or_admin": "rule:service_api or rule:context_is_admin",
}
"""What the rules of operations refer to, and what operators' rules may."""

ADMIN = "rule:context_is_admin"
MANAGER = "rule:project_manager_or_admin"
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
OTHER_LIMITS = "os_compute_api:limits:other_project"
FLAVOR_EXTRA_SPECS = "os_compute_api:os-flavor-extra-specs:index"

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
    "os_compute_api:os-migrate-server:migrate_live:host": ADMIN,
    READDRESS_SERVER: ADMIN,
    UNSHELVE_TO_HOST: ADMIN,
    SERVER_EXTRA_SPECS: READER,
    HOST_ATTRIBUTES: ADMIN,
    ACTION_EVENTS: ADMIN,
    UNLOCK_OVERRIDE: ADMIN,
}
"""What is asked besides: of what a request says, and of what an answer shows."""
