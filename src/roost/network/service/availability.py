"""How many addresses are free: counts for the API and metrics, and sentences for whoever got none.

A sentence says which segment or subnet is full, and how many are free on the others.
"""

from collections.abc import Collection, Sequence

from roost.network.model.networks import Network, Segment, Subnet
from roost.network.rules import availability as rules
from roost.network.rules import capacity, uses
from roost.network.rules.availability import NetworkAvailability, Room
from roost.network.service import Networks
from roost.network.store import addresses, ports
from roost.network.store import networks as network_rows
from roost.network.store import unknown_guests as guest_rows
from roost.platform.database import Connection, reading

GONE = "No more IP addresses available: the subnets that had some were deleted just now."


async def list_availabilities(
    networks: Networks, network_ids: Sequence[str] | None = None, *, ip_versions: Collection[int] = ()
) -> list[NetworkAvailability]:
    """Return the availabilities of the networks with these ids that exist, by id, as of one instant. None for all.

    ip_versions: only subnets of these count; empty for all. Costs one count over the addresses that the networks hold.
    """
    async with networks.database.transaction(snapshot=True) as tx:
        networks_there = await network_rows.list_networks(tx, network_ids)
        subnets = await network_rows.list_subnets(tx, network_ids=[network.id for network in networks_there])
        counts_held = await addresses.count_held(tx, [subnet.id for subnet in subnets])
    return rules.availabilities(networks_there, subnets, counts_held, ip_versions=ip_versions)


count_ports_without_address = reading(ports.count_without_address)


async def describe_claims(networks: Networks, provider_uuids: Sequence[str]) -> str:
    """Return why nothing could be claimed on these providers of one network, with what is free by the ledger."""
    async with networks.database.transaction(snapshot=True) as tx:
        read = await _read(tx, provider_uuids)
    if read is None:
        return GONE
    network, segments, subnets, held_by_guests = read
    providers = sorted({subnet.provider_uuid for subnet in subnets})
    usages = await networks.placement.list_usages(providers)
    rooms = {
        uuid: {name: (max(capacity - used, 0), capacity) for name, (capacity, used) in usages.get(uuid, {}).items()}
        for uuid in providers
    }
    return _sentence(provider_uuids, network, segments, rooms, held_by_guests)


async def describe_providers(tx: Connection, provider_uuids: Sequence[str]) -> str:
    """Return why a claim on these providers of one network got no address, with what ports leave free."""
    read = await _read(tx, provider_uuids)
    if read is None:
        return GONE
    network, segments, subnets, held_by_guests = read
    rooms: dict[str, dict[str, tuple[int, int]]] = {subnet.provider_uuid: {} for subnet in subnets}
    for subnet, (free, total) in await _list_rooms(tx, network, [s for s in subnets if capacity.counts(s)]):
        of_provider, name = rooms[subnet.provider_uuid], uses.class_of(subnet.ip_version)
        before = of_provider.get(name, (0, 0))
        of_provider[name] = before[0] + free, before[1] + total
    return _sentence(provider_uuids, network, segments, rooms, held_by_guests)


async def describe_subnets(tx: Connection, provider_uuid: str, subnet_ids: Sequence[str]) -> str:
    """Return why these subnets of a provider gave no address, with what ports leave free in the whole network."""
    read = await _read(tx, [provider_uuid])
    if read is None:
        return GONE
    network, _, subnets, held_by_guests = read
    rooms = [
        Room(subnet.name or subnet.id, {uses.class_of(subnet.ip_version): room})
        for subnet, room in await _list_rooms(tx, network, [s for s in subnets if not uses.is_automatic(s)])
    ]
    full = [rules.named(subnet) for subnet in subnets if subnet.id in subnet_ids]
    return rules.sentence(full, network, rooms, held=held_by_guests)


async def _read(
    tx: Connection, provider_uuids: Sequence[str]
) -> tuple[Network, list[Segment], list[Subnet], int] | None:
    """Return the providers' network, its segments and subnets, and how many addresses unknown guests hold there.

    Return None when the providers have no subnet any more.
    """
    subnets = await network_rows.list_subnets(tx, provider_uuids=provider_uuids)
    if not subnets:
        return None
    network_id = subnets[0].network_id
    (network,) = await network_rows.list_networks(tx, [network_id])
    segments = await network_rows.list_segments(tx, network_ids=[network_id])
    held_by_guests = (await guest_rows.count_held(tx, [network_id])).get(network_id, 0)
    return network, segments, await network_rows.list_subnets(tx, network_ids=[network_id]), held_by_guests


async def _list_rooms(
    tx: Connection, network: Network, subnets: Sequence[Subnet]
) -> list[tuple[Subnet, tuple[int, int]]]:
    """Return the subnets, each with (how many addresses are free, how many there are)."""
    counts_held = await addresses.count_held(tx, [subnet.id for subnet in subnets])
    (availability,) = rules.availabilities([network], subnets, counts_held)
    return [(item.subnet, (item.counts.free, item.counts.in_pools)) for item in availability.subnets]


def _sentence(
    provider_uuids: Sequence[str],
    network: Network,
    segments: Sequence[Segment],
    rooms_by_provider: dict[str, dict[str, tuple[int, int]]],
    held_by_guests: int,
) -> str:
    names = {segment.id: segment.name or segment.id for segment in segments}
    rooms = [Room(names.get(uuid, network.name or network.id), counts) for uuid, counts in rooms_by_provider.items()]
    rooms.sort(key=lambda room: room.name)
    full = [rules.named(segment) for segment in segments if segment.id in provider_uuids]
    return rules.sentence(full or [rules.named(network)], network, rooms, held=held_by_guests)
