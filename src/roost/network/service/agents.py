"""The agents of hosts, as the network service knows them; whether they are there, the compute service knows."""

import uuid

from roost.network.errors import AgentNotFound
from roost.network.model.networks import Agent
from roost.network.service import Networks
from roost.network.store import networks as store

_NAMESPACE = uuid.UUID("8a0d3c52-6f0c-5d43-9a4b-6167656e7473")


async def list_agents(networks: Networks) -> list[Agent]:
    """Return the agent of every host that was reported. Costs one row for each host, in both services."""
    async with networks.database.transaction() as tx:
        hosts = await store.list_hosts(tx)
    heartbeats = await networks.compute.get_heartbeats([host.name for host in hosts])
    agents = []
    for host in hosts:
        heartbeat = heartbeats.get(host.name)
        agents.append(
            Agent(
                id=str(uuid.uuid5(_NAMESPACE, host.name)),
                host=host,
                seen_at=heartbeat.seen_at if heartbeat else None,
                alive=heartbeat is not None and heartbeat.up,
            )
        )
    return agents


async def get_agent(networks: Networks, agent_id: str) -> Agent:
    """Return one agent. Raises AgentNotFound."""
    for agent in await list_agents(networks):
        if agent.id == agent_id:
            return agent
    raise AgentNotFound(f"Agent {agent_id} could not be found.")
