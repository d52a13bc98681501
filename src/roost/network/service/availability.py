"""Counts the addresses that networks have, and those that ports hold: for the API, and cli/serving/address_metrics."""

from collections.abc import Collection, Sequence

from roost.network.errors import NetworkNotFound
from roost.network.rules import availability as rules
from roost.network.rules.availability import NetworkAvailability
from roost.network.rules.revisions import pick
from roost.network.service import Networks
from roost.network.store import addresses, ports
from roost.network.store import networks as network_rows
from roost.platform.database import reading


async def list_availabilities(
    networks: Networks, network_ids: Sequence[str] | None = None, *, ip_versions: Collection[int] = ()
) -> list[NetworkAvailability]:
    """Return the networks that exist, or all, by id, as of one instant.

    ip_versions: only subnets of these count; empty for all. Costs one count over the addresses that the networks hold.
    """
    async with networks.database.transaction(snapshot=True) as tx:
        networks_there = await network_rows.list_networks(tx, network_ids)
        subnets = await network_rows.list_subnets(tx, network_ids=[network.id for network in networks_there])
        counts_held = await addresses.count_held(tx, [subnet.id for subnet in subnets])
    return rules.availabilities(networks_there, subnets, counts_held, ip_versions=ip_versions)


async def get_availability(networks: Networks, network_id: str) -> NetworkAvailability:
    """Return one network's. Raises NetworkNotFound."""
    return pick(await list_availabilities(networks, [network_id]), NetworkNotFound, "Network", network_id)


count_ports_without_address = reading(ports.count_without_address)
