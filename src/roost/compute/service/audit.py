"""Audit of servers and hosts: their claims, their ports, their guests, and hosts' places in the ledger.

There is no lock over two services: what differs is read a second time, and is drift where nobody worked on the server
or its ports before, in between and after.
"""

from collections.abc import AsyncIterator, Sequence

from msgspec import Struct

from roost.compute.model.server import QuietServer
from roost.compute.model.work import GUEST_CHANNEL
from roost.compute.rules import drift as rules
from roost.compute.rules.aggregates import ratios_by_host
from roost.compute.rules.recoveries import recovery_sentence
from roost.compute.rules.unknown_guests import describe_addresses
from roost.compute.service.context import Compute
from roost.compute.service.events import EVENTS
from roost.compute.service.hosts import provider_state, publish_hosts
from roost.compute.service.recovery import find_recovery
from roost.compute.service.unknown_guests import list_unknown_guests
from roost.compute.service.work import get_server_states
from roost.compute.store import agents as agent_rows
from roost.compute.store import aggregates as aggregate_rows
from roost.compute.store import audit as store
from roost.compute.store import hosts as host_rows
from roost.compute.store import nics as nic_rows
from roost.platform.audit import Audit, Check, Finding, all_at_once, keys_of, read_pages, stored_pages
from roost.platform.crash import crash_point
from roost.seams.network import AttachedPort
from roost.seams.placement import Claimed, ClaimGroup, ConsumerClaim, ConsumerState, ConsumerType

CONSUMERS_PAGE = 1000
SERVERS_PAGE = 500
HOSTS_PAGE = 1000
GUESTS_MAX = 10_000


def _list_hosts(compute: Compute) -> AsyncIterator[Sequence[str]]:
    return stored_pages(compute.database, store.list_published_hosts, str, limit=HOSTS_PAGE)


async def _find_hosts(compute: Compute, names: Sequence[str]) -> list[Finding[str, None]]:
    """Return hosts that the ledger or the network service has otherwise than they are, or in other aggregates.

    Hosts that are not published yet are left out, and aggregates that are being told their hosts.
    """
    unsettled = await compute.network.list_unsettled_aggregates()
    async with compute.database.transaction(snapshot=True) as tx:
        aggregates = await store.list_host_aggregates(tx, names)
        hosts = await host_rows.list_hosts(tx, after="", limit=None, names=list(aggregates))
        aggregate_names = await aggregate_rows.list_mirrored(tx)
        ratios = ratios_by_host(names, await aggregate_rows.list_with_metadata(tx))
    providers = await compute.placement.get_providers([host.provider_uuid for host in hosts])
    reaches_by_host = await compute.network.get_hosts(list(aggregates))
    settled = aggregate_names.keys() - unsettled - await compute.network.list_unsettled_aggregates()
    findings = []
    for host in hosts:
        state = providers.get(host.provider_uuid)
        state_wanted = provider_state(host, ratios[host.name])
        drifts = [rules.judge_host(host, state_wanted, state, reaches_by_host.get(host.name), ratios=ratios[host.name])]
        if host.too_old:
            drifts.append(rules.HOST_OLD.drift(host.name, f"its agent is of service version {host.service_version}"))
        if host.idle:
            drifts.append(rules.HOST_IDLE.drift(host.name, "it polls, and began none of its last launches"))
        if state is not None:
            has = (state.placement_aggregates or frozenset()) & settled
            drifts.append(rules.judge_mirror(host.name, aggregates[host.name] & settled, has, aggregate_names))
        findings += [Finding(drift, host.name, None) for drift in drifts if drift is not None]
    return findings


async def _publish_hosts(compute: Compute, findings: Sequence[Finding[str, None]]) -> list[str]:
    names = sorted(finding.item for finding in findings)
    async with compute.database.transaction() as tx:
        await aggregate_rows.want_hosts(tx, names)
    await publish_hosts(compute, names)
    return names


HOSTS = Check(
    pages=_list_hosts,
    look=_find_hosts,
    repairs={
        rules.HOST_WRONG: _publish_hosts,
        rules.MIRROR_WRONG: _publish_hosts,
        rules.HOST_OLD: None,
        rules.HOST_IDLE: None,
    },
    twice=True,
)


async def _find_guests(compute: Compute, _all: Sequence[str]) -> list[Finding[str, None]]:
    """Return guests of no server, servers without a guest, and guests that hosts list and nobody asked for."""
    async with compute.database.transaction() as tx:
        strays = await store.list_stray_guests(tx, limit=GUESTS_MAX)
        missing = await store.list_missing_guests(tx, limit=GUESTS_MAX)
    unknown, chosen, answers = await list_unknown_guests(compute, limit=GUESTS_MAX)
    drifts = [rules.GUEST_STRAY.drift(server_id, f"host {host} has it") for server_id, host in strays]
    drifts += [
        rules.GUEST_MISSING.drift(server_id, f"host {host or 'none'} has not got it", name=name)
        for server_id, name, host in missing
    ]
    for guest in unknown:
        answer = answers.get((guest.server_id, guest.host))
        if not guest.destroying:
            addresses = describe_addresses(guest, chosen, answer)
            says = f"host {guest.host} has it, made by attempt {guest.attempt}; {addresses}"
            drifts.append(rules.GUEST_UNKNOWN.drift(guest.server_id, says))
        drifts += [
            rules.ADDRESS_TWICE.drift(
                holder.address, f"the unknown guest {guest.server_id} on host {guest.host} has it, and {holder.words}"
            )
            for holder in (answer.used if answer else ())
        ]
    return [Finding(drift, drift.key, None) for drift in drifts]


async def _withdraw_guests(compute: Compute, findings: Sequence[Finding[str, None]]) -> list[str]:
    async with compute.database.transaction() as tx:
        await store.withdraw_stray_guests(tx, keys_of(findings))
    compute.wake(GUEST_CHANNEL)
    return keys_of(findings)


GUESTS = Check(
    pages=all_at_once,
    look=_find_guests,
    repairs={
        rules.GUEST_STRAY: _withdraw_guests,
        rules.GUEST_MISSING: None,
        rules.GUEST_UNKNOWN: None,
        rules.ADDRESS_TWICE: None,
    },
)
"""What a host may still run keeps its claims and ports until it is gone."""


async def _find_clashes(compute: Compute, _all: Sequence[str]) -> list[Finding[str, None]]:
    """Return agents of which two starts speak."""
    async with compute.database.connection() as connection:
        clashes = await agent_rows.list_clashes(connection, lease_s=compute.settings.host_down_after_s)
    drifts = [rules.judge_clash(clash) for clash in clashes]
    return [Finding(drift, drift.key, None) for drift in drifts]


AGENTS = Check(pages=all_at_once, look=_find_clashes, repairs={rules.AGENT_TWICE: None})


async def _list_consumers(compute: Compute) -> AsyncIterator[Sequence[str]]:
    consumers = ConsumerType.INSTANCE.value
    async for page in read_pages(
        lambda after: compute.placement.list_consumers(consumers, after=after, limit=CONSUMERS_PAGE), str
    ):
        yield await _list_idle(compute, page)


async def _list_idle(compute: Compute, server_ids: Sequence[str]) -> list[str]:
    """Return those that may hold no claims."""
    states = await get_server_states(compute, server_ids)
    return [uuid for uuid in server_ids if uuid not in states or not states[uuid].claiming]


async def _find_claims(compute: Compute, server_ids: Sequence[str]) -> list[Finding[str, int]]:
    """Return INSTANCE claims of servers that may hold none: a server's row is there before its claim.

    Their generations are read before the servers: a claim in between has another generation, or its server is seen.
    """
    consumers = await compute.placement.get_consumers(server_ids)
    amounts = {
        uuid: sum(map(len, consumers[uuid].allocations.values())) for uuid in await _list_idle(compute, list(consumers))
    }
    return [
        Finding(rules.SERVER_CLAIM_STRAY.drift(uuid, f"holds {amount} allocations"), uuid, consumers[uuid].generation)
        for uuid, amount in amounts.items()
    ]


async def _release_claims(compute: Compute, findings: Sequence[Finding[str, int]]) -> list[str]:
    crash_point("reconcile.before-release")
    generations = {finding.item: finding.fact for finding in findings}
    await compute.placement.release(list(generations), generations=generations)
    crash_point("reconcile.after-release")
    return list(generations)


CLAIMS = Check(pages=_list_consumers, look=_find_claims, repairs={rules.SERVER_CLAIM_STRAY: _release_claims})


class _Seen(Struct, frozen=True):
    """An ACTIVE server, its claim and its ports, as they were read."""

    server: QuietServer
    consumer: ConsumerState | None
    ports: tuple[AttachedPort, ...]


ServerFindings = Sequence[Finding[str, _Seen]]


def _list_servers(compute: Compute) -> AsyncIterator[Sequence[str]]:
    return stored_pages(compute.database, store.list_quiet_ids, str, limit=SERVERS_PAGE)


async def _find_servers(compute: Compute, server_ids: Sequence[str]) -> ServerFindings:
    """Return ACTIVE servers whose claim or ports are not what they should be.

    A change that is under way is over at the second look, or shows as work or as another revision. A server whose
    ports changed has a notice until its network information is written anew.
    """
    noticed = await compute.network.list_noticed_servers(server_ids)
    async with compute.database.connection() as connection:
        servers = await store.list_quiet(connection, [uuid for uuid in server_ids if uuid not in noticed])
    ids = [server.id for server in servers]
    consumers, attached = await compute.placement.get_consumers(ids), await compute.network.list_attached_ports(ids)
    findings = []
    for server in servers:
        claim, ports = consumers.get(server.id), rules.own_ports(server.project_id, attached.get(server.id, ()))
        wrong = rules.judge_claim(server, claim.allocations if claim else {})
        drifts = [*([wrong] if wrong else []), *rules.judge_ports(server, ports)]
        findings += [Finding(drift, server.id, _Seen(server, claim, ports)) for drift in drifts]
    return findings


async def _claim(compute: Compute, findings: ServerFindings) -> list[str]:
    """Claim for the servers what they asked for, where they are; one for which there is no room gets nothing."""
    groups = []
    for server, consumer in ((finding.fact.server, finding.fact.consumer) for finding in findings):
        claim = ConsumerClaim(
            consumer_uuid=server.id,
            generation=consumer.generation if consumer else None,
            consumer_type=ConsumerType.INSTANCE.value,
            project_id=server.project_id,
            user_id=server.user_id,
            allocations=rules.claim_of(server, consumer.allocations if consumer else {}),
        )
        groups.append(ClaimGroup((claim,)))
    answers = await compute.placement.claim(groups)
    return [key for key, answer in zip(keys_of(findings), answers, strict=True) if isinstance(answer, Claimed)]


async def _keep_ports(compute: Compute, findings: ServerFindings) -> list[str]:
    kept = []
    for server, ports in ((finding.fact.server, finding.fact.ports) for finding in findings):
        new = rules.network_information(server, ports)
        async with compute.database.transaction() as tx:
            if await nic_rows.set_network_info(tx, server.id, old=server.ports, new=new, quiet=True):
                kept.append(server.id)
    return kept


SERVERS = Check(
    pages=_list_servers,
    look=_find_servers,
    repairs={
        rules.SERVER_CLAIM_WRONG: _claim,
        rules.PORT_ELSEWHERE: None,
        rules.SERVER_PORTS_WRONG: _keep_ports,
    },
    twice=True,
)


async def _find_recovery(compute: Compute, _all: Sequence[str]) -> list[Finding[str, None]]:
    """Return that the records went back in time, and what they wait for."""
    recovery = await find_recovery(compute)
    if recovery is None:
        return []
    drift = rules.WENT_BACK.drift(str(recovery.id), recovery_sentence(recovery))
    return [Finding(drift, drift.key, None)]


RECOVERY = Check(pages=all_at_once, look=_find_recovery, repairs={rules.WENT_BACK: None})


AUDIT: Audit[Compute] = Audit((RECOVERY, HOSTS, AGENTS, GUESTS, CLAIMS, SERVERS), EVENTS.keep_repairs)
CLAIMS_AUDIT: Audit[Compute] = Audit((CLAIMS,), EVENTS.keep_repairs)
"""What is looked at more often."""
