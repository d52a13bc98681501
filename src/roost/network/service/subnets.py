"""Subnets: made, shown, changed, deleted. The ledger knows a change of capacity when the call returns."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import structlog

from roost.network.errors import NetworkNotFound, SubnetInUse, SubnetNotFound
from roost.network.model.networks import Subnet, SubnetChanges, SubnetRequest
from roost.network.model.ports import Port, PortFilter
from roost.network.rules import addressing, uses
from roost.network.rules import subnets as rules
from roost.network.rules.capacity import changes_capacity, counts
from roost.network.service import Networks, addresses, capacity, notices, pick, pick_revision, quotas, releases
from roost.network.service.capacity import CapacityInUse, Taken
from roost.network.store import addresses as address_rows
from roost.network.store import networks as store
from roost.network.store import notices as notice_rows
from roost.network.store import ports as port_rows
from roost.network.store import publications as publication_rows
from roost.network.store import resources
from roost.platform.database import Connection
from roost.platform.errors import RoostError
from roost.platform.grouping import grouped
from roost.platform.retries import retried

ROUNDS_MAX = 20
PORTS_PAGE = 500

log = structlog.get_logger()


async def list_subnets(networks: Networks, ids: Sequence[str] | None = None) -> list[Subnet]:
    """Return subnets by id, each with its routes to its peers. ids: None for all."""
    async with networks.database.transaction(snapshot=True) as tx:
        subnets_read = await store.list_subnets(tx, ids)
        routed = sorted({subnet.network_id for subnet in subnets_read if subnet.segment_id is not None})
        peers_read = await store.list_subnets(tx, network_ids=routed) if routed else []
    peers = grouped((peer.network_id, peer) for peer in peers_read)
    return [
        msgspec.structs.replace(item, host_routes=rules.shown_routes(item, peers.get(item.network_id, ())))
        for item in subnets_read
    ]


async def get_subnet(networks: Networks, subnet_id: str) -> Subnet:
    """Return one subnet. Raises SubnetNotFound."""
    return pick(await list_subnets(networks, [subnet_id]), SubnetNotFound, "Subnet", subnet_id)


async def create_subnets(networks: Networks, wanted: Sequence[SubnetRequest]) -> list[Subnet]:
    """Keep new subnets that rules.plan_subnet has checked, all or none; return them in order.

    Their pools are capacity when the call returns. A call that is cancelled keeps none. Raises NetworkNotFound, what
    rules.refuse_new raises, OverQuota.
    """
    new = networks.stamp(Subnet, wanted)
    providers = sorted({subnet.provider_uuid for subnet in new})
    try:
        async with networks.database.transaction() as tx:
            await _insert(networks, tx, new)
            await publication_rows.want(tx, providers)
        await capacity.publish(networks, providers)
        for subnet in new:
            if uses.is_automatic(subnet):
                await spread(networks, subnet)
        subnets_by_id = {subnet.id: subnet for subnet in await list_subnets(networks, [subnet.id for subnet in new])}
    except asyncio.CancelledError:
        await _take_back(networks, new)
        raise
    for subnet in new:
        if subnet.id not in subnets_by_id:
            raise SubnetNotFound(f"Subnet {subnet.id} was deleted as soon as it was made.")
    return [subnets_by_id[subnet.id] for subnet in new]


async def _insert(networks: Networks, tx: Connection, new: Sequence[Subnet]) -> None:
    """Write new subnets. Each is checked beside its network's subnets and the new ones before it."""
    known = await store.lock_networks(tx, sorted({subnet.network_id for subnet in new}))
    named = sorted({subnet.segment_id for subnet in new if subnet.segment_id is not None})
    segments = {segment.id: segment for segment in await store.list_segments(tx, named)} if named else {}
    subnets_known = await store.list_subnets(tx, network_ids=list(known))
    peers_by_network = grouped((subnet.network_id, subnet) for subnet in subnets_known)
    for subnet in new:
        if subnet.network_id not in known:
            raise NetworkNotFound(f"Network {subnet.network_id} could not be found.")
        peers = peers_by_network.setdefault(subnet.network_id, [])
        rules.refuse_new(known[subnet.network_id], subnet, peers, segments)
        peers.append(subnet)
    await quotas.refuse_over(networks, tx, "subnet", Counter(subnet.project_id for subnet in new))
    written = [msgspec.structs.replace(subnet, spreading=uses.is_automatic(subnet)) for subnet in new]
    await resources.insert(tx, "subnet", written)
    await addresses.add_pools(tx, new)
    await resources.touch(tx, "network", list(known))
    await notice_rows.note_networks(tx, sorted({subnet.network_id for subnet in new if subnet.segment_id}))


async def _take_back(networks: Networks, new: Sequence[Subnet]) -> None:
    """Delete those of the new subnets that were written before their request was cancelled."""
    for subnet in new:
        try:
            await delete_subnet(networks, subnet.id)
        except SubnetNotFound:
            continue  # it was cancelled before they were there, or somebody was faster
        except RoostError as error:
            log.warning("a subnet whose request was cancelled stays", subnet=subnet.id, reason=str(error))


async def spread(networks: Networks, subnet: Subnet) -> None:
    """Assign an address of the subnet, which follows from the MAC, to every port with addresses of its provider.

    The subnet is committed, so whoever assigns from now on sees it. Whoever assigns just now holds its port's lock, and
    is waited for. A port that a build holds is left to the reconciler, which comes back until none is left. Its server
    shows what the build bound. Source: Neutron, add_auto_addrs_on_network_ports.
    """
    after, building = "", False
    while True:
        async with networks.database.transaction() as tx:
            page = await port_rows.list_ids(tx, after=after, limit=PORTS_PAGE, network_id=subnet.network_id)
            if not page:
                if not building:
                    await store.finish_spreading(tx, subnet.id)
                return
            after = page[-1]
            wanting = [port for port in (await port_rows.lock_ports(tx, page)).values() if _has_none(port, subnet)]
            ports = [port for port in wanting if port.reserved_from is None]
            building = building or len(ports) < len(wanting)
            if not await address_rows.lock_subnets(tx, [subnet.id]):
                return  # it was deleted meanwhile
            automatic = [item for port in ports for item in uses.automatic(port, [subnet])]
            given_by_port = await addresses.hand_out(networks, tx, (), automatic)
            changed = [port for port in ports if given_by_port.get(port.id)]
            await resources.touch(tx, "port", [port.id for port in changed])
            servers = await notices.note(tx, changed)
        await notices.tell_now(networks, servers)


async def finish_spreading(networks: Networks) -> None:
    """Go on with the subnets that some ports have no address of yet: a process died, or builds held the ports."""
    async with networks.database.connection() as connection:
        subnets_spreading = await store.list_subnets(connection, spreading=True)
    for subnet in subnets_spreading:
        await spread(networks, subnet)


def _has_none(port: Port, subnet: Subnet) -> bool:
    here = [item for item in port.addresses if item.provider_uuid == subnet.provider_uuid]
    return bool(here) and all(item.subnet_id != subnet.id for item in here)


async def update_subnet(networks: Networks, subnet_id: str, changes: SubnetChanges) -> Subnet:
    """Change a subnet as a client. The ledger knows its new capacity when the call returns.

    Raises SubnetNotFound, RevisionNumberConstraintFailed, what rules.decide_update raises, SubnetInUse when
    builds have claims that would have no address, PublicationPending.
    """
    async with networks.database.transaction() as tx:
        before, after = await _decide_update(tx, subnet_id, changes)
        if not changes_capacity(before, after):
            await _write_update(tx, before, after)

    async def change(tx: Connection) -> Taken:
        before, after = await _decide_update(tx, subnet_id, changes)
        coming: dict[str, dict[str, int]] = {}
        await _write_update(tx, before, after)
        if after.pools != before.pools:
            free = await addresses.set_pools(tx, after)
            if counts(after):
                gained = addressing.subtract(free, before.pools) if counts(before) else free
                coming = {after.provider_uuid: {uses.class_of(after.ip_version): addressing.count(gained)}}
        moving = before.provider_uuid != after.provider_uuid and await address_rows.list_subnet_ports(tx, [subnet_id])
        ports = await port_rows.list_ports(tx, PortFilter(ids=tuple(moving))) if moving else []
        providers = sorted({before.provider_uuid, after.provider_uuid})
        return Taken(provider_uuids=providers, coming=coming, moving=ports)

    if changes_capacity(before, after):
        in_use = (
            f"Servers are being built with addresses of subnet {subnet_id}, or ports are being made: it keeps its "
            "pools and segment; repeat the request when they are done, or delete them."
        )
        await take(networks, sorted({before.provider_uuid, after.provider_uuid}), change, SubnetInUse(in_use))
    return await get_subnet(networks, subnet_id)


async def _write_update(tx: Connection, before: Subnet, after: Subnet) -> None:
    await resources.update(tx, "subnet", [after])
    await resources.touch(tx, "network", [after.network_id])
    if rules.list_told(before) != rules.list_told(after):
        await notice_rows.note_networks(tx, [after.network_id])


async def _decide_update(tx: Connection, subnet_id: str, changes: SubnetChanges) -> tuple[Subnet, Subnet]:
    """Lock the subnet and its network; return the subnet before and after the changes. Raises as update_subnet does."""
    subnets_read = await store.list_subnets(tx, [subnet_id])
    locked = await store.lock_networks(tx, [subnet.network_id for subnet in subnets_read])
    subnet = await _lock_subnet(tx, subnet_id, changes.revision)
    network = locked[subnet.network_id]  # it has a subnet, and would have to be locked to be deleted
    named = [changes.segment_id] if isinstance(changes.segment_id, str) else []
    segments = {segment.id: segment for segment in await store.list_segments(tx, named)}
    peers = await store.list_subnets(tx, network_ids=[network.id])
    gateway_port = await store.find_gateway_port(tx, subnet)
    return subnet, rules.decide_update(subnet, changes, network, peers, segments, gateway_port)


async def take(
    networks: Networks,
    provider_uuids: Sequence[str],
    change: Callable[[Connection], Awaitable[Taken]],
    refusal: RoostError,
) -> None:
    """Run `change` and commit it once the ledger agrees to what it leaves: see capacity.take.

    Claims that are due for release are released before a refusal. Raises the refusal in place of CapacityInUse.
    """
    try:
        await _take_after_releases(networks, provider_uuids, change)
    except CapacityInUse:
        await capacity.publish(networks, provider_uuids)
        raise refusal from None


_take_after_releases = retried(CapacityInUse, most=2, between=lambda _, networks: releases.work_off(networks))(
    capacity.take
)


async def delete_subnet(networks: Networks, subnet_id: str, *, revision: int | None = None) -> None:
    """Delete a subnet once the ledger agrees to lose its capacity.

    A subnet whose addresses follow from MACs has no capacity: it is deleted at once, with these addresses. Only
    routers' interfaces keep it. Raises SubnetNotFound, RevisionNumberConstraintFailed, SubnetInUse while ports have
    addresses in it, or while builds have claims on a segment's last subnet.
    """
    async with networks.database.transaction() as tx:
        subnets_read = await store.list_subnets(tx, [subnet_id])
    if any(map(uses.is_automatic, subnets_read)):
        await _delete_automatic(networks, subnets_read[0], revision)
        return

    async def change(tx: Connection) -> Taken:
        await store.lock_network_ids(tx, [subnet.network_id for subnet in subnets_read], "revision")
        subnet = await _lock_subnet(tx, subnet_id, revision)
        if await address_rows.count_held(tx, [subnet_id]):
            who = "Servers" if subnet.is_pool else "Ports"  # a flat network has no ports
            raise SubnetInUse(
                f"{who} have addresses in subnet {subnet_id}: delete them first. Where none is shown, guests still "
                "have NICs that their servers lost: repeat the request once their hosts have let them go."
            )
        await _delete(tx, subnet)
        return Taken(provider_uuids=[subnet.provider_uuid])

    in_use = f"Servers are being built with addresses of subnet {subnet_id}: delete them first."
    await take(networks, [subnet.provider_uuid for subnet in subnets_read], change, SubnetInUse(in_use))


class _PortsJoined(SubnetInUse):
    """Ports got addresses in the subnet after its other ports were locked."""


@retried(_PortsJoined, most=ROUNDS_MAX)
async def _delete_automatic(networks: Networks, subnet_read: Subnet, revision: int | None) -> None:
    """Delete a subnet whose addresses follow from MACs, with these addresses. Raises as delete_subnet does.

    Ports are locked before subnets. A port that gets an address in between is locked by the next attempt.
    Source of what keeps it: Neutron, _remove_subnet_ip_allocations_from_ports.
    """
    subnet_id = subnet_read.id
    async with networks.database.transaction() as tx:
        await store.lock_network_ids(tx, [subnet_read.network_id], "revision")
        ports_locked = await port_rows.lock_ports(tx, await address_rows.list_subnet_ports(tx, [subnet_id]))
        subnet = await _lock_subnet(tx, subnet_id, revision)
        if not ports_locked.keys() >= set(await address_rows.list_subnet_ports(tx, [subnet_id])):
            raise _PortsJoined(f"Ports get addresses in subnet {subnet_id} all the time: repeat the request.")
        await _delete(tx, subnet)
        losing = [port for port in ports_locked.values() if any(item.subnet_id == subnet_id for item in port.addresses)]
        routers = [port.id for port in losing if port.device_owner in uses.INTERFACE_OWNERS]
        if routers:
            more = f" and {len(routers) - 1} more" if len(routers) > 1 else ""
            raise SubnetInUse(f"Router ports have addresses in subnet {subnet_id}: delete {routers[0]}{more} first.")
        dropped = [item for port in losing for item in port.addresses if item.subnet_id == subnet_id]
        await addresses.take_back(tx, dropped)
        # A port that a build holds keeps its revision, so the build goes on.
        await resources.touch(tx, "port", [port.id for port in losing if port.reserved_from is None])
        servers = await notices.note(tx, losing)
        await publication_rows.want(tx, [subnet.provider_uuid])
    await notices.tell_now(networks, servers)
    await capacity.publish(networks, [subnet.provider_uuid])


async def _delete(tx: Connection, subnet: Subnet) -> None:
    """Delete a locked subnet, but for its addresses. Guests on other segments have no route to it any more."""
    await resources.delete(tx, "subnet", [subnet.id])
    await resources.touch(tx, "network", [subnet.network_id])
    await notice_rows.note_networks(tx, [subnet.network_id] if subnet.segment_id else [])


async def _lock_subnet(tx: Connection, subnet_id: str, revision: int | None) -> Subnet:
    """Lock the subnet and return it. Raises SubnetNotFound, RevisionNumberConstraintFailed."""
    await address_rows.lock_subnets(tx, [subnet_id])
    subnets_read = await store.list_subnets(tx, [subnet_id])
    return pick_revision(subnets_read, SubnetNotFound, "Subnet", subnet_id, revision)
