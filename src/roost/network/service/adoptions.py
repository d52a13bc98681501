"""Hidden ports of an unknown guest become its server's: they are claimed together with the server.

What was reserved is claimed in the step that ends the reservation, so that nobody else gets it in between. Intents of
the new ports say that a claim is under way.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from roost.network.model.networks import ProviderSource
from roost.network.model.unknown_guests import AdoptionPlan
from roost.network.rules.capacity import port_claim
from roost.network.rules.unknown_guests import claims_of, plan_adoption, without_reserved
from roost.network.service import Networks, addresses, capacity, unknown_guests
from roost.network.service.claims import Intents
from roost.network.service.notices import telling
from roost.network.store import addresses as address_rows
from roost.network.store import networks as network_rows
from roost.network.store import ports
from roost.network.store import publications as publication_rows
from roost.network.store import unknown_guests as store
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.platform.structs import copy_as
from roost.seams.placement import Claimed, Refused, Rule, add_allocations
from roost.seams.service_types import COMPUTE_OWNER
from roost.seams.unknown_guests import Adoption, ListedNic, UnknownGuest


async def adopt_ports(networks: Networks, adoption: Adoption) -> str | None:
    """See GuestPortClient.adopt_ports."""
    guest = copy_as(UnknownGuest, adoption, nics=tuple(copy_as(ListedNic, nic) for nic in adoption.nics))
    (answer,) = await unknown_guests.list_held_addresses(networks, [guest])
    if lacking := [*answer.free, *answer.unknown, *(f"{item.address} ({item.words})" for item in answer.used)]:
        return f"not held for it: {', '.join(lacking)}"
    async with Intents(networks) as intents:
        async with networks.database.transaction() as tx:
            plan = await _plan(tx, adoption)
            if plan.refusal:
                return plan.refusal
            new_ids = [port.id for port in plan.adopted]
            provider_uuids = sorted({item.provider_uuid for port in plan.adopted for item in port.addresses})
            sources = await network_rows.list_sources(tx, provider_uuids)
            await intents.open(tx, new_ids, anew=True)
            await publication_rows.want(tx, provider_uuids)
        crash_point("adopt.before-claim")
        refused = await _claim(networks, adoption, plan, sources)
        crash_point("adopt.after-claim")
        if refused is not None:
            async with networks.database.transaction() as tx:
                await intents.close(tx)
            return refused
        async with networks.database.transaction() as tx:
            if await _plan(tx, adoption) != plan:
                return "its ports changed meanwhile: repeat it"
            async with telling(networks, tx, [*new_ids, *plan.bound]):
                owner = f"{COMPUTE_OWNER}{adoption.availability_zone}"
                await store.adopt(
                    tx, plan.adopted, project_id=adoption.project_id, server_id=adoption.server_id, device_owner=owner
                )
                await addresses.hand_over(tx, [item for port in plan.adopted for item in port.addresses])
                await ports.bind(tx, dict.fromkeys(plan.bound, adoption.host))
            await intents.close(tx)
    crash_point("adopt.after-ports")
    await capacity.publish_now(networks, provider_uuids)
    return None


async def _plan(tx: Connection, adoption: Adoption) -> AdoptionPlan:
    """Lock the ports that may be concerned, then the subnets of their addresses; return the plan."""
    hidden = (await store.list_listed(tx, [adoption.host])).get(adoption.host, {})
    locked = await ports.lock_ports(tx, [*hidden, *(nic.port_id for nic in adoption.nics)], [adoption.server_id])
    subnet_ids = {item.subnet_id for port in locked.values() for item in port.addresses}
    return plan_adoption(adoption, locked.values(), await address_rows.lock_subnets(tx, subnet_ids))


async def _claim(
    networks: Networks, adoption: Adoption, plan: AdoptionPlan, sources: Sequence[ProviderSource]
) -> str | None:
    """Claim for the server and its ports in one step, which sets the inventories too; return why it cannot, or None."""
    flat, by_port = claims_of(plan)
    consumers = await networks.placement.get_consumers([adoption.server_id, *by_port])
    generations = {uuid: consumer.generation for uuid, consumer in consumers.items()}
    own = replace(adoption.claim, allocations=add_allocations(adoption.claim.allocations, flat))
    claims = [own, *(port_claim(port_id, adoption.project_id, claim) for port_id, claim in by_port.items())]
    group = [replace(claim, generation=generations.get(claim.consumer_uuid)) for claim in claims]
    without = [without_reserved(source, plan.adopted) for source in sources]
    answer = await capacity.claim_with_capacity(networks, without, group)
    return None if isinstance(answer, Claimed) else _words(answer)


def _words(refused: Refused) -> str:
    """Return why the ledger refuses the claim."""
    words = dict.fromkeys(
        "somebody else claims for it: repeat it"
        if shortfall.rule is Rule.CONSUMER_GENERATION
        else f"{shortfall.requested} {shortfall.resource_class} of {shortfall.provider_uuid}, "
        f"of which {max(shortfall.free, 0)} are free ({shortfall.rule.value})"
        for shortfall in refused.shortfalls
    )
    return f"the ledger refuses the claim: {'; '.join(words)}"
