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
    if before is None:
        assert after is not None
        document = _shown(after)
        request = {name: value for name, value in document.items() if name not in DECIDED_BY_SERVICE}
        return [("port.create.start", {"port": request}), ("port.create.end", {"port": document})]
    if after is None:
        start: Payload = {"port_id": before.id}
        return [
            ("port.delete.start", start),
            ("port.delete.end", {"port": _shown(before), "port_id": before.id}),
        ]
    old, new = _shown(before), _shown(after)
    changed = {name: value for name, value in new.items() if value != old[name] and name not in COUNTERS}
    if not changed:
        return []
    request = {name: value for name, value in changed.items() if name not in DECIDED_BY_SERVICE}
    return [("port.update.start", {"port": request, "id": after.id}), ("port.update.end", {"port": new})]


def _shown(port: Port) -> Payload:
    payload: Payload = to_builtins(documents.port(port))
    return payload
