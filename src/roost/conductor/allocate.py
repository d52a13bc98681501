"""The stage after `place` of servers on flat networks of the legacy kind: they get the addresses that they claimed.

Cell by cell: a pool belongs to a cell, and a conductor may be one of some cells only. Those networks have no ports; the
server's own claim holds its addresses, so here is also what `place` and `bind` need to know of such NICs.
"""

from collections.abc import Iterable, Sequence

import msgspec

from roost.compute.model import Failure, Move, Stage
from roost.compute.service.work import get_host_cells
from roost.conductor.context import Build, Lease, moved
from roost.platform.crash import crash_point
from roost.seams.network import Allocated, FlatNic, FlatNics, FlatWanted, Port
from roost.seams.placement import IPV4_ADDRESS, ConsumerState


async def allocate(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Assign what was claimed at `place`; a server that cannot have it is sent back to `place`, or ends in ERROR."""
    cells = await get_host_cells(lease.conductor.compute, sorted({_host(build) for build in builds}))
    builds_by_cell: dict[str, list[Build]] = {}
    for build in builds:
        builds_by_cell.setdefault(cells.get(_host(build), ""), []).append(build)
    moves: list[Move] = []
    for cell, group in sorted(builds_by_cell.items()):
        moves += await _allocate_in(lease, cell, group)
    return (await lease.advance(builds, moves)).going_on


async def own_cells(lease: Lease, hosts: Iterable[str]) -> set[str]:
    """Those of the hosts with whose servers this conductor goes on itself: all, unless it is one of some cells only."""
    mine = lease.conductor.settings.cells
    if not mine:
        return set(hosts)
    cells = await get_host_cells(lease.conductor.compute, sorted(set(hosts)))
    return {host for host, cell in cells.items() if cell in mine}


async def read_flat_nics(lease: Lease, builds: Iterable[tuple[Build, Sequence[Port]]]) -> dict[str, FlatNics]:
    """What servers have on flat networks, by server id; those with a port for every NIC are not asked about."""
    asked = [build.nics for build, ports in builds if len(ports) < len(build.work.spec.nics)]
    answers = await lease.conductor.network.get_flat_nics(asked) if asked else []
    return {answer.server_id: answer for answer in answers}


def with_claims(nics: Sequence[FlatNic], consumer: ConsumerState | None) -> tuple[FlatNic, ...]:
    """The NICs with the pool of their claim, where the server has claimed an address that it has not got yet."""
    if consumer is None:
        return tuple(msgspec.structs.replace(nic, address=None, provider_uuid=None) for nic in nics)
    left = {uuid: resources.get(IPV4_ADDRESS, 0) for uuid, resources in consumer.allocations.items()}
    known: dict[str, FlatNic] = {}
    # NICs with an address are sure of their pool, and those with one pool have no other: the rest take what is left.
    for nic in sorted(nics, key=lambda nic: (nic.address is None, len(nic.pools))):
        pools = (nic.provider_uuid,) if nic.provider_uuid is not None else nic.pools
        pool = next((pool for pool in pools if left.get(pool, 0) > 0), None)
        if pool is not None:
            left[pool] -= 1
        kept = nic if pool is not None else msgspec.structs.replace(nic, address=None)
        known[nic.tag] = msgspec.structs.replace(kept, provider_uuid=pool)
    return tuple(known[nic.tag] for nic in nics)


def _host(build: Build) -> str:
    assert build.work.placed is not None, "place comes before allocate"
    return build.work.placed.host


async def _allocate_in(lease: Lease, cell: str, builds: Sequence[Build]) -> list[Move]:
    """The servers on hosts of one cell, from the pools of that cell."""
    wanted = [_wanted(build) for build in builds]
    crash_point("allocate.before-assign")
    answers = await lease.conductor.network.allocate_flat(cell, wanted)
    crash_point("allocate.after-assign")
    moves = []
    for build, answer in zip(builds, answers, strict=True):
        work, host = build.work, _host(build)
        if isinstance(answer, Allocated):
            moves.append(moved(work, Stage.BIND, keep=True))
        elif answer.final:
            moves.append(moved(work, Stage.FAIL, failure=Failure(message=answer.reason, host=host), keep=True))
        else:
            failure = Failure(message=f"no address was assigned on {host}: {answer.reason}", host=host)
            excluded = (*work.excluded_hosts, host)
            moves.append(
                moved(
                    work,
                    Stage.RETRY,
                    failures=work.failures + 1,
                    excluded_hosts=excluded,
                    failure=failure,
                    keep=True,
                )
            )
    return moves


def _wanted(build: Build) -> FlatWanted:
    placed = build.work.placed
    assert placed is not None, "place comes before allocate"
    return FlatWanted(
        server_id=build.work.server_id,
        ticket=placed.ticket,
        pools_by_tag=placed.pools_by_tag,
        fixed_ips_by_tag={
            nic.tag: nic.fixed_ip for nic in build.work.spec.nics if nic.fixed_ip and nic.tag in placed.pools_by_tag
        },
    )
