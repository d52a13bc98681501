"""Networks, segments and subnets: made, shown, deleted; what changes capacity is published before the call returns."""

from collections.abc import Sequence

import msgspec

from roost.network import addressing
from roost.network.errors import (
    InvalidInput,
    NetworkIdsDontMatch,
    NetworkInUse,
    NetworkNotFound,
    PublicationPending,
    SegmentInUse,
    SegmentNotFound,
    SubnetInUse,
    SubnetNotFound,
    SubnetsNotAllAssociatedWithSegments,
)
from roost.network.model import Network, Segment, Subnet
from roost.network.service import Networks, publications
from roost.network.store import addresses, ports
from roost.network.store import networks as store
from roost.network.store import publications as publication_rows
from roost.platform.database import Connection

SUBNETS_MAX = 1000


async def list_networks(networks: Networks, ids: Sequence[str] | None = None) -> list[Network]:
    """Networks by id, or all."""
    async with networks.database.transaction() as tx:
        return await store.list_networks(tx, ids)


async def list_segments(networks: Networks, ids: Sequence[str] | None = None) -> list[Segment]:
    """Segments by id, or all."""
    async with networks.database.transaction() as tx:
        return await store.list_segments(tx, ids)


async def list_subnets(networks: Networks, ids: Sequence[str] | None = None) -> list[Subnet]:
    """Subnets by id, or all; those on their way out are gone already."""
    async with networks.database.transaction() as tx:
        return [subnet for subnet in await store.list_subnets(tx, ids) if not subnet.deleting]


async def create_network(networks: Networks, network: Network) -> Network:
    """Keep a new network; its id and times are given here."""
    now = networks.env.now()
    made = msgspec.structs.replace(network, id=networks.env.new_uuid(), created_at=now, updated_at=now)
    async with networks.database.transaction() as tx:
        await store.insert_network(tx, made)
    return made


async def create_segment(networks: Networks, segment: Segment) -> Segment:
    """Keep a new segment, with its host aggregate. Raises NetworkNotFound, InvalidInput when the network is plain."""
    now = networks.env.now()
    made = msgspec.structs.replace(segment, id=networks.env.new_uuid(), created_at=now, updated_at=now)
    async with networks.database.transaction() as tx:
        network = await _lock_network(tx, made.network_id)
        if network.physical_network is not None:
            raise InvalidInput(
                f"Network {network.id} has a physical network of its own: create it without "
                "provider:physical_network, and give each of its segments one."
            )
        if network.subnet_ids and not network.segmented:
            raise SubnetsNotAllAssociatedWithSegments(
                f"Network {network.id} has subnets without a segment: delete them first."
            )
        await store.insert_segment(tx, made)
        await publication_rows.want(tx, [made.id])
    await publications.publish(networks, [made.id])
    return made


async def create_subnet(networks: Networks, subnet: Subnet) -> Subnet:
    """Keep a new subnet, checked by addressing.plan_subnet; its pools are capacity when the call returns.

    Raises NetworkNotFound, SegmentNotFound, NetworkIdsDontMatch, SubnetsNotAllAssociatedWithSegments, InvalidInput.
    """
    now = networks.env.now()
    made = msgspec.structs.replace(subnet, id=networks.env.new_uuid(), created_at=now, updated_at=now)
    async with networks.database.transaction() as tx:
        network = await _lock_network(tx, made.network_id)
        await _refuse_wrong_segment(tx, network, made)
        await _refuse_overlap(tx, made)
        await store.insert_subnet(tx, made)
        await publication_rows.want(tx, [made.provider_uuid])
    await publications.publish(networks, [made.provider_uuid])
    return made


async def delete_network(networks: Networks, network_id: str) -> None:
    """Delete a network with its segments and subnets. Raises NetworkNotFound, NetworkInUse while it has ports."""
    async with networks.database.transaction() as tx:
        network = await _lock_network(tx, network_id)
        held = await ports.count(tx, network_id)
        if held:
            raise NetworkInUse(f"Network {network_id} still has {held} ports: delete them first.")
    for subnet_id in network.subnet_ids:
        try:
            await delete_subnet(networks, subnet_id)
        except SubnetNotFound:
            continue
        except SubnetInUse as error:
            raise NetworkInUse(f"Network {network_id} still has addresses in use: {error}") from error
    async with networks.database.transaction() as tx:
        network = await _lock_network(tx, network_id)
        if network.subnet_ids or await ports.count(tx, network_id):
            raise NetworkInUse(f"Network {network_id} got ports or subnets while it was being deleted: delete them.")
        providers = [segment.id for segment in await store.list_segments(tx, network_ids=[network_id])]
        await store.delete_segments(tx, providers)
        providers = providers or [network_id]
        await store.delete_network(tx, network_id)
        await publication_rows.want(tx, providers)
    await publications.publish(networks, providers)


async def delete_segment(networks: Networks, segment_id: str) -> None:
    """Delete a segment with its host aggregate. Raises SegmentNotFound, SegmentInUse while it has subnets."""
    async with networks.database.transaction() as tx:
        found = await store.list_segments(tx, [segment_id])
        if not found:
            raise SegmentNotFound(f"Segment {segment_id} could not be found.")
        await _lock_network(tx, found[0].network_id)
        on_it = [
            s for s in await store.list_subnets(tx, network_ids=[found[0].network_id]) if s.segment_id == segment_id
        ]
        if on_it:
            raise SegmentInUse(f"Segment {segment_id} still has {len(on_it)} subnets: delete them first.")
        await store.delete_segments(tx, [segment_id])
        await publication_rows.want(tx, [segment_id])
    await publications.publish(networks, [segment_id])


async def delete_subnet(networks: Networks, subnet_id: str) -> None:
    """Delete a subnet: first it is capacity no more, then it goes.

    Raises SubnetNotFound, SubnetInUse while ports have addresses in it or builds have claims on the last of a segment.
    """
    async with networks.database.transaction() as tx:
        subnet = await _lock_subnet(tx, subnet_id)
        if subnet is None:
            raise SubnetNotFound(f"Subnet {subnet_id} could not be found.")
        if await addresses.is_subnet_held(tx, subnet_id):
            raise SubnetInUse(f"Ports have addresses in subnet {subnet_id}: delete them first.")
        await store.mark_subnet(tx, subnet_id, deleting=True)
        await publication_rows.want(tx, [subnet.provider_uuid])
    await finish_subnet(networks, subnet)


async def finish_subnet(networks: Networks, subnet: Subnet) -> None:
    """Carry the delete of a marked subnet to its end, or take it back. Raises SubnetInUse, PublicationPending."""
    claimed = bool(await publications.publish(networks, [subnet.provider_uuid]))
    usages = await networks.placement.list_usages([subnet.provider_uuid])
    for capacity, in_use in usages.get(subnet.provider_uuid, {}).values():
        claimed = claimed or in_use > capacity
    async with networks.database.transaction() as tx:
        marked = await _lock_subnet(tx, subnet.id)
        if marked is None or not marked.deleting:
            return
        used = claimed or await addresses.is_subnet_held(tx, subnet.id)
        if used:
            await store.mark_subnet(tx, subnet.id, deleting=False)
            await publication_rows.want(tx, [subnet.provider_uuid])
        else:
            await store.delete_subnet(tx, subnet.id)
    if used:
        await publications.publish(networks, [subnet.provider_uuid])
        raise SubnetInUse(f"Servers are being built with addresses of subnet {subnet.id}: delete them first.")


async def finish_subnets(networks: Networks) -> int:
    """Carry all deletes of subnets that were cut off to their end; returns how many went."""
    async with networks.database.transaction() as tx:
        ids = await store.list_subnets_deleting(tx)
        subnets = await store.list_subnets(tx, ids)
    done = 0
    for subnet in subnets:
        try:
            await finish_subnet(networks, subnet)
            done += 1
        except (SubnetInUse, PublicationPending):
            continue
    return done


async def _lock_network(tx: Connection, network_id: str) -> Network:
    network = await store.lock_network(tx, network_id)
    if network is None:
        raise NetworkNotFound(f"Network {network_id} could not be found.")
    return network


async def _lock_subnet(tx: Connection, subnet_id: str) -> Subnet | None:
    await addresses.lock_subnets(tx, [subnet_id])
    found = await store.list_subnets(tx, [subnet_id])
    return found[0] if found else None


async def _refuse_wrong_segment(tx: Connection, network: Network, subnet: Subnet) -> None:
    if network.segmented != (subnet.segment_id is not None):
        said = "has segments: name one as segment_id" if network.segmented else "has no segments: leave segment_id out"
        raise SubnetsNotAllAssociatedWithSegments(f"Network {network.id} {said}.")
    if subnet.segment_id is None:
        return
    found = await store.list_segments(tx, [subnet.segment_id])
    if not found:
        raise SegmentNotFound(f"Segment {subnet.segment_id} could not be found.")
    if found[0].network_id != network.id:
        raise NetworkIdsDontMatch(f"Segment {subnet.segment_id} is not of network {network.id}.")


async def _refuse_overlap(tx: Connection, subnet: Subnet) -> None:
    others = await store.list_subnets(tx, network_ids=[subnet.network_id])
    if len(others) >= SUBNETS_MAX:
        raise InvalidInput(f"A network has at most {SUBNETS_MAX} subnets.")
    for other in others:
        if addressing.overlap(subnet.cidr, other.cidr):
            raise InvalidInput(
                f"Requested subnet with cidr: {subnet.cidr} for network: {subnet.network_id} overlaps with subnet "
                f"{other.id} ({other.cidr})."
            )
