"""The agents of hosts, as the network service knows them; whether they are there, the compute service knows."""

from collections.abc import Sequence

from roost.network.model.networks import Agent, ListQuery
from roost.network.service import Networks, lists
from roost.network.store import networks as store
from roost.seams.compute import HostHeartbeat

AGENTS_AT_ONCE = 500
"""How many agents are read at a time, until one is alive."""


async def list_agents(networks: Networks, ids: Sequence[str]) -> list[Agent]:
    """Return the agents that exist, by host. Costs one row for each, in both services."""
    async with networks.database.connection() as connection:
        hosts = await store.list_agents(connection, ids)
    heartbeats = await networks.compute.get_heartbeats([host.name for _, host in hosts])
    never = HostHeartbeat(seen_at=None, up=False)
    beats = [(agent_id, host, heartbeats.get(host.name, never)) for agent_id, host in hosts]
    return [Agent(id=agent_id, host=host, seen_at=beat.seen_at, alive=beat.up) for agent_id, host, beat in beats]


async def is_any_alive(networks: Networks) -> bool:
    """Return whether some agent is alive. Cost grows with the dead ones before it."""
    query = ListQuery(limit=AGENTS_AT_ONCE)
    while rows := await lists.list_rows(networks, "agent", query):
        if any(agent.alive for agent in await list_agents(networks, [row.id for row in rows])):
            return True
        query = ListQuery(limit=AGENTS_AT_ONCE, after=rows[-1].position)
    return False
