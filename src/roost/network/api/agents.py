"""The agents of hosts and the availability zones, to be read. Source: extensions agent and availability_zone.

Roost's agents come with their hosts: nobody adds, changes or deletes one here.
"""

from typing import Any, Literal

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from roost.network.api import listing
from roost.network.api.documents import show_time
from roost.network.api.fields import Time, Uuid
from roost.network.api.policies import ADMIN
from roost.network.api.resources import Collection, list_answer, list_query
from roost.network.errors import AgentNotFound
from roost.network.model.networks import AGENT_BINARY, AGENT_TYPE, Agent
from roost.network.service import Networks
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


def _document(agent: Agent) -> AgentDocument:
    return AgentDocument(
        id=agent.id,
        host=agent.host.name,
        alive=agent.alive,
        heartbeat_timestamp=None if agent.seen_at is None else show_time(agent.seen_at),
        configurations={"physical_networks": sorted(agent.host.physical_networks), "cell": agent.host.cell},
    )


AGENT = Collection(
    name="agent",
    plural="agents",
    document=AgentDocument,
    missing=AgentNotFound,
    find=service.list_agents,
    show=_document,
    defaults={"get": ADMIN},
)


def agent_operations(context: Networks) -> Operations:
    """Return the operations of all agents, of one, and of the zones."""

    async def list_zones(request: Request) -> Response:
        zones = [ZoneDocument(state="available" if await service.is_any_alive(context) else "unavailable")]
        return json_response({"availability_zones": listing.select(zones, request, ZoneDocument, key="name")})

    summary = "the agents of all hosts, and whether they are alive"
    return {
        "/v2.0/agents": {"GET": AGENT.list_operation(context, summary)},
        "/v2.0/agents/{id}": {"GET": AGENT.show_operation(context)},
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
