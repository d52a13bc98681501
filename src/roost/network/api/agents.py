"""The agents of hosts and the availability zones, to be read. Source: extensions agent and availability_zone.

Roost's agents come with their hosts: nobody adds, changes or deletes one here.
"""

from typing import Any, Literal

from msgspec import Struct
from starlette.requests import Request

from roost.network.api.listing import Collection
from roost.network.api.policies import ADMIN
from roost.network.api.resources import get_few, list_operation, show_operation
from roost.network.errors import AgentNotFound
from roost.network.model.networks import AGENT_BINARY, AGENT_TYPE, Agent, Uuid
from roost.network.rules.documents import Time
from roost.network.service import Networks
from roost.network.service import agents as service
from roost.platform.operations import Operations, Rule
from roost.platform.times import show_seconds


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
        heartbeat_timestamp=None if agent.seen_at is None else show_seconds(agent.seen_at),
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

    async def list_zones(_request: Request) -> list[ZoneDocument]:
        return [ZoneDocument(state="available" if await service.is_any_alive(context) else "unavailable")]

    summary = "the agents of all hosts, and whether they are alive"
    return {
        "/v2.0/agents": {"GET": list_operation(context, AGENT, summary)},
        "/v2.0/agents/{id}": {"GET": show_operation(context, AGENT, "one agent")},
        "/v2.0/availability_zones": {
            "GET": get_few(
                "availability_zones",
                ZoneDocument,
                list_zones,
                key="name",
                summary="the one availability zone, available while an agent is alive",
                rule=Rule("get_availability_zone", f"{ADMIN} or role:reader"),
            )
        },
    }
