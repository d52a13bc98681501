"""Decides which notifications a change of a port sends. They show it as the Network API does.

Source: Neutron, pecan_wsgi/hooks/notifier.py, for the events and what each has.
"""

from typing import Any

from msgspec import to_builtins

from roost.network.model.ports import Port
from roost.network.rules import documents

Payload = dict[str, Any]

COUNTERS = frozenset({"revision_number", "updated_at"})
"""Every write changes these. A port that differs in nothing else has not changed."""
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
    old, new = ({} if port is None else to_builtins(documents.port(port)) for port in (before, after))
    if before is not None and after is None:
        named = {"port_id": before.id}
        return [("port.delete.start", named), ("port.delete.end", {"port": old} | named)]
    changed = {name for name, value in new.items() if name not in old or value != old[name]} - COUNTERS
    request: Payload = {"port": {name: value for name, value in new.items() if name in changed - DECIDED_BY_SERVICE}}
    verb, named = ("create", {}) if before is None else ("update", {"id": before.id})
    return [(f"port.{verb}.start", request | named), (f"port.{verb}.end", {"port": new})] if changed else []
