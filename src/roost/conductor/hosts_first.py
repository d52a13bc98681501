"""Placing with `ip_aware = false`: a host is chosen that reaches the networks, then addresses are looked for there.

So does the specification of routed networks: a full segment is found out about on the host, and the server is tried
elsewhere. What is claimed is the same, and still in one step.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from roost.conductor.context import Lease
from roost.conductor.resume import HostSearch
from roost.scheduling.filters import apply_filters
from roost.scheduling.request import Request, alternatives, build_query
from roost.scheduling.selection import join
from roost.seams.compute import ForcedHost
from roost.seams.placement import Candidate


async def add_addresses(
    lease: Lease, chosen: Sequence[tuple[Request, HostSearch, Candidate, str]]
) -> list[tuple[HostSearch, Candidate, str]]:
    """Return for each server its candidate with addresses, on the host that was chosen; note which hosts have none.

    chosen: with the request before it was narrowed, and the name of the host.
    """
    settings = replace(lease.conductor.scheduling, ip_aware=True)
    requests_by_server: list[list[Request]] = []
    for request, _, candidate, host in chosen:
        request_on_host = replace(request, forced_host=ForcedHost(name=host, provider_uuid=candidate.root_uuid))
        narrowed = [apply_filters(kind, settings) for kind in alternatives(request_on_host)]
        requests_by_server.append([request for request in narrowed if request.impossible is None])
    queries = [build_query(request, limit=1) for requests in requests_by_server for request in requests]
    answers = iter(await lease.conductor.placement.candidates(queries) if queries else [])
    with_addresses = []
    for (_, search, _, host), requests in zip(chosen, requests_by_server, strict=True):
        candidates = join([next(answers) for _ in requests]).candidates if requests else ()
        if candidates:
            with_addresses.append((search, candidates[0], host))
        else:
            search.full_host = host
    return with_addresses
