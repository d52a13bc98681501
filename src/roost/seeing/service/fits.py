"""Which servers of a drain find no host, asked of the ledger for all of them together; nothing is claimed."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from roost.compute.model.departures import Departure
from roost.platform.grouping import grouped
from roost.scheduling.explain import addresses_asked, explain
from roost.scheduling.filters import narrow
from roost.scheduling.request import Request, build_query
from roost.seams.network import Port
from roost.seeing.rules.fits import Alike, Fit, find_crowd, place_alike
from roost.seeing.service.context import Seeing
from roost.seeing.service.leaving import read_request_parts
from roost.seeing.service.questions import read_surroundings

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
    parts = await read_request_parts(seeing, [departure.server for departure in departures])
    requests = {departure.server_id: parts.request(departure.server) for departure in departures}
    fits = await _fit(seeing, requests, closed)
    if readdress:
        hosts = {server_id: host for fit in fits for server_id, host in fit.hosts.items()}
        freed = {
            departure.server_id: parts.request(departure.server, readdresses=True)
            for departure in departures
            if departure.server_id not in hosts
        }
        # Those that fit keep what they have: they are placed first again.
        fits = await _fit(seeing, {key: requests[key] for key in hosts} | freed, closed)
    reasons: dict[str, str] = {}
    for fit in fits:
        reasons |= await _explain(seeing, fit, parts.ports)
    return reasons


async def _fit(seeing: Seeing, requests: Mapping[str, Request], closed: Sequence[str]) -> list[Fit]:
    """Search once for each request that differs, and place all servers in order; others have their turn between."""
    ids_by_request = grouped((request, server_id) for server_id, request in requests.items())
    fits: list[Fit] = []
    taken: Mapping[str, Mapping[str, int]] = {}
    for request, server_ids in ids_by_request.items():
        kinds = narrow(request, seeing.scheduling)
        queries = [build_query(kind, limit=CANDIDATES_MAX) for kind in kinds if kind.impossible is None]
        answers = iter(await seeing.compute.placement.candidates(queries) if queries else [])
        tried = tuple((kind, next(answers) if kind.impossible is None else None) for kind in kinds)
        work = partial(place_alike, Alike(tried, tuple(server_ids)), taken, seeing.env.random, seeing.scheduling)
        fitting, taken = await asyncio.to_thread(work, closed=frozenset(closed))
        fits.append(fitting)
    return fits


async def _explain(seeing: Seeing, fit: Fit, ports: Mapping[str, tuple[Port, ...]]) -> dict[str, str]:
    """Return server id -> why it finds no host, in the words of a refused boot where that is the same."""
    if not fit.no_room:
        return {}
    if crowd := find_crowd(fit):
        return dict.fromkeys(fit.no_room, crowd)
    request = fit.alike.tried[0][0]
    surroundings = await read_surroundings(seeing, request.nics)
    why = partial(
        explain,
        fit.alike.tried,
        await seeing.compute.placement.list_usages(addresses_asked(request)),
        closed=surroundings.closed,
        empty_aggregates=surroundings.empty_aggregates,
        held=surroundings.addresses_held,
    )
    return {server_id: why(ports=ports[server_id]).message for server_id in fit.no_room}
