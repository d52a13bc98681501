"""Gaps in the layout of networks, such as segments that no host reaches."""

from roost.network.rules.gaps import find_gaps
from roost.network.service import Networks
from roost.network.store import networks as store
from roost.network.store import subnets


async def list_gaps(networks: Networks) -> list[str]:
    """Return a sentence for each segment or network that no host reaches, and for each host that reaches none."""
    async with networks.database.transaction(snapshot=True) as tx:
        sources = await subnets.list_sources(tx)
        hosts = await store.list_hosts(tx)
    return find_gaps(hosts, sources)
