"""Networks and segments: made, shown, deleted."""

from collections.abc import Sequence

import msgspec

from roost.network import flat
from roost.network.errors import (
    NetworkInUse,
    NetworkNotFound,
    SegmentInUse,
    SegmentNotFound,
    SubnetInUse,
    SubnetNotFound,
    SubnetsNotAllAssociatedWithSegments,
)
from roost.network.model import Network, Segment
from roost.network.service import Networks, publications
from roost.network.service.subnets import delete_subnet, lock_network
from roost.network.store import networks as store
from roost.network.store import ports
from roost.network.store import publications as publication_rows
from roost.network.store import subnets as subnet_rows


async def list_networks(networks: Networks, ids: Sequence[str] | None = None) -> list[Network]:
    """Networks by id, or all."""
    async with networks.database.transaction() as tx:
        return await store.list_networks(tx, ids)


async def get_network(networks: Networks, network_id: str) -> Network:
    """One network. Raises NetworkNotFound."""
    found = await list_networks(networks, [network_id])
    if not found:
        raise NetworkNotFound(f"Network {network_id} could not be found.")
    return found[0]


async def list_segments(networks: Networks, ids: Sequence[str] | None = None) -> list[Segment]:
    """Segments by id, or all."""
    async with networks.database.transaction() as tx:
        return await store.list_segments(tx, ids)


async def create_network(networks: Networks, network: Network) -> Network:
    """Keep a new network; its id and times are given here. One with provider attributes has a segment with them."""
    now = networks.env.now()
    made = msgspec.structs.replace(network, id=networks.env.new_uuid(), created_at=now, updated_at=now)
    flat.refuse_network(made)
    async with networks.database.transaction() as tx:
        await store.insert_network(tx, made)
        if made.network_type is not None:
            await store.insert_segment(tx, _first_segment(networks, made))
    return await get_network(networks, made.id)


async def create_segment(networks: Networks, segment: Segment) -> Segment:
    """Keep a new segment; its provider and host aggregate come with its first subnet.

    Raises NetworkNotFound, SubnetsNotAllAssociatedWithSegments when the network has subnets without a segment.
    """
    now = networks.env.now()
    made = msgspec.structs.replace(segment, id=networks.env.new_uuid(), created_at=now, updated_at=now)
    async with networks.database.transaction() as tx:
        network = await lock_network(tx, made.network_id)
        flat.refuse_segment(network)
        if network.subnet_ids and not network.segmented:
            raise SubnetsNotAllAssociatedWithSegments(
                f"Network {network.id} has subnets without a segment: delete them first."
            )
        await store.insert_segment(tx, made)
    return made


async def delete_network(networks: Networks, network_id: str) -> None:
    """Delete a network with its segments and subnets. Raises NetworkNotFound, NetworkInUse while it has ports."""
    async with networks.database.transaction() as tx:
        network = await lock_network(tx, network_id)
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
        network = await lock_network(tx, network_id)
        if network.subnet_ids or await ports.count(tx, network_id):
            raise NetworkInUse(f"Network {network_id} got ports or subnets while it was being deleted: delete them.")
        providers = [segment.id for segment in await store.list_segments(tx, network_ids=[network_id])]
        await store.delete_segments(tx, providers)
        await store.delete_network(tx, network_id)
        providers.append(network_id)
        await publication_rows.want(tx, providers)
    await publications.publish(networks, providers)


async def delete_segment(networks: Networks, segment_id: str) -> None:
    """Delete a segment with its host aggregate. Raises SegmentNotFound, SegmentInUse while it has subnets."""
    async with networks.database.transaction() as tx:
        found = await store.list_segments(tx, [segment_id])
        if not found:
            raise SegmentNotFound(f"Segment {segment_id} could not be found.")
        await lock_network(tx, found[0].network_id)
        on_it = [
            s
            for s in await subnet_rows.list_subnets(tx, network_ids=[found[0].network_id])
            if s.segment_id == segment_id
        ]
        if on_it:
            raise SegmentInUse(f"Segment {segment_id} still has {len(on_it)} subnets: delete them first.")
        await store.delete_segments(tx, [segment_id])
        await publication_rows.want(tx, [segment_id])
    await publications.publish(networks, [segment_id])


def _first_segment(networks: Networks, network: Network) -> Segment:
    assert network.network_type is not None
    return Segment(
        id=networks.env.new_uuid(),
        network_id=network.id,
        name=None,
        description="",
        network_type=network.network_type,
        physical_network=network.physical_network,
        segmentation_id=network.segmentation_id,
        revision=1,
        created_at=network.created_at,
        updated_at=network.updated_at,
    )
