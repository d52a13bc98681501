"""Audit of ports: whose they are, and that the ledger's claim of each is its addresses.

A port is looked at under its lock; an open intent, a release row or a build at work mean that it is under way. The
ledger is called while the ports are locked, as `releases` does and for the same reason.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from roost.network.errors import PortNotFound, RevisionNumberConstraintFailed
from roost.network.model import Port, PortFilter
from roost.network.rules import drift as rules
from roost.network.rules.holdings import claim_of, covers
from roost.network.service import Networks, builds, ports
from roost.network.service.notices import is_server_id
from roost.network.store import audit as store
from roost.network.store import claims, subnet_changes
from roost.network.store import ports as port_rows
from roost.network.store.audit import BuildPort
from roost.platform.database import Connection
from roost.seams.audit import Drift, Kind, Repairs
from roost.seams.placement import Claimed, ClaimGroup, ConsumerClaim, ConsumerState, ConsumerType

PAGE = 500
CONFIRM_MAX = 100
"""Ports that are locked at once: whoever works with one of them waits meanwhile."""

UNREACHED_MAX = 10_000
SAYS = {
    Kind.PORT_STRAY: "neither runs nor is being built",
    Kind.PORT_LATE: "runs without it",
    Kind.PORT_UNOWNED: "does not exist",
    Kind.PORT_RESERVED: "is done",
}


async def audit_server_ports(networks: Networks, *, repairs: Repairs) -> list[Drift]:
    """Ports of servers that do not exist or never ran, and reservations for builds that are done.

    A port is read before its server is asked for: a server that is at work exists before its ports do.
    """
    found: list[Drift] = []
    after = ""
    while True:
        async with networks.database.connection() as connection:
            page = await store.list_build_ports(connection, after=after, limit=PAGE)
        asked = sorted({port.device_id for port in page if is_server_id(port.device_id)})
        if asked:
            unfinished = await networks.compute.list_unfinished(asked)
            going = await networks.compute.list_claiming(asked) | unfinished
            alive = await networks.compute.list_servers(asked) | going
            fault_of = partial(_fault_of, alive=alive, going=going, unfinished=unfinished)
            suspects = {port.id: port.device_id for port in page if fault_of(port)}
            found += await _settle_suspects(networks, suspects, fault_of, repairs) if suspects else []
        if len(page) < PAGE:
            return found
        after = page[-1].id


def _fault_of(port: BuildPort, *, alive: set[str], going: set[str], unfinished: set[str]) -> Kind | None:
    """alive: servers that there are; going: those that run, or whose work is not done; unfinished: the latter."""
    if not is_server_id(port.device_id):
        return None
    if port.device_id not in going and (port.made or port.reserved):
        return Kind.PORT_STRAY
    if port.device_id not in alive:
        return Kind.PORT_UNOWNED
    if not port.reserved or port.device_id in unfinished:
        return None
    # What a server came to run with was bound before; a conductor taken for dead made or reserved this one later.
    return Kind.PORT_LATE if (port.made or port.held) and not port.bound else Kind.PORT_RESERVED


async def _settle_suspects(
    networks: Networks,
    suspects: Mapping[str, str],
    fault_of: Callable[[BuildPort], Kind | None],
    repairs: Repairs,
) -> list[Drift]:
    """Those of the ports that still are so; they are read again after their servers were asked for.

    suspects: port id -> server; a port that is another server's by now is that one's, with all that it has.
    """
    async with networks.database.connection() as connection:
        still = await store.list_build_ports(connection, after="", limit=len(suspects), ids=list(suspects))
    by_kind: dict[Kind, list[BuildPort]] = {}
    for port in still:
        kind = fault_of(port) if suspects[port.id] == port.device_id else None
        if kind is not None:
            by_kind.setdefault(kind, []).append(port)
    found: list[Drift] = []
    for kind, mine in by_kind.items():
        servers = sorted({port.device_id for port in mine})
        repairing = repairs.include(kind.mend)
        if repairing and kind is Kind.PORT_RESERVED:
            async with networks.database.transaction() as tx:
                locked = await port_rows.lock_ports(tx, sorted(port.id for port in mine))
                same = [port.id for port in mine if port.id in locked and locked[port.id].device_id == port.device_id]
                await store.settle_ports(tx, same)
        elif repairing and kind is Kind.PORT_LATE:
            for port in mine:
                if not port.made:
                    await builds.give_back_port(networks, port.id, revision=port.revision)
                    continue
                with suppress(PortNotFound, RevisionNumberConstraintFailed):  # somebody is at it: next time
                    await ports.delete_port(networks, port.id, revision=port.revision)
        elif repairing:
            await builds.release_server_ports(networks, servers, [], restore=kind is Kind.PORT_STRAY)
        says = SAYS[kind]
        found += [
            Drift(kind=kind, key=port.id, name=port.name, says=f"server {port.device_id} {says}", repaired=repairing)
            for port in mine
        ]
    return found


async def audit_holders(networks: Networks, *, repairs: Repairs) -> list[Drift]:
    """Ports with addresses that their claim does not count."""
    found: list[Drift] = []
    after = ""
    while True:
        async with networks.database.transaction(snapshot=True) as tx:
            page = await store.list_holders(tx, after=after, limit=PAGE)
            wanted = await store.list_claims(tx, page)
        held = await networks.placement.get_consumers(page)
        suspects = [port_id for port_id in wanted if not covers(_allocations(held.get(port_id)), wanted[port_id])]
        found += await _confirm(networks, suspects, {}, repairs)
        if len(page) < PAGE:
            return found
        after = page[-1]


async def audit_consumers(networks: Networks, *, repairs: Repairs) -> list[Drift]:
    """PORT claims that are larger than their ports' addresses, or of ports that do not exist."""
    found: list[Drift] = []
    after = ""
    while page := await networks.placement.list_consumers(ConsumerType.PORT.value, after=after, limit=PAGE):
        after = page[-1]
        held = await networks.placement.get_consumers(page)
        async with networks.database.transaction(snapshot=True) as tx:
            wanted = await store.list_claims(tx, list(held))
            larger = [port_id for port_id in held if not covers(wanted.get(port_id, {}), held[port_id].allocations)]
            there = await store.list_existing(tx, larger) if larger else set()
        missing = {port_id: held[port_id] for port_id in larger if port_id not in there}
        found += await _confirm(networks, sorted(there), missing, repairs)
    return found


async def audit_reach(networks: Networks, *, repairs: Repairs) -> list[Drift]:
    """Bound ports with addresses on a segment that their host reaches no more: it was cabled anew under them."""
    del repairs  # whether the cable or the server is where it should be, nobody here knows
    async with networks.database.connection() as connection:
        unreached = await store.list_unreached(connection, limit=UNREACHED_MAX)
    return [
        Drift(
            kind=Kind.PORT_UNREACHED,
            key=port.id,
            name=port.name,
            says=f"{port.address} on {port.physical_network}, which host {port.host} does not reach",
        )
        for port in unreached
    ]


async def _confirm(
    networks: Networks, suspects: Sequence[str], missing: Mapping[str, ConsumerState], repairs: Repairs
) -> list[Drift]:
    """Drift of those of the ports that nobody is at work on. missing: claims by ids that are no ports', as read.

    A port that is just being made cannot be locked: its intent is looked for before it is, for the two change places
    at once, and a claim that is not the one that was read was made since.
    """
    if not suspects and not missing:
        return []
    async with networks.database.connection() as connection:
        seen = await port_rows.list_ports(connection, PortFilter(ids=tuple(suspects))) if suspects else []
    servers = sorted({port.device_id for port in seen if is_server_id(port.device_id)})
    unfinished = await networks.compute.list_unfinished(servers) if servers else set()
    # One that was reserved, or made, since it was looked at is somebody's again.
    idle = {port.id: port.device_id for port in seen if port.device_id not in unfinished}
    ids = sorted([*idle, *missing])
    found: list[Drift] = []
    for start in range(0, len(ids), CONFIRM_MAX):
        batch = ids[start : start + CONFIRM_MAX]
        async with networks.releasing, networks.database.transaction() as tx:
            busy = await _list_busy(tx, batch)
            locked = await port_rows.lock_ports(tx, batch)
            held = await networks.placement.get_consumers(batch) if len(busy) < len(batch) else {}
            busy |= await _list_busy(tx, batch)
            # One that was made, reserved or claimed for since it was looked at is somebody's again.
            drifts = {
                port_id: drift
                for port_id in batch
                if port_id not in busy
                and (locked[port_id].device_id if port_id in locked else None) == idle.get(port_id)
                and (port_id not in missing or missing[port_id] == held.get(port_id))
                and (drift := rules.judge_claim(port_id, locked.get(port_id), _allocations(held.get(port_id))))
            }
            found += await _repair(networks, drifts, locked, held, repairs)
    return found


async def _list_busy(tx: Connection, port_ids: Sequence[str]) -> set[str]:
    """Ports whose claim is being made or given back, or whose subnet is being changed under them."""
    releasing, claiming = await claims.list_busy(tx, port_ids)
    return releasing | claiming | set(await subnet_changes.list_moving(tx, port_ids))


async def _repair(
    networks: Networks,
    drifts: Mapping[str, Drift],
    locked: Mapping[str, Port],
    held: Mapping[str, ConsumerState],
    repairs: Repairs,
) -> list[Drift]:
    """Make the claims what they should be; the ports are locked and nobody is at work on them."""
    if repairs is Repairs.NONE or not drifts:
        return list(drifts.values())
    groups = [ClaimGroup((_claim(port_id, locked.get(port_id), held.get(port_id)),)) for port_id in drifts]
    answers = await networks.placement.claim(groups)
    return [
        msgspec.structs.replace(drift, repaired=isinstance(answer, Claimed))
        for drift, answer in zip(drifts.values(), answers, strict=True)
    ]


def _claim(port_id: str, port: Port | None, held: ConsumerState | None) -> ConsumerClaim:
    project_id = port.project_id if port else held.project_id if held else ""
    return ConsumerClaim(
        consumer_uuid=port_id,
        generation=held.generation if held else None,
        consumer_type=ConsumerType.PORT.value,
        project_id=project_id,
        user_id=held.user_id if held else project_id,
        allocations=claim_of(port.addresses if port else ()),
    )


def _allocations(held: ConsumerState | None) -> Mapping[str, Mapping[str, int]]:
    return held.allocations if held else {}
