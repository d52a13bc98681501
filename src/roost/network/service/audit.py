"""The network's audit: its own books, the ledger's of its ports and segments, and the host aggregates that it keeps.

What merely is under way is no drift: each suspect is looked at again where nobody can be at work on it.
"""

from roost.network.service import Networks, audit_addresses, audit_flat, audit_ports, audit_providers
from roost.seams.audit import Drift, Repairs

LOOKS = (
    audit_addresses.audit_strays,
    audit_addresses.audit_marks,
    audit_addresses.audit_free,
    audit_providers.audit_providers,
    audit_providers.audit_aggregates,
    audit_ports.audit_server_ports,
    audit_ports.audit_holders,
    audit_ports.audit_consumers,
    audit_ports.audit_reach,
    audit_flat.audit_claims,
)
"""In order: what one puts right, the next ones find right."""


async def audit(networks: Networks, *, repairs: Repairs) -> list[Drift]:
    """All drift of the network, and of what the ledger and the host aggregates have of it, in pages."""
    found: list[Drift] = []
    for look in LOOKS:
        found += await look(networks, repairs=repairs)
    return found
