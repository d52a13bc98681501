"""What is told to whoever got no address: which segment or subnet is full, and what is free on the others."""

from collections.abc import Sequence

from roost.network.model.networks import Network, Segment, Subnet
from roost.network.rules import capacity, exhaustions, uses
from roost.network.rules.addressing import count
from roost.network.rules.exhaustions import Room
from roost.network.service import Networks
from roost.network.store import availability, unknown_guests
from roost.network.store import networks as store
from roost.network.store import subnets as subnet_rows
from roost.platform.database import Connection

GONE = "No more IP addresses available: the subnets that had some were deleted just now."


async def describe_claims(networks: Networks, provider_uuids: Sequence[str]) -> str:
    """Why nothing could be claimed on these providers of one network: by what the ledger says is free."""
    async with networks.database.transaction(snapshot=True) as tx:
        read = await _read(tx, provider_uuids)
    if read is None:
        return GONE
    network, segments, subnets, held = read
    providers = sorted({subnet.provider_uuid for subnet in subnets})
    usages = await networks.placement.list_usages(providers)
    left = {
        uuid: {name: (max(capacity - used, 0), capacity) for name, (capacity, used) in usages.get(uuid, {}).items()}
        for uuid in providers
    }
    return _sentence(provider_uuids, network, segments, left, held)


async def describe_providers(tx: Connection, provider_uuids: Sequence[str]) -> str:
    """Why nothing could be assigned on these providers of one network, though it was claimed: by what ports hold."""
    read = await _read(tx, provider_uuids)
    if read is None:
        return GONE
    network, segments, subnets, held = read
    left: dict[str, dict[str, tuple[int, int]]] = {subnet.provider_uuid: {} for subnet in subnets}
    for subnet, (free, total) in await _list_rooms(tx, [s for s in subnets if capacity.counts(s)]):
        of_provider, name = left[subnet.provider_uuid], uses.class_of(subnet.ip_version)
        before = of_provider.get(name, (0, 0))
        of_provider[name] = before[0] + free, before[1] + total
    return _sentence(provider_uuids, network, segments, left, held)


async def describe_subnets(tx: Connection, provider_uuid: str, subnet_ids: Sequence[str]) -> str:
    """Why nothing could be assigned in these subnets of a provider: by what ports hold in all of the network's."""
    read = await _read(tx, [provider_uuid])
    if read is None:
        return GONE
    network, _, subnets, held = read
    rooms = [
        Room(subnet.name or subnet.id, {uses.class_of(subnet.ip_version): room})
        for subnet, room in await _list_rooms(tx, [s for s in subnets if not uses.is_automatic(s)])
    ]
    full = [exhaustions.named(subnet) for subnet in subnets if subnet.id in subnet_ids]
    return exhaustions.sentence(full, network, rooms, held=held)


async def _read(
    tx: Connection, provider_uuids: Sequence[str]
) -> tuple[Network, list[Segment], list[Subnet], int] | None:
    """The network that the providers are of, its segments and subnets, and how much of it unknown guests hold.

    None when the providers have no subnet left.
    """
    behind = await subnet_rows.list_subnets(tx, provider_uuids=provider_uuids)
    if not behind:
        return None
    network_id = behind[0].network_id
    (network,) = await store.list_networks(tx, [network_id])
    segments = await store.list_segments(tx, network_ids=[network_id])
    held = (await unknown_guests.count_held(tx, [network_id])).get(network_id, 0)
    return network, segments, await subnet_rows.list_subnets(tx, network_ids=[network_id]), held


async def _list_rooms(tx: Connection, subnets: Sequence[Subnet]) -> list[tuple[Subnet, tuple[int, int]]]:
    """Subnets with (addresses free, of how many)."""
    held = await availability.count_held(tx, [subnet.id for subnet in subnets])
    in_pools = {subnet_id: of.in_pools for subnet_id, of in held.items()}
    totals = {subnet.id: count(subnet.pools) for subnet in subnets}
    return [(subnet, (totals[subnet.id] - in_pools.get(subnet.id, 0), totals[subnet.id])) for subnet in subnets]


def _sentence(
    provider_uuids: Sequence[str],
    network: Network,
    segments: Sequence[Segment],
    left: dict[str, dict[str, tuple[int, int]]],
    held: int,
) -> str:
    names = {segment.id: segment.name or segment.id for segment in segments}
    rooms = [Room(names.get(uuid, network.name or network.id), of_provider) for uuid, of_provider in left.items()]
    rooms.sort(key=lambda room: room.name)
    full = [exhaustions.named(segment) for segment in segments if segment.id in provider_uuids]
    return exhaustions.sentence(full or [exhaustions.named(network)], network, rooms, held=held)
