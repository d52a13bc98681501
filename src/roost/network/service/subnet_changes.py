"""Subnets that clients change: what changes capacity is told to the ledger, with the claims, before the call returns.

A change of pools, segment or service types is in progress from one transaction to another. The first lets the pools
grow; then the ledger is told the inventory as it is to be, and the claims of what is taken in or dropped; the last cuts
the pools. Where builds have claims that would have no address any more, the change is taken back the same way.
Whoever comes by may end a change, and the reconciler does.
"""

import msgspec

from roost.network.errors import PublicationPending, SubnetInUse, SubnetNotFound
from roost.network.model.networks import Network, Subnet, SubnetChange, SubnetChanges
from roost.network.model.ports import Holding
from roost.network.rules import subnet_changes, subnet_updates, uses
from roost.network.rules.inventory import counts
from roost.network.rules.revisions import refuse_other_revision
from roost.network.rules.subnet_updates import SubnetContext
from roost.network.service import Networks, publications, releases
from roost.network.service.subnets import get_subnet
from roost.network.store import addresses, claims
from roost.network.store import networks as network_rows
from roost.network.store import publications as publication_rows
from roost.network.store import subnet_changes as store
from roost.network.store import subnets as subnet_rows
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.platform.errors import Conflict

ROUNDS_MAX = 20
TRIES = 3
"""How often a change is told before it is taken back: late assignments and claims on their way out are told anew."""


async def update_subnet(networks: Networks, subnet_id: str, changes: SubnetChanges) -> Subnet:
    """Change a subnet as a client; what it is capacity for is so when the call returns.

    Raises SubnetNotFound, RevisionNumberConstraintFailed, what subnet_updates.decide_update raises, SubnetInUse when
    builds have claims that would have no address, PublicationPending.
    """
    for _ in range(ROUNDS_MAX):
        async with networks.database.transaction() as tx:
            network, subnet = await _lock(tx, subnet_id)
            refuse_other_revision("Subnet", subnet_id, has=subnet.revision, wanted=changes.revision)
            if subnet.change is None:
                after = await _decide(tx, network, subnet, changes)
                begun = subnet_updates.changes_capacity(subnet, after)
                if begun:
                    change = SubnetChange(id=networks.env.new_uuid(), before=subnet_updates.state_of(subnet))
                    await _begin(tx, subnet, msgspec.structs.replace(after, change=change))
                else:
                    await store.update(tx, after)
                await network_rows.revise_networks(tx, [network.id])
                break
        await finish_change(networks, subnet_id)
    else:
        raise PublicationPending
    made: set[str] = set()
    if begun:
        crash_point("subnet.after-begin")
        made = await finish_change(networks, subnet_id)
    changed = await get_subnet(networks, subnet_id)
    if begun and change.id not in made and not _is_capacity_of(after, changed):
        raise SubnetInUse(
            f"Servers are being built with addresses of subnet {subnet_id}, or ports are being made: it keeps its "
            "pools and segment; repeat the request when they are done, or delete them."
        )
    return changed


async def finish_change(networks: Networks, subnet_id: str) -> set[str]:
    """Carry a subnet's change in progress, if it has one, to its end; its id, if it was not taken back.

    Who finds none left does not know what became of it. Raises PublicationPending.
    """
    tries = 0
    while True:
        async with networks.database.transaction() as tx:
            found = await subnet_rows.list_subnets(tx, [subnet_id])
        if not found or found[0].change is None:
            return set()
        subnet, change = found[0], found[0].change
        providers = sorted({subnet.provider_uuid, change.before.segment_id or subnet.network_id})
        refusing = await publications.publish(networks, providers)
        full = bool(refusing) or await _is_over(networks, subnet)
        tries += 1
        if full and tries < TRIES:
            await releases.work_off_all(networks)
            async with networks.database.transaction() as tx:
                await publication_rows.want(tx, providers)
            continue
        crash_point("subnet.before-finish")
        ended = await _end(networks, subnet, full=full)
        crash_point("subnet.after-finish")
        if ended:
            return set() if change.back else {change.id}


async def finish_changes(networks: Networks) -> int:
    """Carry all changes that were cut off to their end; returns how many."""
    async with networks.database.connection() as connection:
        ids = await store.list_changing(connection)
        changing = [subnet for subnet in await subnet_rows.list_subnets(connection, ids) if subnet.change is not None]
    done = 0
    for subnet in changing:
        try:
            await finish_change(networks, subnet.id)
            done += 1
        except (Conflict, PublicationPending):
            continue
    return done


async def _lock(tx: Connection, subnet_id: str) -> tuple[Network, Subnet]:
    """The network and the subnet, locked in this order. Raises SubnetNotFound."""
    found = await subnet_rows.list_subnets(tx, [subnet_id])
    network = await network_rows.lock_network(tx, found[0].network_id) if found else None
    await addresses.lock_subnets(tx, [subnet_id])
    found = await subnet_rows.list_subnets(tx, [subnet_id])
    if network is None or not found or found[0].deleting:
        raise SubnetNotFound(f"Subnet {subnet_id} could not be found.")
    return network, found[0]


async def _decide(tx: Connection, network: Network, subnet: Subnet, changes: SubnetChanges) -> Subnet:
    named = [changes.segment_id] if isinstance(changes.segment_id, str) else []
    segments = await network_rows.list_segments(tx, named)
    context = SubnetContext(
        network=network,
        peers=tuple(await subnet_rows.list_subnets(tx, network_ids=[network.id])),
        segment=segments[0] if segments else None,
        gateway_port=await store.find_gateway_port(tx, subnet),
    )
    return subnet_updates.decide_update(subnet, changes, context)


async def _begin(tx: Connection, before: Subnet, after: Subnet) -> None:
    """The subnet is as wanted, and what its pools lose is leaving them; the subnet is locked."""
    free = await store.list_free(tx, before.id)
    held = await _list_pooled(tx, before)
    begun = subnet_changes.begin_change(
        [*before.pools, *before.leaving], after.pools, free=free, held=held, counts=counts(after)
    )
    await store.set_pools(tx, after.id, after.pools, begun.leaving)
    await store.set_free(tx, after.id, free, begun.free)
    await store.set_holdings(tx, after.id, begun.held)
    await store.update(tx, after)
    await publication_rows.want(tx, sorted({before.provider_uuid, after.provider_uuid}))


async def _list_pooled(tx: Connection, subnet: Subnet) -> dict[Holding, str]:
    """What ports hold of what pools are about; where addresses follow from MACs, none comes from a pool."""
    return {} if uses.is_automatic(subnet) else await store.list_holdings(tx, subnet.id)


async def _end(networks: Networks, seen: Subnet, *, full: bool) -> bool:
    """End the change, or begin to take it back if it cannot be and is not yet; True if it has ended.

    False also when it was not the change that was seen any more.
    """
    assert seen.change is not None
    async with networks.database.transaction() as tx:
        await addresses.lock_subnets(tx, [seen.id])
        found = await subnet_rows.list_subnets(tx, [seen.id])
        if not found or found[0].change is None or found[0].change != seen.change:
            return False
        subnet = found[0]
        if full and not seen.change.back:
            back = msgspec.structs.replace(seen.change, back=True)
            await _begin(tx, subnet, msgspec.structs.replace(subnet_updates.put_back(subnet), change=back))
            return False
        free = await store.list_free(tx, subnet.id)
        held = await _list_pooled(tx, subnet)
        ended = subnet_changes.end_change(subnet.pools, free=free, held=held, counts=counts(subnet))
        await store.set_pools(tx, subnet.id, subnet.pools, ())
        await store.set_free(tx, subnet.id, free, ended.free)
        await store.set_holdings(tx, subnet.id, ended.held)
        await store.end(tx, subnet.id)
        port_by_address = {item.address: port_id for item, port_id in held.items()}
        late = sorted({port_by_address[address] for address in ended.unclaimed})
        await claims.insert_releases(tx, late)
    await releases.work_off_now(networks, late)
    return True


def _is_capacity_of(wanted: Subnet, found: Subnet) -> bool:
    """Whether nobody took the change back, as far as its capacity shows, where somebody else has ended it."""
    return not subnet_updates.changes_capacity(wanted, found)


async def _is_over(networks: Networks, subnet: Subnet) -> bool:
    """Whether more is claimed than there is, where the change takes something away."""
    assert subnet.change is not None
    if not subnet_updates.shrinks(subnet_updates.put_back(subnet), subnet):
        return False
    usages = await networks.placement.list_usages([subnet.provider_uuid])
    return any(in_use > capacity for capacity, in_use in usages.get(subnet.provider_uuid, {}).values())
