"""The compute service next door."""

from collections.abc import Sequence

from roost.clients.local import Local, method
from roost.compute.service import Compute, aggregates, hosts, nics, recovery, work
from roost.seams.compute import HostAggregateMembers, HostHeartbeat


class LocalCompute(Local[Compute]):
    """Implements roost.seams.audit.AuditedCompute."""

    ensure_host_aggregates = method(aggregates.ensure_host_aggregates)
    delete_host_aggregates = method(aggregates.delete_host_aggregates)
    set_segment_aggregates = method(aggregates.set_segment_aggregates)
    get_server_states = method(work.get_server_states)
    ports_changed = method(nics.ports_changed)
    list_hosts_behind = method(hosts.list_behind)
    tell_recovery = method(recovery.tell_recovery)

    async def list_host_aggregates(self) -> dict[str, HostAggregateMembers]:
        """See ComputeClient.list_host_aggregates."""
        known = await aggregates.list_host_aggregates(self.service)
        return {item.uuid: HostAggregateMembers(item.name, frozenset(item.hosts)) for item in known}

    async def get_heartbeats(self, names: Sequence[str]) -> dict[str, HostHeartbeat]:
        """See ComputeClient.get_heartbeats."""
        known = await hosts.list_hosts(self.service, names)
        return {host.name: HostHeartbeat(seen_at=host.seen_at, up=not host.down) for host in known}
