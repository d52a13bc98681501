"""Audit of addresses on flat networks: that the ledger's claim of a server is its addresses.

Whose their ports are is audited as of all ports. What a build that is at work has is its own.
"""

from collections.abc import Mapping, Sequence, Set

import msgspec

from roost.network.rules import flat as rules
from roost.network.service import Networks
from roost.network.store import flat as store
from roost.network.store import subnets as subnet_rows
from roost.seams.audit import Drift, Kind, Repairs
from roost.seams.placement import Claimed, ClaimGroup, ConsumerClaim, ConsumerState, ConsumerType

PAGE = 500

_Seen = tuple[ConsumerState, tuple[tuple[str, str], ...]]


async def audit_claims(networks: Networks, *, repairs: Repairs) -> list[Drift]:
    """Servers that run, and whose claim of addresses is not those that they have on flat networks.

    On any provider of the network: the addresses of ports are claimed by these. Costs a row for each address and each
    claim of a server.
    """
    async with networks.database.transaction() as tx:
        providers = {source.provider_uuid for source in await subnet_rows.list_sources(tx)}
    if not providers:
        return []
    found: list[Drift] = []
    after = ""
    while page := await networks.placement.list_consumers(ConsumerType.INSTANCE.value, after=after, limit=PAGE):
        after = page[-1]
        first = await _differing(networks, page, providers)
        suspects = await _differing(networks, sorted(first), providers) if first else {}
        same = {uuid: seen for uuid, seen in suspects.items() if first[uuid] == seen}
        found += await _claim_anew(networks, same, providers, repairs)
    return found


async def _differing(networks: Networks, server_ids: Sequence[str], providers: Set[str]) -> dict[str, _Seen]:
    """Those that run, that nothing works on, and whose claim is not their addresses: the claim, and these."""
    consumers = await networks.placement.get_consumers(server_ids)
    async with networks.database.transaction(snapshot=True) as tx:
        rows = await store.list_of_servers(tx, server_ids)
    differing = {}
    for uuid, state in consumers.items():
        mine = rows.get(uuid, ())
        if rules.server_claim(state.allocations, mine, providers) != state.allocations:
            differing[uuid] = (state, mine)
    if not differing:
        return {}
    busy = await networks.compute.list_unfinished(sorted(differing))
    alive = await networks.compute.list_claiming(sorted(differing))
    return {uuid: seen for uuid, seen in differing.items() if uuid in alive - busy}


async def _claim_anew(
    networks: Networks,
    suspects: Mapping[str, _Seen],
    providers: Set[str],
    repairs: Repairs,
) -> list[Drift]:
    """The generation shuts this out where somebody has begun to work on the server meanwhile."""
    drifts = []
    groups = []
    for uuid, (state, mine) in suspects.items():
        has = ", ".join(address for _, address in mine) or "no address"
        says = f"has {has}, and claims {rules.show_claim(state.allocations, providers)}"
        drifts.append(Drift(kind=Kind.FLAT_CLAIM_WRONG, key=uuid, says=says))
        consumer = ConsumerClaim(
            consumer_uuid=uuid,
            generation=state.generation,
            consumer_type=state.consumer_type,
            project_id=state.project_id,
            user_id=state.user_id,
            allocations=rules.server_claim(state.allocations, mine, providers),
        )
        groups.append(ClaimGroup((consumer,)))
    if repairs is Repairs.NONE or not groups:
        return drifts
    answers = await networks.placement.claim(groups)
    return [
        msgspec.structs.replace(drift, repaired=isinstance(answer, Claimed))
        for drift, answer in zip(drifts, answers, strict=True)
    ]
