"""The agents of hosts and the availability zones, to be read. Source: extensions agent and availability_zone.

Roost's agents come with their hosts: nobody adds, changes or deletes one here.
"""

from functools import partial
from typing import Any, Literal

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from roost.network.api import listing
from roost.network.api.documents import Time, Uuid, show_time
from roost.network.api.policies import ADMIN
from roost.network.api.protocol import path_id
from roost.network.api.resources import SHOW_QUERY, answer, list_answer, list_query
from roost.network.errors import AgentNotFound
from roost.network.model.networks import AGENT_BINARY, AGENT_TYPE, Agent
from roost.network.service import Networks, lists
from roost.network.service import agents as service
from roost.platform.http import json_response
from roost.platform.operations import Operation, Operations, Rule


class AgentDocument(Struct, kw_only=True, forbid_unknown_fields=True):
    """The agent of one host. configurations: what the host reaches, and its cell."""

    id: Uuid
    agent_type: Literal["Roost agent"] = AGENT_TYPE
    binary: Literal["roost-agent"] = AGENT_BINARY
    topic: Literal["roost-agent"] = AGENT_BINARY
    host: str
    admin_state_up: bool = True
    alive: bool
    heartbeat_timestamp: Time | None
    availability_zone: None = None
    description: None = None
    configurations: dict[str, Any]


class ZoneDocument(Struct, kw_only=True, forbid_unknown_fields=True):
    """One availability zone, of networks."""

    name: Literal["nova"] = "nova"
    resource: Literal["network"] = "network"
    state: Literal["available", "unavailable"]


def agent_operations(context: Networks) -> Operations:
    """Of all agents, of one, and of the zones."""
    read = listing.reader(context, "agent", partial(service.list_agents, context), _agent)

    async def list_agents(request: Request) -> Response:
        return await listing.answer(request, "agent", "agents", AgentDocument, read)

    async def show_agent(request: Request) -> Response:
        agent = await service.get_agent(context, path_id(request, "Agent", AgentNotFound))
        return json_response({"agent": listing.show_fields(_agent(agent), request)})

    async def list_zones(request: Request) -> Response:
        zones = [ZoneDocument(state="available" if await service.is_any_alive(context) else "unavailable")]
        return json_response({"availability_zones": listing.select(zones, request, ZoneDocument, key="name")})

    return {
        "/v2.0/agents": {
            "GET": Operation(
                summary="the agents of all hosts, and whether they are alive",
                endpoint=list_agents,
                rule=Rule("get_agent", ADMIN),
                query=list_query(AgentDocument, sorted_by=lists.SORTED["agent"]),
                result=list_answer("agents", AgentDocument),
            )
        },
        "/v2.0/agents/{id}": {
            "GET": Operation(
                summary="one agent",
                endpoint=show_agent,
                rule=Rule("get_agent", ADMIN),
                query=SHOW_QUERY,
                result=answer("agent", AgentDocument),
            )
        },
        "/v2.0/availability_zones": {
            "GET": Operation(
                summary="the one availability zone, available while an agent is alive",
                endpoint=list_zones,
                rule=Rule("get_availability_zone", f"{ADMIN} or role:reader"),
                query=list_query(ZoneDocument),
                result=list_answer("availability_zones", ZoneDocument),
            )
        },
    }


def _agent(agent: Agent) -> AgentDocument:
    return AgentDocument(
        id=agent.id,
        host=agent.host.name,
        alive=agent.alive,
        heartbeat_timestamp=None if agent.seen_at is None else show_time(agent.seen_at),
        configurations={"physical_networks": sorted(agent.host.physical_networks), "cell": agent.host.cell},
    )
