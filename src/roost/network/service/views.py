"""What others need to know of networks, segments and ports: scheduling, agents, audits, and who looks for gaps."""

from collections.abc import Mapping, Sequence

from roost.network.errors import NetworkNotFound
from roost.network.model.networks import Network, Segment, Subnet
from roost.network.model.ports import PortFilter
from roost.network.rules import capacity, segments, uses
from roost.network.rules.flat import pool_names
from roost.network.rules.nics import describe_nic
from roost.network.rules.segments import find_gaps
from roost.network.service import Networks, pick
from roost.network.store import networks as store
from roost.network.store import notices as notice_rows
from roost.network.store import ports as port_rows
from roost.network.store import publications as publication_rows
from roost.platform.database import reading
from roost.platform.errors import Conflict
from roost.platform.grouping import grouped
from roost.platform.structs import copy_as
from roost.seams import network as seam
from roost.seams.guests import NicNetwork

HIDDEN = dict.fromkeys(("id", "project_id", "host"))
"""What nobody is told of a hidden port."""

list_network_ids = reading(store.list_network_ids)


async def get_networks(networks: Networks, network_ids: Sequence[str] | None) -> dict[str, seam.NetworkView]:
    """See NetworkClient.get_networks. network_ids: None for all."""
    async with networks.database.transaction(snapshot=True) as tx:
        networks_known = await store.list_networks(tx, network_ids)
        parts = await store.list_segments(tx, network_ids=network_ids)
        subnets = await store.list_subnets(tx, network_ids=network_ids)
    by_provider = grouped((subnet.provider_uuid, subnet) for subnet in subnets)
    return {
        network.id: copy_as(
            seam.NetworkView,
            network,
            routed=network.segmented or network.flat,
            segments=_shown(network, parts, by_provider),
            has_subnets=bool(network.subnet_ids),
        )
        for network in networks_known
    }


async def find_networks(networks: Networks, refs: Sequence[str]) -> list[seam.NetworkView]:
    """Return a network for each id or name, in order. Raises NetworkNotFound, and Conflict for a name of several."""
    async with networks.database.connection() as connection:
        known = await store.find_network_ids(connection, list(refs))
    ids = []
    for ref in refs:
        matches = [network_id for network_id, _ in known if network_id == ref]
        matches = matches or [network_id for network_id, name in known if name == ref]
        if len(matches) > 1:
            raise Conflict(f"{len(matches)} networks are called {ref}: expected the id of one: {', '.join(matches)}.")
        ids.append(pick(matches, NetworkNotFound, "Network", ref))
    views = await get_networks(networks, ids)
    return [views[network_id] for network_id in ids]


async def list_networks(networks: Networks) -> list[seam.NetworkView]:
    """Return every network, by name."""
    return sorted((await get_networks(networks, None)).values(), key=lambda network: (network.name, network.id))


async def list_noticed_servers(networks: Networks, server_ids: Sequence[str]) -> set[str]:
    """See NetworkAudit.list_noticed_servers."""
    async with networks.database.connection() as connection:
        return set(await notice_rows.list_noticed(connection, server_ids))


async def get_port_projects(networks: Networks, port_ids: Sequence[str]) -> dict[str, str]:
    """See PortClient.get_port_projects."""
    async with networks.database.transaction() as tx:
        ports = await port_rows.list_ports(tx, PortFilter(ids=tuple(port_ids)))
    return {port.id: port.project_id for port in ports}


async def get_nic_networks(networks: Networks, port_ids: Sequence[str]) -> dict[str, NicNetwork]:
    """See NicClient.get_nic_networks."""
    async with networks.database.transaction(snapshot=True) as tx:
        nics = await port_rows.list_nics(tx, port_ids)
        network_ids = sorted({nic.network_id for nic in nics})
        subnets = await store.list_subnets(tx, network_ids=network_ids) if network_ids else []
    return {nic.port_id: describe_nic(nic, subnets) for nic in nics}


async def get_hosts(networks: Networks, names: Sequence[str]) -> dict[str, seam.HostReach]:
    """See NetworkAudit.get_hosts."""
    async with networks.database.connection() as connection:
        hosts = await store.list_hosts(connection, names)
    return {host.name: seam.HostReach(host.physical_networks, host.cell) for host in hosts}


async def list_unsettled_aggregates(networks: Networks) -> set[str]:
    """See NetworkAudit.list_unsettled_aggregates."""
    async with networks.database.transaction(snapshot=True) as tx:
        due = await publication_rows.list_due(tx)
        sources = await store.list_sources(tx, sorted(due)) if due else []
    return {segments.host_aggregate(source).uuid for source in sources} | set(map(segments.segment_aggregate_uuid, due))


async def list_gaps(networks: Networks) -> list[str]:
    """Return a sentence for each segment or network that no host reaches, and for each host that reaches none."""
    async with networks.database.transaction(snapshot=True) as tx:
        return find_gaps(await store.list_hosts(tx), await store.list_sources(tx))


async def list_attached_ports(
    networks: Networks, server_ids: Sequence[str]
) -> dict[str, tuple[seam.AttachedPort, ...]]:
    """See PortClient.list_attached_ports."""
    async with networks.database.transaction(snapshot=True) as tx:
        ports = await port_rows.list_ports(tx, PortFilter(device_ids=tuple(server_ids), hidden=True))
        known = await store.list_networks(tx, sorted({port.network_id for port in ports}))
    names = {network.id: network.name for network in known}
    attached: dict[str, list[seam.AttachedPort]] = {}
    for port in ports:
        view = copy_as(
            seam.AttachedPort,
            port,
            tag=port.nic_tag or "",
            network_name=names.get(port.network_id, ""),
            addresses=tuple(item.address for item in port.addresses),
            preserve_on_delete=port.made_for is None,
            provider_uuid=port.provider_uuid,
            **(HIDDEN if port.hidden else {}),
        )
        attached.setdefault(port.device_id, []).append(view)
    return {server_id: tuple(views) for server_id, views in attached.items()}


async def list_unreached_ports(
    networks: Networks, hosts_by_server: Mapping[str, str]
) -> dict[str, tuple[seam.UnreachedPort, ...]]:
    """See PortClient.list_unreached_ports."""
    async with networks.database.transaction(snapshot=True) as tx:
        ports = await port_rows.list_ports(tx, PortFilter(device_ids=tuple(hosts_by_server), hidden=True))
        hosts = {host.name: host for host in await store.list_hosts(tx, sorted(set(hosts_by_server.values())))}
        provider_uuids = sorted({port.provider_uuid for port in ports if port.provider_uuid})
        providers = await store.list_providers(tx, provider_uuids)
        networks_known = await store.list_networks(tx, sorted({port.network_id for port in ports}))
    names = {network.id: network.name or network.id for network in networks_known}
    unreached: dict[str, tuple[seam.UnreachedPort, ...]] = {}
    for port in ports:
        provider, host_name = providers.get(port.provider_uuid or ""), hosts_by_server[port.device_id]
        if provider is None or segments.find_refusal(host_name, hosts.get(host_name), provider) is None:
            continue
        kind = "cell" if provider.cell else "segment"
        of_network = f"network {names[port.network_id]}"
        place = of_network if provider.provider_uuid == port.network_id else f"{kind} {provider.name} of {of_network}"
        addresses = tuple(item.address for item in port.addresses)
        view = seam.UnreachedPort(id=port.id, addresses=addresses, place=place)
        unreached[port.device_id] = (*unreached.get(port.device_id, ()), view)
    return unreached


def _shown(
    network: Network, parts: Sequence[Segment], by_provider: Mapping[str, Sequence[Subnet]]
) -> tuple[seam.Segment, ...]:
    """Return the pools of a flat network, the segments with subnets of a routed one, or the whole of a plain one."""
    if network.flat:
        pools = [subnet for subnets in by_provider.values() for subnet in subnets if subnet.network_id == network.id]
        names = pool_names(pools)
        return tuple(_segment(pool.id, names[pool.id], [pool]) for pool in sorted(pools, key=lambda pool: pool.id))
    if network.segmented:
        own_parts = [part for part in parts if part.network_id == network.id and part.id in by_provider]
        return tuple(_segment(part.id, part.name or part.id, by_provider[part.id]) for part in own_parts)
    aggregate = segments.plain_aggregate(network.physical_network).uuid
    return (_segment(network.id, network.name or network.id, by_provider.get(network.id, ()), aggregate),)


def _segment(
    provider_uuid: str, name: str, subnets: Sequence[Subnet], placement_aggregate: str | None = None
) -> seam.Segment:
    classes = capacity.classes(subnet for subnet in subnets if subnet.pools)
    has_automatic = any(uses.is_automatic(subnet) and uses.is_for_servers(subnet) for subnet in subnets)
    return seam.Segment(
        provider_uuid=provider_uuid,
        name=name,
        placement_aggregate=placement_aggregate or segments.segment_aggregate_uuid(provider_uuid),
        classes=classes,
        gives_addresses=bool(classes) or has_automatic,
    )
