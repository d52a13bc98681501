"""Networks and segments: made, shown, changed, deleted."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from roost.network.errors import (
    InvalidSharedSetting,
    NetworkInUse,
    NetworkNotFound,
    SegmentInUse,
    SegmentNotFound,
    SubnetsNotAllAssociatedWithSegments,
)
from roost.network.model.networks import (
    Changes,
    Network,
    NetworkChanges,
    NetworkRequest,
    Segment,
    SegmentRequest,
)
from roost.network.rules import flat, links, uses
from roost.network.service import Networks, capacity, pick, pick_revision, quotas
from roost.network.service.capacity import Taken
from roost.network.service.subnets import take
from roost.network.store import addresses, ports, resources
from roost.network.store import networks as store
from roost.network.store import notices as notice_rows
from roost.network.store import publications as publication_rows
from roost.platform.database import Connection, reading
from roost.platform.structs import with_changes


async def list_networks(networks: Networks, ids: Sequence[str] | None = None) -> list[Network]:
    """Return the networks of these ids that exist, by id; None is all."""
    async with networks.database.transaction(snapshot=True) as tx:
        return await _with_links(tx, await store.list_networks(tx, ids))


async def get_network(networks: Networks, network_id: str) -> Network:
    """Return one network. Raises NetworkNotFound."""
    return pick(await list_networks(networks, [network_id]), NetworkNotFound, "Network", network_id)


list_reachable = reading(store.list_reachable)
list_segments = reading(store.list_segments)


async def create_networks(networks: Networks, wanted: Sequence[NetworkRequest]) -> list[Network]:
    """Keep new networks, all or none; return them in order. Each link of a network becomes a segment.

    Raises InvalidInput for a flat network with provider attributes, OverQuota, what links.refuse_taken raises.
    """
    new = networks.stamp(Network, wanted)
    for network in new:
        flat.refuse_network(network)
    wanted_segments = [
        SegmentRequest(network_id=network.id, name=None, description="", **msgspec.structs.asdict(link))
        for network in new
        for link in network.links
    ]
    segments = networks.stamp(Segment, wanted_segments)
    async with networks.database.transaction() as tx:
        await quotas.refuse_over(networks, tx, "network", Counter(network.project_id for network in new))
        await resources.insert(tx, "network", new)
        await _insert_segments(tx, segments)
        networks_read = await _with_links(tx, await store.list_networks(tx, [network.id for network in new]))
    by_id = {network.id: network for network in networks_read}
    return [by_id[network.id] for network in new]


async def update_network(networks: Networks, network_id: str, changes: NetworkChanges) -> Network:
    """Change a network.

    Raises NetworkNotFound, RevisionNumberConstraintFailed, InvalidInput for other provider attributes than it has,
    InvalidSharedSetting while other projects have ports on it, NetworkMTUSubnetConflict.
    """
    async with networks.database.transaction() as tx:
        (network,) = await _with_links(tx, [await _lock_network(tx, network_id, changes.revision)])
        links.refuse_other_link(network, changes.link)
        if network.shared and changes.shared is False:
            others = await ports.list_projects(tx, network_id) - {network.project_id}
            if others:
                raise InvalidSharedSetting(
                    f"{len(others)} other projects have ports on network {network_id}: it stays shared while they do."
                )
        if changes.mtu is not None:
            links.refuse_small_mtu(changes.mtu, await store.list_subnets(tx, network_ids=[network_id]))
        await resources.update(tx, "network", [with_changes(network, changes)])
        await notice_rows.note_networks(tx, [network_id] if changes.mtu not in (None, network.mtu) else [])
    return await get_network(networks, network_id)


async def create_segments(networks: Networks, wanted: Sequence[SegmentRequest]) -> list[Segment]:
    """Keep new segments, all or none; return them in order.

    A segment's provider and host aggregate are made with its first subnet.

    Raises NetworkNotFound, InvalidInput for a flat network, SubnetsNotAllAssociatedWithSegments when the network has
    subnets without a segment, what links.refuse_taken raises.
    """
    new = networks.stamp(Segment, wanted)
    async with networks.database.transaction() as tx:
        networks_locked = await store.lock_networks(tx, sorted({segment.network_id for segment in new}))
        subnets = await store.list_subnets(tx, network_ids=list(networks_locked))
        plain = {
            subnet.network_id for subnet in subnets if subnet.segment_id is None and not uses.needs_no_segment(subnet)
        }
        for segment in new:
            network = networks_locked.get(segment.network_id)
            if network is None:
                raise NetworkNotFound(f"Network {segment.network_id} could not be found.")
            flat.refuse_segment(network)
            if network.id in plain:
                raise SubnetsNotAllAssociatedWithSegments(
                    f"Network {network.id} has subnets without a segment: delete them first."
                )
        await _insert_segments(tx, new)
    return new


async def update_segment(networks: Networks, segment_id: str, changes: Changes) -> Segment:
    """Change the name or the description of a segment. Raises SegmentNotFound, RevisionNumberConstraintFailed."""
    async with networks.database.transaction() as tx:
        segment = with_changes(await _lock_segment(tx, segment_id, changes.revision), changes)
        await resources.update(tx, "segment", [msgspec.structs.replace(segment, name=segment.name or None)])
        return (await store.list_segments(tx, [segment_id]))[0]


async def delete_network(networks: Networks, network_id: str, *, revision: int | None = None) -> None:
    """Delete a network with its segments and subnets, in one transaction.

    Raises NetworkNotFound, RevisionNumberConstraintFailed, NetworkInUse while it has ports, or claims of
    builds or of new ports.
    """
    async with networks.database.transaction() as tx:
        _, providers = await _lock_unused(tx, network_id, revision)

    async def change(tx: Connection) -> Taken:
        network, providers = await _lock_unused(tx, network_id, revision)
        await resources.delete(tx, "subnet", network.subnet_ids)
        await resources.delete(tx, "segment", network.segment_ids)
        await resources.delete(tx, "network", [network_id])
        return Taken(provider_uuids=providers)

    in_use = (
        f"Network {network_id} still has addresses in use: servers are being built or ports made with them; repeat the "
        "request when they are done, or delete them."
    )
    await take(networks, providers, change, NetworkInUse(in_use))


async def _lock_unused(tx: Connection, network_id: str, revision: int | None) -> tuple[Network, list[str]]:
    """Lock the network and its subnets; return it and the providers that it may have.

    Nobody gets addresses of it before the transaction ends. Raises as delete_network does.
    """
    network = await _lock_network(tx, network_id, revision)
    port_count, nics_held = await ports.count(tx, network_id)
    if port_count and network.flat:
        raise NetworkInUse(f"Servers have addresses of network {network_id}: delete them first.")
    if port_count:
        raise NetworkInUse(
            f"Unable to complete operation on network {network_id}. There are one or more ports still in use on the "
            f"network: delete the {port_count} first."
        )
    if nics_held:
        raise NetworkInUse(
            f"Guests still have NICs on network {network_id} that their servers lost, or whose servers are not known "
            f"({nics_held}): repeat the request once their hosts have let them go."
        )
    await addresses.lock_subnets(tx, network.subnet_ids)
    return network, [network_id, *(network.subnet_ids if network.flat else network.segment_ids)]


async def delete_segment(networks: Networks, segment_id: str, *, revision: int | None = None) -> None:
    """Delete a segment with its host aggregate.

    Raises SegmentNotFound, RevisionNumberConstraintFailed, SegmentInUse while it has subnets.
    """
    async with networks.database.transaction() as tx:
        await _lock_segment(tx, segment_id, revision)
        subnets = await store.list_subnets(tx, provider_uuids=[segment_id])
        if subnets:
            raise SegmentInUse(f"Segment {segment_id} still has {len(subnets)} subnets: delete them first.")
        await resources.delete(tx, "segment", [segment_id])
        await publication_rows.want(tx, [segment_id])
    await capacity.publish(networks, [segment_id])


async def _lock_network(tx: Connection, network_id: str, revision: int | None) -> Network:
    """Lock the network and return it. Raises NetworkNotFound, RevisionNumberConstraintFailed."""
    networks_locked = await store.lock_networks(tx, [network_id])
    return pick_revision(list(networks_locked.values()), NetworkNotFound, "Network", network_id, revision)


async def _lock_segment(tx: Connection, segment_id: str, revision: int | None) -> Segment:
    """Lock the segment's network; return the segment. Raises SegmentNotFound, RevisionNumberConstraintFailed."""
    segments_read = await store.list_segments(tx, [segment_id])
    if segments_read:
        await store.lock_networks(tx, [segments_read[0].network_id])
        segments_read = await store.list_segments(tx, [segment_id])  # as it is now that nobody changes it
    return pick_revision(segments_read, SegmentNotFound, "Segment", segment_id, revision)


async def _insert_segments(tx: Connection, new: Sequence[Segment]) -> None:
    """Write new segments; their times keep this order. Their networks are locked, or new."""
    links_wanted = links.exclusive(segment.link for segment in new)
    if links_wanted:
        links.refuse_taken(links_wanted, await store.lock_links(tx, links_wanted))
    ordered = [
        msgspec.structs.replace(segment, created_at=segment.created_at + timedelta(microseconds=index))
        for index, segment in enumerate(new)
    ]
    await resources.insert(tx, "segment", ordered)


async def _with_links(tx: Connection, networks_read: Sequence[Network]) -> list[Network]:
    """Return the networks with the links of their segments, in their order."""
    segments = await store.list_segments(tx, network_ids=[network.id for network in networks_read])
    links_by_id = {segment.id: segment.link for segment in segments}
    return [
        msgspec.structs.replace(network, links=tuple(links_by_id[segment_id] for segment_id in network.segment_ids))
        for network in networks_read
    ]
