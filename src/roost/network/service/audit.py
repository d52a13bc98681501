"""The network's audit: its own records, the ledger's of its ports and segments, and the host aggregates that it keeps.

What is under way is no drift, so each suspect is looked at again: under locks, or twice.
"""

from roost.network.service import Networks, audit_addresses, audit_ports, audit_providers
from roost.platform.audit import Audit
from roost.platform.event_tables import EventTable

EVENTS = EventTable("network")
"""Of networks and ports: what was repaired."""


AUDIT: Audit[Networks] = Audit(
    (
        audit_addresses.STRAYS,
        audit_addresses.MARKS,
        audit_addresses.FREE_RANGES,
        audit_providers.PROVIDERS,
        audit_providers.AGGREGATES,
        audit_ports.SERVER_PORTS,
        audit_ports.SHORT_CLAIMS,
        audit_ports.LARGE_CLAIMS,
        audit_ports.REACH,
        audit_ports.FLAT_CLAIMS,
    ),
    EVENTS.keep_repairs,
)
