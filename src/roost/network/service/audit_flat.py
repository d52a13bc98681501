"""Audit of addresses on flat networks: whose they are, and that the ledger's claim of a server is its addresses.

An address is looked at before its server is asked for: a server's work exists before its addresses do, and who may
hold none never will again. What a build that is at work has is its own; what it leaves, its conductor takes back.
"""

from collections.abc import AsyncIterator, Sequence

from roost.network.rules import drift as drifts
from roost.network.rules import flat as rules
from roost.network.rules.flat import FlatAddress
from roost.network.service import Networks, flat
from roost.network.service.audit_ports import claim_anew
from roost.network.store import flat as store
from roost.network.store import subnets as subnet_rows
from roost.platform.audit import Check, Finding, keys_of, read_pages, stored_pages
from roost.seams.placement import ConsumerClaim, ConsumerType

PAGE = 500
FIRST_UUID = "00000000-0000-0000-0000-000000000000"


async def _list_holders(networks: Networks) -> AsyncIterator[Sequence[str]]:
    holders = stored_pages(networks.database, store.list_page, lambda a: a.server_id, limit=PAGE, first=FIRST_UUID)
    async for page in holders:
        yield sorted({item.server_id for item in page})


async def _find_strays(networks: Networks, server_ids: Sequence[str]) -> list[Finding[str, FlatAddress]]:
    """Return addresses of servers that may hold none: never those of a server that runs, unless their pool is gone."""
    async with networks.database.transaction(snapshot=True) as tx:
        held = await store.list_of_servers(tx, server_ids)
        pools = {pool.id for pool in await subnet_rows.list_subnets(tx, sorted({item.subnet_id for item in held}))}
    states = await networks.compute.get_server_states(server_ids)
    claiming = {server_id for server_id, state in states.items() if state.claiming}
    judged = [
        (item, drifts.judge_flat(item, claiming=item.server_id in claiming, pool_there=item.subnet_id in pools))
        for item in held
    ]
    return [Finding(drift, item.server_id, item) for item, drift in judged if drift]


async def _unassign_strays(networks: Networks, findings: Sequence[Finding[str, FlatAddress]]) -> list[str]:
    await flat.unassign_strays(networks, [finding.fact for finding in findings])
    return keys_of(findings)


STRAYS = Check(pages=_list_holders, look=_find_strays, repairs={drifts.FLAT_STRAY: _unassign_strays})
"""Addresses of servers that may hold none, as a conductor that lost its lease may leave one behind."""


def _list_servers(networks: Networks) -> AsyncIterator[Sequence[str]]:
    instances = ConsumerType.INSTANCE.value
    return read_pages(lambda after: networks.placement.list_consumers(instances, after=after, limit=PAGE), str)


async def _find_claims(networks: Networks, server_ids: Sequence[str]) -> list[Finding[str, ConsumerClaim]]:
    """Return servers that run, that nothing works on, and whose claim of addresses is not those on flat networks.

    On any provider of the network: the addresses of ports are claimed by these. Costs a row for each address and each
    claim of a server. The generation shuts a repair out where somebody has begun to work on the server since.
    """
    consumers = await networks.placement.get_consumers(server_ids)
    async with networks.database.transaction(snapshot=True) as tx:
        held = await store.list_of_servers(tx, server_ids)
        sources = await subnet_rows.list_sources(tx, sorted({u for c in consumers.values() for u in c.allocations}))
    providers = {source.provider_uuid for source in sources}
    findings = []
    for uuid, state in consumers.items():
        mine = [item for item in held if item.server_id == uuid]
        wanted = rules.server_claim(state.allocations, mine, providers)
        if wanted == state.allocations:
            continue
        has = ", ".join(item.address for item in mine) or "no address"
        says = f"has {has}, and claims {rules.show_claim(state.allocations, providers)}"
        claim = ConsumerClaim(
            consumer_uuid=uuid,
            generation=state.generation,
            consumer_type=state.consumer_type,
            project_id=state.project_id,
            user_id=state.user_id,
            allocations=wanted,
        )
        findings.append(Finding(drifts.FLAT_CLAIM_WRONG.drift(uuid, says), uuid, claim))
    states = await networks.compute.get_server_states([finding.item for finding in findings]) if findings else {}
    running = {uuid for uuid, state in states.items() if state.claiming and not state.unfinished}
    return [finding for finding in findings if finding.item in running]


CLAIMS = Check(pages=_list_servers, look=_find_claims, repairs={drifts.FLAT_CLAIM_WRONG: claim_anew}, twice=True)
