"""GET and PUT /hosts, Roost's own: hosts as an operator declares them, before their agents are there."""

from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request

from roost.compute.api.answers import HostNames
from roost.compute.api.policies import SERVICE
from roost.compute.model.work import GUEST_CHANNEL
from roost.compute.rules.host_names import check_host_names
from roost.compute.service import Compute, guests, hosts
from roost.platform.bodies import SET, read_json
from roost.platform.operations import Operation, Operations, Rule
from roost.seams.agent import HOSTS_MAX, HostReport


class DeclaredHostsBody(Struct):
    """Hosts as an operator declares them."""

    hosts: Annotated[list[HostReport], Meta(max_length=HOSTS_MAX)]


def declared_host_operations(compute: Compute) -> Operations:
    """Return the operations of hosts as operators declare them."""

    async def list_hosts(_request: Request) -> dict[str, Any]:
        return {"hosts": await guests.list_host_names(compute, declared_only=False)}

    async def declare_hosts(request: Request) -> dict[str, Any]:
        body = await read_json(request, DeclaredHostsBody, SET)
        check_host_names(host.name for host in body.hosts)
        declared = await hosts.register_hosts(compute, body.hosts, agent=None)
        compute.wake(GUEST_CHANNEL)  # a fleet that polls for every declared host has new ones
        return {"hosts": [host.name for host in declared]}

    return {
        "/hosts": {
            "GET": Operation(
                summary="the names of all hosts",
                endpoint=list_hosts,
                rule=Rule("roost:hosts:list", SERVICE),
                result=HostNames,
            ),
            "PUT": Operation(
                summary="declare hosts, with what they have and reach",
                endpoint=declare_hosts,
                rule=Rule("roost:hosts:declare", SERVICE),
                body=DeclaredHostsBody,
                result=HostNames,
                errors=(409,),
            ),
        }
    }
