"""What agents are told of the NICs of the guests that they make."""

from collections.abc import Sequence

from roost.network.rules.nics import describe_nic
from roost.network.service import Networks
from roost.network.store import nics as store
from roost.network.store import subnets as subnet_rows
from roost.seams.guests import NicNetwork


async def get_nic_networks(networks: Networks, port_ids: Sequence[str]) -> dict[str, NicNetwork]:
    """See NicClient.get_nic_networks."""
    async with networks.database.transaction(snapshot=True) as tx:
        nics = await store.list_nics(tx, port_ids)
        network_ids = sorted({nic.network_id for nic in nics})
        subnets = await subnet_rows.list_subnets(tx, network_ids=network_ids) if network_ids else []
    return {nic.port_id: describe_nic(nic, subnets) for nic in nics}
