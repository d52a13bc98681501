"""What only audits ask across the seams: whose records there are, and what is under way.

Each wing's audit compares its own records with its neighbours'; the drift itself is `roost.platform.audit`'s.
"""

from collections.abc import Sequence
from typing import Protocol

from roost.seams.compute import ComputeClient
from roost.seams.network import HostReach, NicClient, PortClient
from roost.seams.placement import ClaimClient, ProviderClient
from roost.seams.unknown_guests import GuestPortClient


class PlacementAudit(Protocol):
    """What the ledger tells the audits of others."""

    async def list_consumers(self, consumer_type: str, *, after: str, limit: int) -> list[str]:
        """Return UUIDs of consumers of a type, in order, above `after` ("" for the first page).

        Remote: GET /resource_providers/{uuid}/allocations of every provider; there is no list of consumers.
        """

    async def list_named_providers(self, prefix: str, *, after: str, limit: int) -> dict[str, str]:
        """Return UUID -> name of providers whose names begin with `prefix`, by name, above the name `after`.

        Remote: GET /resource_providers, all of them; it finds whole names alone.
        """


class NetworkAudit(Protocol):
    """What the network service tells the audits of others."""

    async def get_hosts(self, names: Sequence[str]) -> dict[str, HostReach]:
        """Return those of the hosts that set_hosts has told of, by name.

        Remote: GET /v2.0/agents?host={name}: the bridge_mappings in its configurations.
        """

    async def list_noticed_servers(self, server_ids: Sequence[str]) -> set[str]:
        """Return those of the servers of whose changed ports the compute service is still to be told.

        Remote: none; Neutron forgets a notification that was lost.
        """

    async def list_unsettled_aggregates(self) -> set[str]:
        """Return the UUIDs of host aggregates that are just being told which hosts are in them.

        Remote: none; Neutron tells Nova in the background and shows nobody what is still to be told.
        """


class ComputeAudit(Protocol):
    """What the compute service tells the audits of others."""

    async def list_hosts_behind(self) -> set[str]:
        """Return the hosts of which the network service or the ledger is still to be told something.

        Remote: none; nova-compute sends what its host has again and again.
        """


class AuditedPlacement(ClaimClient, ProviderClient, PlacementAudit, Protocol):
    """All of the ledger, as a service knows it that keeps providers and claims there and audits them."""


class AuditedNetwork(PortClient, NicClient, GuestPortClient, NetworkAudit, Protocol):
    """The network service as the compute service knows it."""


class AuditedCompute(ComputeClient, ComputeAudit, Protocol):
    """The compute service as the network service knows it."""
