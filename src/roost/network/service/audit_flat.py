"""Audit of addresses on flat networks: that the ledger's claim of a server is its addresses.

Whose their ports are is audited as of all ports. What a build that is at work has is its own.
"""

from collections.abc import AsyncIterator, Sequence

from roost.network.rules import drift as drifts
from roost.network.rules import flat as rules
from roost.network.service import Networks
from roost.network.service.audit_ports import claim_anew
from roost.network.store import flat as store
from roost.network.store import subnets as subnet_rows
from roost.platform.audit import Check, Finding, read_pages
from roost.seams.placement import ConsumerClaim, ConsumerType

PAGE = 500


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
        mine = held.get(uuid, ())
        wanted = rules.server_claim(state.allocations, mine, providers)
        if wanted == state.allocations:
            continue
        has = ", ".join(address for _, address in mine) or "no address"
        says = f"has {has}, and claims {rules.show_claim(state.allocations, providers)}"
        findings.append(Finding(drifts.FLAT_CLAIM_WRONG.drift(uuid, says), uuid, state.claiming(wanted)))
    states = await networks.compute.get_server_states([finding.item for finding in findings]) if findings else {}
    running = {uuid for uuid, state in states.items() if state.claiming and not state.unfinished}
    return [finding for finding in findings if finding.item in running]


CLAIMS = Check(pages=_list_servers, look=_find_claims, repairs={drifts.FLAT_CLAIM_WRONG: claim_anew}, twice=True)
