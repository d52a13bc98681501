"""What the OpenAPI document says of bodies and queries beyond what is refused as malformed.

A body is decoded by its types, whose refusals name a type. What is read later (ids, addresses, what is not served) is
refused in the API's own words, and said here. What depends on other attributes, or on what there is, is not said.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from roost.network.api import bodies_networks, bodies_ports, bodies_subnets, quotas
from roost.network.api.port_bindings import BindingBody
from roost.network.api.tags import TagsEnvelope
from roost.network.rules.links import NETWORK_TYPES
from roost.network.rules.subnet_attributes import HOST_ROUTES_MAX, NAMESERVERS_MAX, SERVICE_TYPES_MAX
from roost.network.rules.tags import TAG_LENGTH_MAX, TAGS_MAX
from roost.platform.operations import Schema

UUID: Schema = {"format": "uuid"}
ADDRESS: Schema = {"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}
CIDR: Schema = {"pattern": "^[0-9A-Fa-f:.]{2,45}/[0-9]{1,3}$"}
TAG: Schema = {"type": "string", "minLength": 1, "maxLength": TAG_LENGTH_MAX, "pattern": "^[^\u0000]+$"}
LISTED_ONCE: Schema = {"uniqueItems": True}
NETWORK_TYPE: Schema = {"enum": [*NETWORK_TYPES, None]}

ATTRIBUTES: Mapping[str, Schema] = {
    "network_id": UUID,
    "segment_id": UUID,
    "subnet_id": UUID,
    "cidr": CIDR,
    "destination": CIDR,
    "nexthop": ADDRESS,
    "start": ADDRESS,
    "end": ADDRESS,
    "gateway_ip": ADDRESS,
    "ip_address": ADDRESS,
    "ip_version": {"enum": [4, 6]},
    "mac_address": {"pattern": "^([0-9A-Fa-f][02468ACEace]([:-][0-9A-Fa-f]{2}){5})?$"},
    "network_type": NETWORK_TYPE,
    "provider:network_type": NETWORK_TYPE,
    "dns_nameservers": {**LISTED_ONCE, "maxItems": NAMESERVERS_MAX},
    "host_routes": {**LISTED_ONCE, "maxItems": HOST_ROUTES_MAX},
    "service_types": {"maxItems": SERVICE_TYPES_MAX},
    "tags": {**LISTED_ONCE, "maxItems": TAGS_MAX, "items": TAG},
}
"""Attribute of any body -> what is said of its values, where they are not null."""

HOST: Schema = {"minLength": 1}

UNSERVED: Mapping[type[Struct], Mapping[str, Sequence[Any]]] = {
    bodies_networks.NetworkUnserved: bodies_networks.NEUTRAL,
    bodies_subnets.SubnetUnserved: bodies_subnets.NEUTRAL,
    bodies_ports.PortUnserved: bodies_ports.NEUTRAL,
    quotas.QuotaUnserved: quotas.NEUTRAL,
}
"""Bodies with attributes that may only ask for nothing -> attribute -> the values that do."""


def refine_bodies(components: Mapping[str, Schema], bodies: Sequence[type[Struct]]) -> dict[str, Schema]:
    """Return the components with more said of those of the bodies. bodies: the structs whose names components have."""
    refined = dict(components)
    for kind in bodies:
        schema = components[kind.__name__]
        neutral = next((values for base, values in UNSERVED.items() if issubclass(kind, base)), {})
        refined[kind.__name__] = {
            **schema,
            "properties": {
                name: {"enum": list(neutral[name])} if name in neutral else {**value, **_said(kind, name, value)}
                for name, value in schema["properties"].items()
            },
        }
    return refined


def _said(kind: type[Struct], name: str, schema: Schema) -> Schema:
    """Return what is said of an attribute; beside null it is said of the rest."""
    more = HOST if kind is BindingBody and name == "host" else ATTRIBUTES.get(name, {})
    if kind is TagsEnvelope or not more or "anyOf" not in schema:
        return more
    if "enum" in more:
        return more
    return {"anyOf": [part if part == {"type": "null"} else {**part, **more} for part in schema["anyOf"]]}


def body_structs(kinds: Sequence[Any], components: Mapping[str, Schema]) -> list[type[Struct]]:
    """Return the structs of these bodies and of all that is in them, of those that are components."""
    found: dict[str, type[Struct]] = {}

    def visit(kind: Any) -> None:
        for part in getattr(kind, "__args__", ()):
            visit(part)
        if isinstance(kind, type) and issubclass(kind, Struct) and kind.__name__ not in found:
            if kind.__name__ in components:
                found[kind.__name__] = kind
            for item in msgspec.structs.fields(kind):
                visit(item.type)

    for kind in kinds:
        visit(kind)
    return list(found.values())
