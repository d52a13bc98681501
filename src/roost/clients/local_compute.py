"""The compute service next door: ComputeClient on the service functions, in this process."""

from collections.abc import Mapping, Sequence

from roost.compute.service import Compute, nics, work
from roost.compute.service import aggregates as host_aggregates
from roost.compute.service import hosts as host_service
from roost.seams.compute import HostAggregateMembers, HostAggregateState, HostHeartbeat, PortsChange, ServerState


class LocalCompute:
    """Implements roost.seams.audit.AuditedCompute; see there for what the calls promise."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute

    async def ensure_host_aggregates(self, aggregates: Sequence[HostAggregateState]) -> None:
        """See ComputeClient."""
        await host_aggregates.ensure_host_aggregates(self._compute, aggregates)

    async def delete_host_aggregates(self, uuids: Sequence[str]) -> None:
        """See ComputeClient."""
        await host_aggregates.delete_host_aggregates(self._compute, uuids)

    async def set_segment_aggregates(
        self, aggregates_by_host: Mapping[str, frozenset[str]], *, managed: frozenset[str]
    ) -> None:
        """See ComputeClient."""
        await host_aggregates.set_segment_aggregates(self._compute, aggregates_by_host, managed=managed)

    async def get_server_states(self, server_ids: Sequence[str]) -> dict[str, ServerState]:
        """See ComputeClient."""
        return await work.get_server_states(self._compute, server_ids)

    async def list_segment_aggregates(self) -> dict[str, HostAggregateMembers]:
        """See ComputeClient."""
        found = await host_aggregates.list_host_aggregates(self._compute)
        return {item.uuid: HostAggregateMembers(item.name, frozenset(item.hosts)) for item in found}

    async def list_hosts_behind(self) -> set[str]:
        """See ComputeAudit."""
        return await host_service.list_behind(self._compute)

    async def get_heartbeats(self, hosts: Sequence[str]) -> dict[str, HostHeartbeat]:
        """See ComputeClient."""
        known = await host_service.list_hosts(self._compute, hosts)
        return {host.name: HostHeartbeat(seen_at=host.seen_at, up=not host.down) for host in known}

    async def ports_changed(self, changes: Sequence[PortsChange]) -> None:
        """See ComputeClient."""
        await nics.ports_changed(self._compute, changes)
