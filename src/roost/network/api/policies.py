"""The Network API's policy rules of attributes, and what the rules of operations refer to.

Names are upstream's, so that operators' policy files mean here what they mean there. Defaults are upstream's new ones,
without those that they replaced, and let the role `service` do what `admin` may. What is asked about is the object at
hand: `project_id` and `tenant_id` are its owner; `network:project_id`, `network:tenant_id`, `shared` and
`router:external` its network's.
Source: Neutron 29, neutron/conf/policies.
"""

SCOPES = ["project"]
"""Callers scoped to the whole system or to a domain are let in by no rule."""

PRIVILEGED = ("context_is_admin", "service_api")
"""Callers whom one of these lets in see other projects. For others, the database reads less."""

CHECKS = {
    "context_is_admin": "role:admin",
    "service_api": "role:service",
    "context_is_advsvc": "role:advsvc",
    "admin_only": "rule:context_is_admin",
    "owner": "project_id:%(project_id)s",
    "admin_or_owner": "rule:context_is_admin or rule:owner",
    "network_owner": "project_id:%(network:project_id)s",
    "admin_or_network_owner": "rule:context_is_admin or rule:network_owner",
    "admin_owner_or_network_owner": "rule:owner or rule:admin_or_network_owner",
    "regular_user": "",
    "shared": "field:networks:shared=True",
    "external": "field:networks:router:external=True",
    "external_network": "field:subnets:router:external=True",
    "network_device": "field:port:device_owner=~^network:",
    "compute_device": "field:port:device_owner=~^compute:",
    "baremetal_device": "field:port:device_owner=~^baremetal:",
    "manila_device": "field:port:device_owner=~^manila:",
    "admin_or_data_plane_int": "rule:context_is_admin or role:data_plane_integrator",
    "ext_parent_owner": "project_id:%(ext_parent:project_id)s",
    "admin_or_ext_parent_owner": "rule:context_is_admin or rule:ext_parent_owner",
    "sg_owner": "project_id:%(security_group:project_id)s",
    "default": "rule:admin_or_owner",
}
"""Checks to which rules of operations refer, and operators' rules may. Nothing of Roost has a parent or a group."""

ADMIN = "rule:admin_only or rule:service_api"
MANAGER = "role:manager and project_id:%(project_id)s"
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
OWN_UNUSED_PORT = (
    f"{ADMIN} or (service_roles:service and (({MEMBER}) or ({NETWORK_MEMBER}))) or (not rule:compute_device "
    f"and not rule:baremetal_device and not rule:manila_device and (({MEMBER}) or ({NETWORK_MEMBER})))"
)
NO_NETWORK_DEVICE = f"not rule:network_device or {OWN_NETWORK}"

_PROVIDER = ("segments", "provider:network_type", "provider:physical_network", "provider:segmentation_id")
_PAIRS = ("allowed_address_pairs", "allowed_address_pairs:mac_address", "allowed_address_pairs:ip_address")
_DEFAULTS = (
    ("create update", "network", ("shared", "router:external", "is_default", *_PROVIDER), ADMIN),
    ("create update", "network", ("port_security_enabled",), OWN),
    ("create", "network", ("roost:kind",), ADMIN),
    ("get", "network", _PROVIDER, ADMIN),
    ("create get update", "subnet", ("segment_id",), ADMIN),
    ("create update", "subnet", ("service_types",), ADMIN),
    ("create", "subnet", ("roost:cell",), ADMIN),
    ("create update", "port", ("device_owner",), NO_NETWORK_DEVICE),
    ("create", "port", ("mac_address",), OWN_NETWORK),
    ("create", "port", ("fixed_ips", "fixed_ips:subnet_id"), f"{OWN_NETWORK} or rule:shared"),
    ("create update", "port", ("fixed_ips:ip_address", "port_security_enabled", *_PAIRS), OWN_NETWORK),
    ("create get update", "port", ("binding:host_id", "binding:profile"), ADMIN),
    ("create update", "port", ("binding:vnic_type",), OWN),
    ("get", "port", ("binding:vif_type", "binding:vif_details"), ADMIN),
    ("update", "port", ("mac_address",), f"{ADMIN} or (role:manager and rule:network_owner)"),
    ("update", "port", ("fixed_ips",), OWN_NETWORK),
    ("update", "port", ("fixed_ips:subnet_id",), f"{OWN_NETWORK} or rule:shared"),
)
"""Verbs, kind, attributes, and the check by default."""

ATTRIBUTES = {
    f"{verb}_{kind}:{name}": default
    for verbs, kind, names, default in _DEFAULTS
    for verb in verbs.split()
    for name in names
}
"""The rules of attributes: who may set one in a body; of `get_`, who sees it."""
