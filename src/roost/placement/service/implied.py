"""Claims of servers that an unmodified Nova moves, where Neutron knows more of them than the last round has read.

A NIC that was plugged since then has an address that nobody claims. Of a network of one segment Nova's claim asks for
it nevertheless, which is refused when the segment is full.
"""

import asyncio
from collections.abc import Mapping, Set

from msgspec.structs import replace

from roost.placement.rules.implied import count_nics, find_short_segments
from roost.placement.search.implied import find_only_segments
from roost.placement.service import claims as claims_service
from roost.placement.service.ledger import Ledger
from roost.platform.time_spent import phase
from roost.seams.neutron import NeutronClient, NeutronUnavailable
from roost.seams.placement import Claimed, ClaimGroup, Refused

ASK_TIMEOUT_S = 1.0
"""How long a refusal may wait for Neutron; Nova waits for it, and tries some hosts."""


async def claim_one(ledger: Ledger, group: ClaimGroup) -> Claimed | Refused:
    """Take one group whole or refuse it; a server that moves does not need addresses that its NICs have already.

    Neutron is asked once, and only after such a refusal. Without its answer the refusal stands.
    """
    answer = await claims_service.claim_one(ledger, group)
    if isinstance(answer, Refused) and ledger.neutron is not None:
        segments = find_short_segments(group, answer)
        if segments and (nics_addressed := await _count_nics(ledger, ledger.neutron, group, segments)):
            return await claims_service.claim_one(ledger, replace(group, nics_addressed=nics_addressed))
    return answer


async def _count_nics(
    ledger: Ledger, neutron: NeutronClient, group: ClaimGroup, segments: Set[str]
) -> Mapping[str, int]:
    """Return segment -> the NICs of the group's only consumer that have an address there; nothing if Neutron is away.

    Only of networks with one segment: of others Nova asks for no address that a NIC has.
    """
    only_segments = find_only_segments(await ledger.index.fresh(), segments)
    if len(only_segments) < len(segments):
        return {}
    server_uuid = group.consumers[0].consumer_uuid
    try:
        with phase("neutron"):
            async with asyncio.timeout(ASK_TIMEOUT_S):
                page = await neutron.list_ports(device_id=server_uuid)
    except (NeutronUnavailable, TimeoutError):
        return {}
    assert page is not None
    return count_nics(page.ports, server_uuid, only_segments)
