"""The cloud that would be: reads what a change of it concerns, and places the servers of drained hosts elsewhere."""

import asyncio
from collections.abc import Mapping
from functools import partial
from random import Random

from msgspec import Struct

from roost.compute.model.server import Server, ServerFilter
from roost.compute.service.servers import list_servers
from roost.network.service.views import find_networks
from roost.placement.search.index import Index
from roost.seeing.rules.trials import Leaving, fit_elsewhere
from roost.seeing.rules.what_if import WhatIf, change
from roost.seeing.service.context import Seeing
from roost.seeing.service.leaving import read_request_parts
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
    drained = await asyncio.to_thread(change, index, what_if, networks)
    servers = [server for host in drained for server in await _list_on(seeing, host)]
    if not servers:
        return CloudChanged(index, tuple(drained))
    parts = await read_request_parts(seeing, servers)
    leaving = [Leaving(server_id=server.id, request=parts.request(server)) for server in servers]
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
