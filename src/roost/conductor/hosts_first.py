"""Placing with `ip_aware = false`: a host is chosen that reaches the networks, then addresses are looked for there.

So does the specification of routed networks: a full segment is found out about on the host, and the server is tried
elsewhere. What is claimed is the same, and still in one step.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from roost.conductor.context import Lease
from roost.conductor.resume import HostChosen
from roost.scheduling.filters import narrow
from roost.scheduling.request import Request, build_query
from roost.scheduling.selection import join
from roost.seams.compute import ForcedHost


async def add_addresses(lease: Lease, chosen: Sequence[HostChosen]) -> list[HostChosen]:
    """Return them with candidates that have addresses, on the same hosts; note which hosts have none."""
    settings = replace(lease.conductor.scheduling, ip_aware=True)
    requests_by_server: list[list[Request]] = []
    for _, request, candidate, host in chosen:
        request_on_host = replace(request, forced_host=ForcedHost(name=host, provider_uuid=candidate.root_uuid))
        requests_by_server.append([kind for kind in narrow(request_on_host, settings) if kind.impossible is None])
    queries = [build_query(request, limit=1) for requests in requests_by_server for request in requests]
    answers = iter(await lease.conductor.placement.candidates(queries) if queries else [])
    with_addresses = []
    for choice, requests in zip(chosen, requests_by_server, strict=True):
        candidates = join([next(answers) for _ in requests]).candidates if requests else ()
        if candidates:
            with_addresses.append(choice._replace(candidate=candidates[0]))
        else:
            choice.search.full_host = choice.host
    return with_addresses
