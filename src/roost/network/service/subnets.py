"""Subnets: made, shown, deleted; what changes capacity is published before the call returns."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import structlog

from roost.network.errors import (
    InvalidInput,
    NetworkIdsDontMatch,
    NetworkNotFound,
    PublicationPending,
    SegmentNotFound,
    SubnetInUse,
    SubnetNotFound,
    SubnetsNotAllAssociatedWithSegments,
)
from roost.network.model.networks import Network, Segment, Subnet, SubnetRequest
from roost.network.rules import addressing, flat, links, subnet_attributes, subnet_updates, uses
from roost.network.rules.revisions import refuse_other_revision
from roost.network.service import Networks, automatic, notices, publications, quotas, releases
from roost.network.store import addresses
from roost.network.store import networks as network_rows
from roost.network.store import ports as port_rows
from roost.network.store import publications as publication_rows
from roost.network.store import subnet_changes as change_rows
from roost.network.store import subnets as store
from roost.platform.database import Connection
from roost.platform.errors import Conflict, RoostError

SUBNETS_MAX = 1000
ROUNDS_MAX = 20

log = structlog.get_logger()


async def list_subnets(
    networks: Networks, ids: Sequence[str] | None = None, *, network_ids: Sequence[str] | None = None
) -> list[Subnet]:
    """Return subnets, by id, each with its routes to its peers: those of the ids, of the networks; None is any.

    Those on their way out are gone already.
    """
    async with networks.database.transaction(snapshot=True) as tx:
        rows = await store.list_subnets(tx, ids, network_ids=network_ids)
        found = [subnet for subnet in rows if not subnet.deleting]
        routed = sorted({subnet.network_id for subnet in found if subnet.segment_id is not None})
        peers: dict[str, list[Subnet]] = {}
        for peer in await store.list_subnets(tx, network_ids=routed) if routed else ():
            peers.setdefault(peer.network_id, []).append(peer)
    return [
        msgspec.structs.replace(item, host_routes=subnet_attributes.shown_routes(item, peers.get(item.network_id, ())))
        for item in found
    ]


async def get_subnet(networks: Networks, subnet_id: str) -> Subnet:
    """One subnet. Raises SubnetNotFound."""
    found = await list_subnets(networks, [subnet_id])
    if not found:
        raise SubnetNotFound(f"Subnet {subnet_id} could not be found.")
    return found[0]


async def create_subnet(networks: Networks, subnet: SubnetRequest) -> Subnet:
    """Keep a new subnet, checked by addressing.plan_subnet; its pools are capacity when the call returns.

    Raises NetworkNotFound, NetworkMTUSubnetConflict, SegmentNotFound, NetworkIdsDontMatch,
    SubnetsNotAllAssociatedWithSegments, InvalidInput, OverQuota.
    """
    return (await create_subnets(networks, [subnet]))[0]


async def create_subnets(networks: Networks, wanted: Sequence[SubnetRequest]) -> list[Subnet]:
    """Keep new subnets, in order, all or none; when cancelled, none. Raises what create_subnet raises."""
    new = networks.stamp(Subnet, wanted)
    providers = sorted({made.provider_uuid for made in new})
    try:
        async with networks.database.transaction() as tx:
            await _insert(networks, tx, new)
            await publication_rows.want(tx, providers)
        await publications.publish(networks, providers)
        for made in new:
            if uses.is_automatic(made):
                await automatic.spread(networks, made)
        found = {subnet.id: subnet for subnet in await list_subnets(networks, [made.id for made in new])}
    except asyncio.CancelledError:
        await _take_back(networks, new)
        raise
    for made in new:
        if made.id not in found:
            raise SubnetNotFound(f"Subnet {made.id} was deleted as soon as it was made.")
    return [found[made.id] for made in new]


async def _insert(networks: Networks, tx: Connection, new: Sequence[Subnet]) -> None:
    """Write them, each checked beside those that there are and those before it."""
    known = await network_rows.lock_networks(tx, sorted({made.network_id for made in new}))
    named = sorted({made.segment_id for made in new if made.segment_id is not None})
    segments = {segment.id: segment for segment in await network_rows.list_segments(tx, named)} if named else {}
    there: dict[str, list[Subnet]] = {network_id: [] for network_id in known}
    for subnet in await store.list_subnets(tx, network_ids=list(known)):
        there[subnet.network_id].append(subnet)
    for made in new:
        if made.network_id not in known:
            raise NetworkNotFound(f"Network {made.network_id} could not be found.")
        others = there[made.network_id]
        flat.refuse_subnet(known[made.network_id], made)
        links.refuse_small_mtu(known[made.network_id].mtu, [made])
        # Whatever becomes of a change in progress: the association of a network's only subnet may be taken back.
        for among in (others, subnet_updates.taken_back(others)):
            _refuse_wrong_segment(known[made.network_id], made, among, segments)
        _refuse_overlap(made, others)
        others.append(made)
    await quotas.refuse_over(networks, tx, "subnet", Counter(made.project_id for made in new))
    for made in new:
        await store.insert_subnet(tx, made, spreading=uses.is_automatic(made))
    await network_rows.revise_networks(tx, list(known))


async def _take_back(networks: Networks, made: Sequence[Subnet]) -> None:
    """Whoever asked for them does not wait any more."""
    for subnet in made:
        try:
            await delete_subnet(networks, subnet.id)
        except SubnetNotFound:
            continue  # it was cancelled before they were there, or somebody was faster
        except RoostError as error:
            log.warning("a subnet whose request was cancelled stays", subnet=subnet.id, reason=str(error))


async def delete_subnet(networks: Networks, subnet_id: str, *, revision: int | None = None) -> None:
    """Delete a subnet: first it is capacity no more, then it goes. revision: the one it must have.

    One whose addresses follow from MACs is no capacity: it goes at once, and they with it. Raises SubnetNotFound,
    RevisionNumberConstraintFailed, SubnetInUse while ports (there: routers' interfaces) have addresses in it, or builds
    have claims on the last of a segment.
    """
    async with networks.database.transaction() as tx:
        found = await store.list_subnets(tx, [subnet_id])
    if any(map(uses.is_automatic, found)):
        await _delete_automatic(networks, found[0], revision)
        return
    async with networks.database.transaction() as tx:
        subnet = await _lock_for_delete(tx, subnet_id, revision)
        if await addresses.is_subnet_held(tx, subnet_id):
            who = "Ports" if subnet.cell is None else "Servers"  # a flat network has no ports
            raise SubnetInUse(f"{who} have addresses in subnet {subnet_id}: delete them first.")
        await store.mark_subnet(tx, subnet_id, deleting=True)
        await publication_rows.want(tx, [subnet.provider_uuid])
    await finish_subnet(networks, subnet_id)


async def _delete_automatic(networks: Networks, seen: Subnet, revision: int | None) -> None:
    """Ports are locked before subnets: who got an address there just before that is locked in another round."""
    subnet_id = seen.id
    for _ in range(ROUNDS_MAX):
        async with networks.database.transaction() as tx:
            await network_rows.hold_networks(tx, [seen.network_id])
            holders = await port_rows.lock_ports(tx, await change_rows.list_ports(tx, [subnet_id]))
            subnet = await _lock_for_delete(tx, subnet_id, revision)
            if not holders.keys() >= set(await change_rows.list_ports(tx, [subnet_id])):
                continue
            servers = await automatic.drop(tx, subnet, holders.values())
            await store.delete_subnets(tx, [subnet.id])
            await network_rows.revise_networks(tx, [subnet.network_id])
            await publication_rows.want(tx, [subnet.provider_uuid])
            break
    else:
        raise SubnetInUse(f"Ports get addresses in subnet {subnet_id} all the time: repeat the request.")
    await notices.tell_now(networks, servers)
    await publications.publish(networks, [subnet.provider_uuid])


async def finish_subnet(networks: Networks, subnet_id: str) -> None:
    """Carry the delete of a marked subnet to its end, or take it back. Raises SubnetInUse, PublicationPending."""
    while True:
        async with networks.database.transaction() as tx:
            mark = await store.find_mark(tx, subnet_id)
            found = await store.list_subnets(tx, [subnet_id])
        if not found:
            return
        (subnet,) = found
        claimed = await _is_claimed(networks, subnet)
        if claimed:
            # Claims on their way back are no reason to keep it.
            await releases.work_off_all(networks)
            async with networks.database.transaction() as tx:
                await publication_rows.want(tx, [subnet.provider_uuid])
            claimed = await _is_claimed(networks, subnet)
        async with networks.database.transaction() as tx:
            await network_rows.hold_networks(tx, [subnet.network_id])
            marked = await _lock_subnet(tx, subnet_id)
            if marked is None:
                return
            if marked.deleting and await store.find_mark(tx, subnet_id) != mark:
                continue  # it was marked anew (R38)
            # One that is not marked any more was in use when somebody else came to the end.
            used = not marked.deleting or claimed or await addresses.is_subnet_held(tx, subnet_id)
            if used:
                await store.mark_subnet(tx, subnet_id, deleting=False)
            else:
                await store.delete_subnets(tx, [subnet_id])
                await network_rows.revise_networks(tx, [subnet.network_id])
            await publication_rows.want(tx, [subnet.provider_uuid])
        break
    await publications.publish(networks, [subnet.provider_uuid])
    if used:
        raise SubnetInUse(f"Servers are being built with addresses of subnet {subnet_id}: delete them first.")


async def _is_claimed(networks: Networks, subnet: Subnet) -> bool:
    """Publish the subnet's providers; return whether more is claimed than is left without the subnet."""
    refusing = await publications.publish(networks, [subnet.provider_uuid])
    usages = await networks.placement.list_usages([subnet.provider_uuid])
    return bool(refusing) or any(
        in_use > capacity for capacity, in_use in usages.get(subnet.provider_uuid, {}).values()
    )


async def finish_subnets(networks: Networks) -> int:
    """Carry all deletes of subnets that were cut off to their end; returns how many went."""
    async with networks.database.connection() as connection:
        ids = await store.list_subnets_deleting(connection)
    done = 0
    for subnet_id in ids:
        try:
            await finish_subnet(networks, subnet_id)
            done += 1
        except (Conflict, PublicationPending):
            continue
    return done


async def lock_network(tx: Connection, network_id: str) -> Network:
    """The network, held as it is. Raises NetworkNotFound."""
    network = await network_rows.lock_network(tx, network_id)
    if network is None:
        raise NetworkNotFound(f"Network {network_id} could not be found.")
    return network


async def _lock_for_delete(tx: Connection, subnet_id: str, revision: int | None) -> Subnet:
    """The subnet, locked. Raises SubnetNotFound, RevisionNumberConstraintFailed."""
    subnet = await _lock_subnet(tx, subnet_id)
    if subnet is None:
        raise SubnetNotFound(f"Subnet {subnet_id} could not be found.")
    refuse_other_revision("Subnet", subnet_id, has=subnet.revision, wanted=revision)
    return subnet


async def _lock_subnet(tx: Connection, subnet_id: str) -> Subnet | None:
    await addresses.lock_subnets(tx, [subnet_id])
    found = await store.list_subnets(tx, [subnet_id])
    return found[0] if found else None


def _refuse_wrong_segment(
    network: Network, subnet: Subnet, there: Sequence[Subnet], segments: Mapping[str, Segment]
) -> None:
    """there: the network's subnets; segments: by id, the subnet's if it exists."""
    segmented = any(other.segment_id is not None for other in there)
    others = [other for other in there if not uses.needs_no_segment(other)]
    exempt = subnet.segment_id is None and uses.needs_no_segment(subnet)
    if others and not exempt and segmented != (subnet.segment_id is not None):
        said = "belong to segments: name one as segment_id" if segmented else "do not: leave segment_id out"
        raise SubnetsNotAllAssociatedWithSegments(
            f"Either all subnets of a network belong to segments, or none does; those of network {network.id} {said}."
        )
    if subnet.segment_id is None and not exempt and len(network.segment_ids) > 1:
        raise SubnetsNotAllAssociatedWithSegments(
            f"Network {network.id} has {len(network.segment_ids)} segments: name the subnet's as segment_id."
        )
    if subnet.segment_id is None:
        return
    if subnet.segment_id not in segments:
        raise SegmentNotFound(f"Segment {subnet.segment_id} could not be found.")
    if segments[subnet.segment_id].network_id != network.id:
        raise NetworkIdsDontMatch(f"Segment {subnet.segment_id} is not of network {network.id}.")


def _refuse_overlap(subnet: Subnet, there: Sequence[Subnet]) -> None:
    if len(there) >= SUBNETS_MAX:
        raise InvalidInput(f"A network has at most {SUBNETS_MAX} subnets.")
    for other in there:
        if addressing.overlap(subnet.cidr, other.cidr):
            raise InvalidInput(
                f"Requested subnet with cidr: {subnet.cidr} for network: {subnet.network_id} overlaps with another "
                f"subnet: {other.id} ({other.cidr})."
            )
