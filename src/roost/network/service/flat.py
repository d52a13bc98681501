"""Flat networks of the legacy kind: whether servers can have their NICs there, before and after a host is chosen."""

from collections.abc import Sequence

from roost.network.model.networks import Subnet
from roost.network.rules import flat
from roost.network.service import Networks
from roost.network.store import addresses as store
from roost.network.store import networks as network_rows
from roost.network.store import subnets as subnet_rows
from roost.seams import network as seam


async def check_nics(
    networks: Networks, servers: Sequence[seam.ServerNics]
) -> tuple[flat.Pools, dict[str, seam.PortsRefused]]:
    """Return the pools of the servers' flat networks, and by server id who cannot have an address there."""
    ids = sorted({nic.network_id for server in servers for nic in server.nics if nic.network_id})
    async with networks.database.connection() as connection:
        known = [network.id for network in await network_rows.list_networks(connection, ids) if network.flat]
        if not known:
            return {}, {}
        pools: dict[str, list[Subnet]] = {network_id: [] for network_id in known}
        for pool in await subnet_rows.list_subnets(connection, network_ids=known):
            pools[pool.network_id].append(pool)
        named = [(n.network_id, n.fixed_ip) for server in servers for n in server.nics if n.network_id and n.fixed_ip]
        taken = await store.list_holders(connection, [pair for pair in named if pair[0] in pools])
    reasons = {server.server_id: flat.refuse_nics(server, pools, taken) for server in servers}
    return pools, {server_id: seam.PortsRefused(server_id, reason) for server_id, reason in reasons.items() if reason}
