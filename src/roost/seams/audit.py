"""What audits ask across the seams beside what everyone does: whose records there are, and what is under way.

Each wing's audit compares its own records with its neighbours'; the drift itself is `roost.platform.audit`'s.
"""

from collections.abc import Sequence
from typing import Protocol

from roost.seams.compute import ComputeClient
from roost.seams.network import HostReach, NetworkClient
from roost.seams.placement import PlacementClient


class PlacementAudit(Protocol):
    """What the ledger says to the audits of others."""

    async def list_consumers(self, consumer_type: str, *, after: str, limit: int) -> list[str]:
        """Return UUIDs of consumers of a type, in order, above `after` ("" for the first page)."""

    async def list_named_providers(self, prefix: str, *, after: str, limit: int) -> dict[str, str]:
        """Return UUID -> name of providers whose names begin with `prefix`, by name, above the name `after`."""


class NetworkAudit(Protocol):
    """What the network service says to the audits of others."""

    async def get_hosts(self, names: Sequence[str]) -> dict[str, HostReach]:
        """Return those of the hosts that set_hosts has told of, by name."""

    async def list_noticed_servers(self, server_ids: Sequence[str]) -> set[str]:
        """Return those of the servers of whose changed ports the compute service is still to be told."""

    async def list_unsettled_aggregates(self) -> set[str]:
        """Return the UUIDs of host aggregates that are just being told which hosts are in them."""


class ComputeAudit(Protocol):
    """What the compute service says to the audits of others."""

    async def list_hosts_behind(self) -> set[str]:
        """Return the hosts of which the network service or the ledger is still to be told something."""


class AuditedPlacement(PlacementClient, PlacementAudit, Protocol):
    """The ledger as a neighbour that audits knows it."""


class AuditedNetwork(NetworkClient, NetworkAudit, Protocol):
    """The network service as a neighbour that audits knows it."""


class AuditedCompute(ComputeClient, ComputeAudit, Protocol):
    """The compute service as a neighbour that audits knows it."""
