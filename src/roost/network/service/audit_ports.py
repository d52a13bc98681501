"""Audit of ports: that their servers exist, and that the ledger's claim of each is its addresses.

No lock reaches both: an open intent, a release row or work on the server means that a claim is changing, and the
generation that was seen refuses a repair of one that has changed since. Addresses on flat networks are claimed by the
servers of their ports.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial

from roost.network.errors import PortNotFound, RevisionNumberConstraintFailed
from roost.network.model.ports import Port, PortFilter, is_server_id
from roost.network.rules import drift as rules
from roost.network.rules import flat
from roost.network.rules.capacity import claim_of, port_claim
from roost.network.service import Networks, builds, ports
from roost.network.store import audit as store
from roost.network.store import claims
from roost.network.store import networks as network_rows
from roost.network.store import ports as port_rows
from roost.platform.audit import Check, Finding, all_at_once, keys_of, read_pages, stored_pages
from roost.seams.placement import Allocations, Claimed, ClaimGroup, ConsumerClaim, ConsumerType, covers_allocations

PAGE = 500
UNREACHED_MAX = 10_000

PortFindings = Sequence[Finding[str, Port]]


def _list_ports(networks: Networks) -> AsyncIterator[Sequence[str]]:
    return stored_pages(networks.database, port_rows.list_ids, str, limit=PAGE)


async def _find_server_ports(networks: Networks, port_ids: Sequence[str]) -> PortFindings:
    """Return ports of servers that do not exist or never ran, and reservations for builds that are done.

    A port is read before its server is asked for: a server that is at work exists before its ports do.
    """
    async with networks.database.connection() as connection:
        ports_read = await port_rows.list_ports(connection, PortFilter(ids=tuple(port_ids), hidden=True))
    of_servers = [port for port in ports_read if is_server_id(port.device_id)]
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
        if port.made_for is None:
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
    pages=_list_ports,
    look=_find_server_ports,
    repairs={
        rules.PORT_STRAY: partial(_release, restore=True),
        rules.PORT_LATE: _drop_late,
        rules.PORT_UNOWNED: partial(_release, restore=False),
        rules.PORT_RESERVED: _settle,
    },
    twice=True,
)


ClaimFindings = Sequence[Finding[str, ConsumerClaim]]
"""Of ports or servers, each with the claim that it should have; its generation is that of the claim that was seen."""


def _list_consumers(networks: Networks, *, kind: ConsumerType) -> AsyncIterator[Sequence[str]]:
    return read_pages(lambda after: networks.placement.list_consumers(kind.value, after=after, limit=PAGE), str)


async def _find_claims(
    networks: Networks, port_ids: Sequence[str], *, is_right: Callable[[Allocations, Allocations], bool]
) -> ClaimFindings:
    """Return ports that nobody works on (R9) and whose claim is not right.

    is_right: (what the port claims, what its addresses should claim); a port that does not exist should claim nothing.
    One transaction ends an intent and writes the port, and one snapshot sees both.
    """
    consumers = await networks.placement.get_consumers(port_ids)
    claims_seen = {uuid: consumers[uuid].allocations if uuid in consumers else {} for uuid in port_ids}
    async with networks.database.transaction(snapshot=True) as tx:
        claims_due = await store.list_claims(tx, port_ids)
        wrong = [uuid for uuid, claim in claims_seen.items() if not is_right(claim, claims_due.get(uuid, {}))]
        if not wrong:
            return []
        releasing, claiming = await claims.list_busy(tx, wrong)
        ports_read = await port_rows.list_ports(tx, PortFilter(ids=tuple(wrong), hidden=True))
    ports_by_id = {port.id: port for port in ports_read}
    servers = sorted({port.device_id for port in ports_read if is_server_id(port.device_id)})
    states = await networks.compute.get_server_states(servers)
    busy = releasing | claiming.keys() | {port.id for port in ports_read if port.hidden}
    busy |= {port.id for port in ports_read if port.device_id in states and states[port.device_id].unfinished}
    findings = []
    for uuid in wrong:
        port, consumer = ports_by_id.get(uuid), consumers.get(uuid)
        drift, owner = rules.judge_claim(uuid, port, claims_seen[uuid]), port or consumer
        if drift is None or owner is None or uuid in busy:
            continue
        claim, generation = claim_of(port.addresses if port else ()), consumer.generation if consumer else None
        findings.append(Finding(drift, uuid, port_claim(uuid, owner.project_id, claim, generation)))
    return findings


async def _claim_anew(networks: Networks, findings: ClaimFindings) -> list[str]:
    """Make the claims what they should be; one that is refused stays as it is. Return the keys of those made."""
    answers = await networks.placement.claim([ClaimGroup((finding.fact,)) for finding in findings])
    return [key for key, answer in zip(keys_of(findings), answers, strict=True) if isinstance(answer, Claimed)]


CLAIM_KINDS = (rules.PORT_CLAIM_SMALL, rules.PORT_CLAIM_LARGE, rules.PORT_CLAIM_IDLE, rules.PORT_CLAIM_STRAY)
REPAIRS = dict.fromkeys(CLAIM_KINDS, _claim_anew)
SHORT_CLAIMS = Check(
    pages=_list_ports,
    look=partial(_find_claims, is_right=covers_allocations),
    repairs=REPAIRS,
    twice=True,
)
LARGE_CLAIMS = Check(
    pages=partial(_list_consumers, kind=ConsumerType.PORT),
    look=partial(_find_claims, is_right=lambda claim, claim_due: covers_allocations(claim_due, claim)),
    repairs=REPAIRS,
    twice=True,
)
"""Of ports whose claim is larger than their addresses, and of ports that do not exist."""


async def _find_unreached(networks: Networks, _all: Sequence[str]) -> list[Finding[str, None]]:
    async with networks.database.connection() as connection:
        unreached = await store.list_unreached(connection, limit=UNREACHED_MAX)
    findings = []
    for port_id, name, host, address, physical_network in unreached:
        says = f"{address} on {physical_network}, which host {host} does not reach"
        findings.append(Finding(rules.PORT_UNREACHED.drift(port_id, says, name=name), port_id, None))
    return findings


REACH = Check(pages=all_at_once, look=_find_unreached, repairs={rules.PORT_UNREACHED: None})
"""Nothing is repaired: the cable or the server may be in the wrong place, which only a person knows."""


async def _find_flat_claims(networks: Networks, server_ids: Sequence[str]) -> list[Finding[str, ConsumerClaim]]:
    """Return idle running servers whose claim of addresses differs from their addresses on flat networks.

    Their claims on other networks' providers are drift too, since ports claim those addresses. Costs a row for each
    address and each claim of a server. The generation refuses a repair of a server that something works on since.
    """
    consumers = await networks.placement.get_consumers(server_ids)
    async with networks.database.transaction(snapshot=True) as tx:
        ports_read = await port_rows.list_ports(tx, PortFilter(device_ids=tuple(server_ids), hidden=True))
        sources = await network_rows.list_sources(tx, sorted({u for c in consumers.values() for u in c.allocations}))
    providers = {source.provider_uuid for source in sources}
    addresses_by_server: dict[str, list[tuple[str, str]]] = {uuid: [] for uuid in server_ids}
    for port in sorted(ports_read, key=lambda port: port.nic_tag or ""):
        if port.hidden:
            addresses_by_server[port.device_id] += [(item.subnet_id, item.address) for item in port.addresses]
    findings = []
    for uuid, state in consumers.items():
        addresses = addresses_by_server[uuid]
        claim = flat.server_claim(state.allocations, addresses, providers)
        if claim == state.allocations:
            continue
        has = ", ".join(address for _, address in addresses) or "no address"
        says = f"has {has}, and claims {flat.show_claim(state.allocations, providers)}"
        findings.append(Finding(rules.FLAT_CLAIM_WRONG.drift(uuid, says), uuid, state.claiming(claim)))
    states = await networks.compute.get_server_states([finding.item for finding in findings]) if findings else {}
    running = {uuid for uuid, state in states.items() if state.claiming and not state.unfinished}
    return [finding for finding in findings if finding.item in running]


FLAT_CLAIMS = Check(
    pages=partial(_list_consumers, kind=ConsumerType.INSTANCE),
    look=_find_flat_claims,
    repairs={rules.FLAT_CLAIM_WRONG: _claim_anew},
    twice=True,
)
