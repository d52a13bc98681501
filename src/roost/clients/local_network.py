"""The network service as its neighbours in the same process see it."""

from collections.abc import Mapping, Sequence

from roost.network.service import Networks, builds, publications, views
from roost.seams.network import (
    AttachedPort,
    BindRefused,
    Bound,
    EnsuredPorts,
    HostReach,
    NetworkView,
    PortBind,
    PortsRefused,
    ServerNics,
)


class LocalNetwork:
    """roost.seams.audit.AuditedNetwork over the network service next door."""

    def __init__(self, networks: Networks) -> None:
        self._networks = networks

    async def get_networks(self, network_ids: Sequence[str]) -> dict[str, NetworkView]:
        """See NetworkClient."""
        return await views.get_networks(self._networks, network_ids)

    async def list_network_ids(self, *, limit: int, project_id: str | None) -> list[str]:
        """See NetworkClient."""
        return await views.list_network_ids(self._networks, limit, project_id)

    async def get_port_projects(self, port_ids: Sequence[str]) -> dict[str, str]:
        """See NetworkClient."""
        return await views.get_port_projects(self._networks, port_ids)

    async def ensure_ports(
        self, servers: Sequence[ServerNics], *, placed: bool = False
    ) -> list[EnsuredPorts | PortsRefused]:
        """See NetworkClient."""
        return await builds.ensure_ports(self._networks, servers, placed=placed)

    async def bind_ports(self, binds: Sequence[PortBind]) -> list[Bound | BindRefused]:
        """See NetworkClient."""
        return await builds.bind_ports(self._networks, binds)

    async def unassign_ports(self, revisions: Mapping[str, int]) -> None:
        """See NetworkClient."""
        await builds.unassign_ports(self._networks, revisions)

    async def settle_ports(self, server_ids: Sequence[str]) -> None:
        """See NetworkClient."""
        await builds.settle_ports(self._networks, server_ids)

    async def release_ports(self, servers: Sequence[ServerNics], *, restore: bool) -> None:
        """See NetworkClient."""
        await builds.release_ports(self._networks, servers, restore=restore)

    async def set_hosts(
        self, physical_networks_by_host: Mapping[str, Sequence[str]], *, cells_by_host: Mapping[str, str] | None = None
    ) -> None:
        """See NetworkClient."""
        await publications.set_hosts(self._networks, physical_networks_by_host, cells_by_host or {})

    async def get_hosts(self, names: Sequence[str]) -> dict[str, HostReach]:
        """See NetworkAudit."""
        return await views.get_hosts(self._networks, names)

    async def list_noticed_servers(self, server_ids: Sequence[str]) -> set[str]:
        """See NetworkAudit."""
        return await views.list_noticed_servers(self._networks, server_ids)

    async def list_unsettled_aggregates(self) -> set[str]:
        """See NetworkAudit."""
        return await views.list_unsettled_aggregates(self._networks)

    async def list_attached_ports(self, server_ids: Sequence[str]) -> dict[str, tuple[AttachedPort, ...]]:
        """See NetworkClient."""
        return await views.list_attached_ports(self._networks, server_ids)

    async def get_segment_names(self, provider_uuids: Sequence[str]) -> dict[str, str]:
        """See NetworkClient."""
        return await views.get_segment_names(self._networks, provider_uuids)
