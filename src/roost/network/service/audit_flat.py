"""Audit of addresses on flat networks: that the ledger's claim of a server is its addresses.

The servers of their ports are audited as those of all ports. Servers with a build at work are left out.
"""

from collections.abc import AsyncIterator, Sequence

from roost.network.rules import drift as drifts
from roost.network.rules import flat as rules
from roost.network.service import Networks
from roost.network.service.audit_ports import claim_anew
from roost.network.store import addresses as store
from roost.network.store import subnets as subnet_rows
from roost.platform.audit import Check, Finding, read_pages
from roost.seams.placement import ConsumerClaim, ConsumerType

PAGE = 500


def _list_servers(networks: Networks) -> AsyncIterator[Sequence[str]]:
    instances = ConsumerType.INSTANCE.value
    return read_pages(lambda after: networks.placement.list_consumers(instances, after=after, limit=PAGE), str)


async def _find_claims(networks: Networks, server_ids: Sequence[str]) -> list[Finding[str, ConsumerClaim]]:
    """Return idle running servers whose claim of addresses differs from their addresses on flat networks.

    Their claims on other networks' providers are drift too, since ports claim those addresses. Costs a row for each
    address and each claim of a server. The generation refuses a repair of a server that something works on since.
    """
    consumers = await networks.placement.get_consumers(server_ids)
    async with networks.database.transaction(snapshot=True) as tx:
        addresses_by_server = await store.list_of_servers(tx, server_ids)
        sources = await subnet_rows.list_sources(tx, sorted({u for c in consumers.values() for u in c.allocations}))
    providers = {source.provider_uuid for source in sources}
    findings = []
    for uuid, state in consumers.items():
        addresses = addresses_by_server.get(uuid, ())
        claim = rules.server_claim(state.allocations, addresses, providers)
        if claim == state.allocations:
            continue
        has = ", ".join(address for _, address in addresses) or "no address"
        says = f"has {has}, and claims {rules.show_claim(state.allocations, providers)}"
        findings.append(Finding(drifts.FLAT_CLAIM_WRONG.drift(uuid, says), uuid, state.claiming(claim)))
    states = await networks.compute.get_server_states([finding.item for finding in findings]) if findings else {}
    running = {uuid for uuid, state in states.items() if state.claiming and not state.unfinished}
    return [finding for finding in findings if finding.item in running]


CLAIMS = Check(pages=_list_servers, look=_find_claims, repairs={drifts.FLAT_CLAIM_WRONG: claim_anew}, twice=True)
