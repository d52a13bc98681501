"""The cloud that would be: reads what a change of it concerns, and places the servers of drained hosts elsewhere."""

import asyncio
from collections.abc import Mapping
from functools import partial
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from roost.compute.model.server import Server, ServerFilter
from roost.compute.service.aggregates import list_with_metadata
from roost.compute.service.servers import list_servers
from roost.network.service.moves import read_ports
from roost.network.service.views import find_networks, get_networks
from roost.placement.search.index import Index
from roost.scheduling.host_aggregates import aggregates_asked
from roost.scheduling.request import build_request
from roost.seams.network import ServerNics
from roost.seeing.rules.trials import Leaving, fit_elsewhere
from roost.seeing.rules.what_if import WhatIf, change
from roost.seeing.service.context import Seeing
from roost.seeing.service.questions import copy_index


class CloudChanged(Struct, frozen=True):
    """The index of the cloud that would be. hosts_drained: by name; servers_staying: id -> name, without a place."""

    index: Index
    hosts_drained: tuple[str, ...] = ()
    servers_moved: int = 0
    servers_staying: Mapping[str, str] = {}


async def read_cloud(seeing: Seeing, what_if: WhatIf | None) -> CloudChanged:
    """Return the cloud as it is, or as it would be.

    Raises NotFound for networks, segments and hosts that there are not, LedgerElsewhere.
    """
    networks = await find_networks(seeing.networks, what_if.networks) if what_if and what_if.networks else []
    index = await copy_index(seeing)
    if what_if is None:
        return CloudChanged(index)
    drained = change(index, what_if, networks)
    servers = [server for host in drained for server in await _list_on(seeing, host)]
    if not servers:
        return CloudChanged(index, tuple(drained))
    leaving = await _read_requests(seeing, servers)
    random = Random(seeing.env.random.randrange(2**32))
    elsewhere = await asyncio.to_thread(partial(fit_elsewhere, index, leaving, random, seeing.placing))
    names = {server.id: server.name for server in servers}
    staying = {server_id: names[server_id] for server_id in elsewhere.refused}
    return CloudChanged(elsewhere.index, tuple(drained), len(elsewhere.hosts), staying)


async def _list_on(seeing: Seeing, host: str) -> list[Server]:
    """Return all servers of a host."""
    servers: list[Server] = []
    while True:
        marker = servers[-1].id if servers else None
        page = await list_servers(seeing.compute, ServerFilter(host=host), marker=marker)
        servers += page
        if not page:
            return servers


async def _read_requests(seeing: Seeing, servers: list[Server]) -> list[Leaving]:
    """Return what each server would ask of another host: its ports keep their addresses."""
    nics = [ServerNics(server_id=s.id, project_id=s.project_id, nics=s.spec.nics) for s in servers]
    ports = {answer.server_id: answer.ports for answer in await read_ports(seeing.networks, nics)}
    ids = sorted({port.network_id for ports_of_server in ports.values() for port in ports_of_server})
    networks = await get_networks(seeing.networks, ids)
    aggregates = await list_with_metadata(seeing.compute)
    leaving = []
    for server in servers:
        request = build_request(
            replace(server.spec, forced_host=None),
            [port for port in ports[server.id] if port.network_id in networks],
            networks,
            aggregates=aggregates_asked(
                aggregates,
                zone=server.spec.availability_zone,
                default_zone=seeing.compute.settings.default_availability_zone,
                project_id=server.project_id,
            ),
        )
        leaving.append(Leaving(server_id=server.id, request=request))
    return leaving
