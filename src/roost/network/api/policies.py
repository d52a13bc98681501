"""The Network API's rules: which operation and which attribute asks which, and whom it lets in by default.

Names are upstream's, so that operators' policy files mean here what they mean there. Defaults are upstream's new ones,
without those that they replaced, and let the role `service` do what `admin` may. What is asked about is the object at
hand: `project_id` and `tenant_id` are its owner; `network:tenant_id`, `shared` and `router:external` its network's.
Source: Neutron 29, neutron/conf/policies.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oslo_policy.policy import RuleDefault

SCOPES = ["project"]
"""Callers scoped to the whole system or to a domain are let in by no rule."""

PRIVILEGED = ("context_is_admin", "service_api")
"""Whom one of these lets in sees beyond the own project; for others databases are asked for less."""

CHECKS = {
    "context_is_admin": "role:admin",
    "service_api": "role:service",
    "context_is_advsvc": "role:advsvc",
    "admin_only": "rule:context_is_admin",
    "owner": "tenant_id:%(tenant_id)s",
    "admin_or_owner": "rule:context_is_admin or rule:owner",
    "network_owner": "tenant_id:%(network:tenant_id)s",
    "admin_or_network_owner": "rule:context_is_admin or rule:network_owner",
    "admin_owner_or_network_owner": "rule:owner or rule:admin_or_network_owner",
    "regular_user": "",
    "shared": "field:networks:shared=True",
    "external": "field:networks:router:external=True",
    "network_device": "field:port:device_owner=~^network:",
    "default": "rule:admin_or_owner",
}
"""What the rules of operations refer to."""

ADMIN = "rule:admin_only or rule:service_api"
MEMBER = "role:member and project_id:%(project_id)s"
READER = "role:reader and project_id:%(project_id)s"
NETWORK_MEMBER = "role:member and rule:network_owner"
NETWORK_READER = "role:reader and rule:network_owner"
OWN = f"{ADMIN} or ({MEMBER})"
SEEN_NETWORK = f"{ADMIN} or ({READER}) or rule:shared or rule:external"
SEEN_SUBNET = f"{SEEN_NETWORK} or ({NETWORK_READER})"
SEEN_PORT = f"{ADMIN} or ({READER}) or ({NETWORK_READER})"
OWN_NETWORK = f"{ADMIN} or ({NETWORK_MEMBER})"
OWN_OR_NETWORK = f"{ADMIN} or ({MEMBER}) or ({NETWORK_MEMBER})"
NO_NETWORK_DEVICE = f"not rule:network_device or {OWN_NETWORK}"

OPERATIONS = {
    "create_network": OWN,
    "get_network": SEEN_NETWORK,
    "update_network": OWN,
    "delete_network": OWN,
    "create_subnet": OWN_NETWORK,
    "get_subnet": SEEN_SUBNET,
    "update_subnet": OWN_OR_NETWORK,
    "delete_subnet": OWN_OR_NETWORK,
    "create_port": OWN,
    "get_port": SEEN_PORT,
    "update_port": OWN,
    "delete_port": OWN_OR_NETWORK,
    "create_segment": ADMIN,
    "get_segment": ADMIN,
    "update_segment": ADMIN,
    "delete_segment": ADMIN,
    "get_port_binding": ADMIN,
    "create_port_binding": ADMIN,
    "update_port_binding": ADMIN,
    "delete_port_binding": ADMIN,
    "activate": ADMIN,
    "get_network_ip_availability": ADMIN,
    "get_agent": ADMIN,
    "get_availability_zone": f"{ADMIN} or role:reader",
    "get_quota": ADMIN,
    "update_quota": ADMIN,
    "delete_quota": ADMIN,
    "get_networks_tags": SEEN_NETWORK,
    "get_subnets_tags": SEEN_SUBNET,
    "get_ports_tags": SEEN_PORT,
    "get_segments_tags": ADMIN,
    **{f"{verb}_{many}_tags": OWN for verb in ("create", "update", "delete") for many in ("networks", "ports")},
    **{f"{verb}_subnets_tags": OWN_OR_NETWORK for verb in ("create", "update", "delete")},
    **{f"{verb}_segments_tags": ADMIN for verb in ("create", "update", "delete")},
}
"""What operations enforce; `get_quota` of other projects than the caller's own."""

_PROVIDER = ("segments", "provider:network_type", "provider:physical_network", "provider:segmentation_id")

ATTRIBUTES = {
    **{
        f"{verb}_network:{name}": ADMIN
        for verb in ("create", "update")
        for name in ("shared", "router:external", "is_default", *_PROVIDER)
    },
    **{f"get_network:{name}": ADMIN for name in _PROVIDER},
    **{f"{verb}_subnet:segment_id": ADMIN for verb in ("create", "get", "update")},
    **{f"{verb}_subnet:service_types": ADMIN for verb in ("create", "update")},
    "create_network:roost:kind": ADMIN,
    "create_subnet:roost:cell": ADMIN,
    "create_port:device_owner": NO_NETWORK_DEVICE,
    "create_port:mac_address": OWN_NETWORK,
    "create_port:fixed_ips": f"{OWN_NETWORK} or rule:shared",
    "create_port:fixed_ips:ip_address": OWN_NETWORK,
    "create_port:fixed_ips:subnet_id": f"{OWN_NETWORK} or rule:shared",
    "create_port:binding:host_id": ADMIN,
    "create_port:binding:profile": ADMIN,
    "create_port:binding:vnic_type": OWN,
    "get_port:binding:vif_type": ADMIN,
    "get_port:binding:vif_details": ADMIN,
    "get_port:binding:host_id": ADMIN,
    "get_port:binding:profile": ADMIN,
    "update_port:device_owner": NO_NETWORK_DEVICE,
    "update_port:mac_address": ADMIN,
    "update_port:fixed_ips": OWN_NETWORK,
    "update_port:fixed_ips:ip_address": OWN_NETWORK,
    "update_port:fixed_ips:subnet_id": f"{OWN_NETWORK} or rule:shared",
    "update_port:binding:host_id": ADMIN,
    "update_port:binding:profile": ADMIN,
    "update_port:binding:vnic_type": OWN,
}
"""What is asked besides when a body says the attribute; `get_`: whom it is shown to."""


def rules() -> list["RuleDefault"]:
    """Every rule with its default, as oslo.policy takes them."""
    from roost.platform.policy import make_rules  # with oslo.policy, 0.2 s, for which who asks nobody need not wait

    return [*make_rules(CHECKS), *make_rules(OPERATIONS | ATTRIBUTES, scope_types=SCOPES)]
