"""Shows a port as the Network API does, and decides which notifications a change of it sends.

Source: Neutron, pecan_wsgi/hooks/notifier.py, for the events and what each has; Network API reference, for a port.
"""

from typing import Any

import msgspec
from msgspec.structs import asdict

from roost.network.model.ports import VIF_TYPE_UNBOUND, Port
from roost.platform.times import show_seconds

Payload = dict[str, Any]

COUNTERS = frozenset({"revision_number", "updated_at"})
"""Every write changes these. A port that differs in nothing else has not changed."""
SHOWN_AS_IT_IS = (
    *("id", "name", "description", "network_id", "project_id", "mac_address", "admin_state_up"),
    *("device_id", "device_owner", "ip_allocation", "port_security_enabled"),
)
DECIDED_BY_SERVICE = frozenset({
    *("id", "status", "created_at", "updated_at", "revision_number", "ip_allocation"),
    *("binding:vif_type", "binding:vif_details"),
})  # fmt: skip
"""Clients do not ask for these, so that the `.start` events leave them out."""


def port_events(before: Port | None, after: Port | None) -> list[tuple[str, Payload]]:
    """Return the notifications of a port's change, in order, as (event type, payload).

    before: None for a new port. after: None for a deleted one. Ports that clients never see have no notifications.
    """
    if (before or after) is None or any(port is not None and port.hidden for port in (before, after)):
        return []
    if before is None:
        assert after is not None
        document = port_document(after)
        request = {name: value for name, value in document.items() if name not in DECIDED_BY_SERVICE}
        return [("port.create.start", {"port": request}), ("port.create.end", {"port": document})]
    if after is None:
        start: Payload = {"port_id": before.id}
        return [
            ("port.delete.start", start),
            ("port.delete.end", {"port": port_document(before), "port_id": before.id}),
        ]
    old, new = port_document(before), port_document(after)
    changed = {name: value for name, value in new.items() if value != old[name] and name not in COUNTERS}
    if not changed:
        return []
    request = {name: value for name, value in changed.items() if name not in DECIDED_BY_SERVICE}
    return [("port.update.start", {"port": request, "id": after.id}), ("port.update.end", {"port": new})]


def port_document(port: Port) -> Payload:
    """Return the port as the Network API shows it to an administrator."""
    return {
        **{name: getattr(port, name) for name in SHOWN_AS_IT_IS},
        "tenant_id": port.project_id,
        "status": "DOWN" if port.host is None else "ACTIVE",
        "fixed_ips": [{"subnet_id": item.subnet_id, "ip_address": item.address} for item in port.addresses],
        "allowed_address_pairs": [asdict(pair) for pair in port.allowed_address_pairs],
        "extra_dhcp_opts": [],
        "security_groups": [],
        "tags": list(port.tags),
        "binding:host_id": port.host or "",
        "binding:vnic_type": port.vnic_type,
        "binding:vif_type": port.vif_type,
        "binding:vif_details": vif_details(port.vif_type),
        "binding:profile": msgspec.json.decode(port.binding_profile),
        "revision_number": port.revision,
        "created_at": show_seconds(port.created_at),
        "updated_at": show_seconds(port.updated_at),
    }


def vif_details(vif_type: str) -> Payload:
    """Return what a host needs to know to plug in a guest; empty where the port is not bound."""
    return {} if vif_type == VIF_TYPE_UNBOUND else {"port_filter": False, "connectivity": "l2"}
