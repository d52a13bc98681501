"""Audit of ports: that their servers exist, and that the ledger's claim of each is its addresses.

A port's claim is looked at under its lock; an open intent, a release row or a build at work means that it is changing.
The ledger is called while the ports are locked, as `releases` does and for the same reason.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeVar

from msgspec import Struct

from roost.network.errors import PortNotFound, RevisionNumberConstraintFailed
from roost.network.model.ports import BuildPort, Port, PortFilter
from roost.network.rules import drift as rules
from roost.network.rules.holdings import claim_of
from roost.network.rules.port_bindings import is_server_id
from roost.network.service import Networks, builds, ports
from roost.network.store import audit as store
from roost.network.store import claims
from roost.network.store import ports as port_rows
from roost.platform.audit import Check, Finding, all_at_once, keys_of, read_pages, stored_pages
from roost.platform.database import Connection
from roost.seams.placement import (
    Allocations,
    Claimed,
    ClaimGroup,
    ConsumerClaim,
    ConsumerState,
    ConsumerType,
    covers_allocations,
)

PAGE = 500
LOCKED_MAX = 100
"""How many ports are locked at once: others that need one of them wait meanwhile."""

UNREACHED_MAX = 10_000

Item = TypeVar("Item")
PortFindings = Sequence[Finding[str, BuildPort]]


async def _list_server_ports(networks: Networks) -> AsyncIterator[Sequence[str]]:
    async for page in stored_pages(networks.database, store.list_build_ports, lambda port: port.id, limit=PAGE):
        yield [port.id for port in page if is_server_id(port.device_id)]


async def _find_server_ports(networks: Networks, port_ids: Sequence[str]) -> PortFindings:
    """Return ports of servers that do not exist or never ran, and reservations for builds that are done.

    A port is read before its server is asked for: a server that is at work exists before its ports do.
    """
    async with networks.database.connection() as connection:
        read = await store.list_build_ports(connection, after="", limit=len(port_ids), ids=port_ids)
    of_servers = [port for port in read if is_server_id(port.device_id)]
    if not of_servers:
        return []
    servers = await networks.compute.get_server_states(sorted({port.device_id for port in of_servers}))
    judged = [(port, rules.judge_server_port(port, servers.get(port.device_id))) for port in of_servers]
    return [Finding(drift, port.id, port) for port, drift in judged if drift]


async def _release(networks: Networks, findings: PortFindings, *, restore: bool) -> list[str]:
    servers = sorted({finding.fact.device_id for finding in findings})
    await builds.release_server_ports(networks, servers, [], restore=restore)
    return keys_of(findings)


async def _drop_late(networks: Networks, findings: PortFindings) -> list[str]:
    for port in (finding.fact for finding in findings):
        if not port.made_by_roost:
            await builds.give_back_port(networks, port.id, revision=port.revision)
            continue
        with suppress(PortNotFound, RevisionNumberConstraintFailed):  # somebody is at it: next time
            await ports.delete_port(networks, port.id, revision=port.revision)
    return keys_of(findings)


async def _settle(networks: Networks, findings: PortFindings) -> list[str]:
    servers = {finding.item: finding.fact.device_id for finding in findings}
    async with networks.database.transaction() as tx:
        locked = await port_rows.lock_ports(tx, sorted(servers))
        settled = [port.id for port in locked.values() if port.device_id == servers[port.id]]
        await port_rows.settle(tx, [], settled)
    return settled


SERVER_PORTS = Check(
    pages=_list_server_ports,
    look=_find_server_ports,
    repairs={
        rules.PORT_STRAY: partial(_release, restore=True),
        rules.PORT_LATE: _drop_late,
        rules.PORT_UNOWNED: partial(_release, restore=False),
        rules.PORT_RESERVED: _settle,
    },
    twice=True,
)


class ClaimSuspect(Struct, frozen=True, kw_only=True):
    """A port whose claim seems wrong. device_id: None if there is no such port. stray: its claim in that case."""

    port_id: str
    device_id: str | None = None
    stray: ConsumerState | None = None


ClaimFindings = Sequence[Finding[ClaimSuspect, ConsumerClaim]]


async def _list_short(networks: Networks) -> AsyncIterator[Sequence[ClaimSuspect]]:
    """Yield ports with addresses that their claim does not count."""
    async for page in stored_pages(networks.database, store.list_holders, str, limit=PAGE):
        async with networks.database.connection() as connection:
            claims_due = await store.list_claims(connection, page)
        consumers = await networks.placement.get_consumers(page)
        short = [
            port_id
            for port_id, claim in claims_due.items()
            if not covers_allocations(_allocations(consumers.get(port_id)), claim)
        ]
        async for batch in _list_idle(networks, short, {}):
            yield batch


async def _list_large(networks: Networks) -> AsyncIterator[Sequence[ClaimSuspect]]:
    """Yield ports whose claim is larger than their addresses, and claims of ports that do not exist."""
    kind = ConsumerType.PORT.value
    async for page in read_pages(lambda after: networks.placement.list_consumers(kind, after=after, limit=PAGE), str):
        consumers = await networks.placement.get_consumers(page)
        async with networks.database.connection() as connection:
            claims_due = await store.list_claims(connection, list(consumers))
        large = [
            port_id
            for port_id, consumer in consumers.items()
            if not covers_allocations(claims_due.get(port_id, {}), consumer.allocations)
        ]
        async for batch in _list_idle(networks, large, consumers):
            yield batch


async def _list_idle(
    networks: Networks, port_ids: Sequence[str], strays: Mapping[str, ConsumerState]
) -> AsyncIterator[Sequence[ClaimSuspect]]:
    """Yield ports of servers that nothing works on, at most LOCKED_MAX at once.

    strays: port id -> its claim, of ports that are suspects even if they do not exist.
    """
    async with networks.database.connection() as connection:
        seen = await port_rows.list_ports(connection, PortFilter(ids=tuple(port_ids))) if port_ids else []
    servers = sorted({port.device_id for port in seen if is_server_id(port.device_id)})
    states = await networks.compute.get_server_states(servers) if servers else {}
    unfinished = {server_id for server_id, state in states.items() if state.unfinished}
    idle = [
        ClaimSuspect(port_id=port.id, device_id=port.device_id) for port in seen if port.device_id not in unfinished
    ]
    missing = strays.keys() & set(port_ids).difference(port.id for port in seen)
    idle += [ClaimSuspect(port_id=port_id, stray=strays[port_id]) for port_id in missing]
    idle.sort(key=lambda suspect: suspect.port_id)
    for start in range(0, len(idle), LOCKED_MAX):
        yield idle[start : start + LOCKED_MAX]


class _Locked(Struct, frozen=True):
    """A transaction in which ports are locked, with their service."""

    networks: Networks
    tx: Connection


@asynccontextmanager
async def _lock(networks: Networks) -> AsyncIterator[_Locked]:
    async with networks.releasing, networks.database.transaction() as tx:
        yield _Locked(networks, tx)


async def _find_claims(locked: _Locked, suspects: Sequence[ClaimSuspect]) -> ClaimFindings:
    """Lock the ports, and return those that nobody works on and whose claim is not their addresses.

    A port that is being made cannot be locked. One transaction ends its intent and writes the port, so intents are read
    before and after the ports. A port that was made, reserved or claimed for since is left out.
    """
    ids = [suspect.port_id for suspect in suspects]
    busy = await _list_busy(locked.tx, ids)
    ports_locked = await port_rows.lock_ports(locked.tx, ids)
    consumers = await locked.networks.placement.get_consumers(ids) if len(busy) < len(ids) else {}
    busy |= await _list_busy(locked.tx, ids)
    findings = []
    for suspect in suspects:
        port, consumer = ports_locked.get(suspect.port_id), consumers.get(suspect.port_id)
        same = (port.device_id if port else None) == suspect.device_id
        if suspect.port_id in busy or not same or (suspect.stray is not None and suspect.stray != consumer):
            continue
        if drift := rules.judge_claim(suspect.port_id, port, _allocations(consumer)):
            findings.append(Finding(drift, suspect, _claim(suspect.port_id, port, consumer)))
    return findings


async def _list_busy(tx: Connection, port_ids: Sequence[str]) -> set[str]:
    """Return ports whose claim is being made or given back."""
    releasing, claiming = await claims.list_busy(tx, port_ids)
    return releasing | claiming.keys()


async def _claim_locked(locked: _Locked, findings: ClaimFindings) -> list[str]:
    return await claim_anew(locked.networks, findings)


async def claim_anew(networks: Networks, findings: Sequence[Finding[Item, ConsumerClaim]]) -> list[str]:
    """Make the claims what they should be; one that is refused stays as it is. Return the keys of those made."""
    answers = await networks.placement.claim([ClaimGroup((finding.fact,)) for finding in findings])
    return [key for key, answer in zip(keys_of(findings), answers, strict=True) if isinstance(answer, Claimed)]


def _claim(port_id: str, port: Port | None, consumer: ConsumerState | None) -> ConsumerClaim:
    project_id = port.project_id if port else consumer.project_id if consumer else ""
    return ConsumerClaim(
        consumer_uuid=port_id,
        generation=consumer.generation if consumer else None,
        consumer_type=ConsumerType.PORT.value,
        project_id=project_id,
        user_id=consumer.user_id if consumer else project_id,
        allocations=claim_of(port.addresses if port else ()),
    )


def _allocations(consumer: ConsumerState | None) -> Allocations:
    return consumer.allocations if consumer else {}


CLAIM_KINDS = (rules.PORT_CLAIM_SMALL, rules.PORT_CLAIM_LARGE, rules.PORT_CLAIM_IDLE, rules.PORT_CLAIM_STRAY)
REPAIRS = dict.fromkeys(CLAIM_KINDS, _claim_locked)
SHORT_CLAIMS = Check(pages=_list_short, hold=_lock, look=_find_claims, repairs=REPAIRS)
LARGE_CLAIMS = Check(pages=_list_large, hold=_lock, look=_find_claims, repairs=REPAIRS)


async def _find_unreached(networks: Networks, _all: Sequence[str]) -> list[Finding[str, None]]:
    async with networks.database.connection() as connection:
        unreached = await store.list_unreached(connection, limit=UNREACHED_MAX)
    says = "{0.address} on {0.physical_network}, which host {0.host} does not reach"
    drifts = [rules.PORT_UNREACHED.drift(port.id, says.format(port), name=port.name) for port in unreached]
    return [Finding(drift, drift.key, None) for drift in drifts]


REACH = Check(pages=all_at_once, look=_find_unreached, repairs={rules.PORT_UNREACHED: None})
"""Nothing is repaired: the cable or the server may be in the wrong place, which only a person knows."""
