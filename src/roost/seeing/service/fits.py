"""Which servers of a drain find no host, asked of the ledger for all of them together; nothing is claimed."""

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from roost.compute.model.cloud import HostAggregate
from roost.compute.model.departures import Departure
from roost.compute.service.aggregates import list_with_metadata
from roost.compute.service.hosts import count_closed_hosts, list_empty_aggregates
from roost.network.service.moves import read_ports
from roost.network.service.views import get_networks
from roost.scheduling.explain import ClosedHosts, addresses_asked, explain
from roost.scheduling.filters import apply_filters
from roost.scheduling.host_aggregates import aggregates_asked
from roost.scheduling.request import Request, alternatives, build_query, build_request, reached_through
from roost.seams.network import NetworkView, Port, ServerNics
from roost.seeing.rules.fits import Alike, Fit, find_crowd, fit_all
from roost.seeing.service.context import Seeing

CANDIDATES_MAX = 20_000
"""Of one search: more than there are hosts in a large cloud."""


async def find_no_room(
    seeing: Seeing, departures: Sequence[Departure], *, closed: Sequence[str], readdress: bool
) -> dict[str, str]:
    """Return server id -> why no host has room for it; those that fit are left out.

    departures: in the order in which they go. closed: hosts that are left out. readdress: servers that find no host
    with the addresses that they have are placed again without those on routed networks.
    """
    if not departures:
        return {}
    servers = [departure.server for departure in departures]
    nics = [ServerNics(server_id=s.id, project_id=s.project_id, nics=s.spec.nics) for s in servers]
    ports = {answer.server_id: answer.ports for answer in await read_ports(seeing.networks, nics)}
    network_ids = {port.network_id for ports_of_server in ports.values() for port in ports_of_server}
    networks = await get_networks(seeing.networks, sorted(network_ids))
    aggregates = await list_with_metadata(seeing.compute)
    requests = {
        departure.server_id: _request(seeing, departure, ports[departure.server_id], networks, aggregates)
        for departure in departures
    }
    fits = await _fit(seeing, requests, closed)
    if readdress:
        hosts = {server_id: host for fit in fits for server_id, host in fit.hosts.items()}
        freed = {
            departure.server_id: _request(
                seeing, departure, _free(ports[departure.server_id], networks), networks, aggregates, leaves=True
            )
            for departure in departures
            if departure.server_id not in hosts
        }
        # Those that fit keep what they have: they are placed first again.
        fits = await _fit(seeing, {key: requests[key] for key in hosts} | freed, closed)
    reasons: dict[str, str] = {}
    for fit in fits:
        reasons |= await _explain(seeing, fit, ports)
    return reasons


def _request(
    seeing: Seeing,
    departure: Departure,
    ports: Sequence[Port],
    networks: Mapping[str, NetworkView],
    aggregates: Sequence[HostAggregate],
    *,
    leaves: bool = False,
) -> Request:
    """Return the request as the conductor builds it for a move. A port whose network is just gone asks for nothing."""
    server = departure.server
    return build_request(
        replace(server.spec, forced_host=None),
        [port for port in ports if port.network_id in networks],
        networks,
        free_to_leave=leaves,
        aggregates=aggregates_asked(
            aggregates,
            zone=server.spec.availability_zone,
            default_zone=seeing.compute.settings.default_availability_zone,
            project_id=server.project_id,
        ),
    )


def _free(ports: Sequence[Port], networks: Mapping[str, NetworkView]) -> list[Port]:
    """Return the ports as a host is sought for them by servers that may get other addresses."""
    return [
        replace(port, pinned=False, tag=port.tag or port.id)
        if port.addresses and not port.pools and port.network_id in networks and networks[port.network_id].routed
        else port
        for port in ports
    ]


async def _fit(seeing: Seeing, requests: Mapping[str, Request], closed: Sequence[str]) -> list[Fit]:
    """Search once for each request that differs, and place all servers in order."""
    ids_by_request: dict[Request, list[str]] = {}
    for server_id, request in requests.items():
        ids_by_request.setdefault(request, []).append(server_id)
    settings = seeing.scheduling
    kinds = {
        request: [apply_filters(kind, settings) for kind in (alternatives(request) if settings.ip_aware else [request])]
        for request in ids_by_request
    }
    possible = [kind for kinds_of_request in kinds.values() for kind in kinds_of_request if kind.impossible is None]
    queries = [build_query(kind, limit=CANDIDATES_MAX) for kind in possible]
    answers = iter(await seeing.compute.placement.candidates(queries) if queries else [])
    groups = [
        Alike(
            tuple((kind, next(answers) if kind.impossible is None else None) for kind in kinds[request]),
            tuple(server_ids),
        )
        for request, server_ids in ids_by_request.items()
    ]
    return fit_all(groups, seeing.env.random, settings, closed=frozenset(closed))


async def _explain(seeing: Seeing, fit: Fit, ports: Mapping[str, tuple[Port, ...]]) -> dict[str, str]:
    """Return server id -> why it finds no host, in the words of a refused boot where that is the same."""
    if not fit.no_room:
        return {}
    if crowd := find_crowd(fit):
        return dict.fromkeys(fit.no_room, crowd)
    request = fit.alike.tried[0][0]
    networks = sorted({nic.network.id for nic in request.nics})
    aggregates = sorted({aggregate for nic in request.nics for aggregate in reached_through(nic)})
    why = partial(
        explain,
        fit.alike.tried,
        await seeing.compute.placement.list_usages(addresses_asked(request)),
        closed=ClosedHosts(*await count_closed_hosts(seeing.compute)),
        empty_aggregates=await list_empty_aggregates(seeing.compute, aggregates),
        held=await seeing.compute.network.count_held_addresses(networks) if networks else {},
    )
    return {server_id: why(ports=ports[server_id]).message for server_id in fit.no_room}
