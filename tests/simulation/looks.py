"""What must hold while a story goes on: of claims, of ports, and of what the hosts themselves have."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from tests.simulation import errors
from tests.simulation.story import Story
from tests.world import list_world_problems

CLAIMED = """
SELECT coalesce(m.server_id, a.consumer_uuid) AS server_id, h.name FROM placement.allocation a
JOIN placement.provider p ON p.id = a.provider_id JOIN compute.host h ON h.provider_uuid = p.uuid
LEFT JOIN compute.move m ON m.uuid = a.consumer_uuid
UNION ALL SELECT server_id, host FROM compute.guest WHERE fenced_by = 'stopped'
UNION ALL SELECT server_id, host FROM compute.unknown_guest
"""
"""And what a silent host has with its NICs down, and destroys before it makes anything else; and unknown guests."""
PORTS = """
SELECT p.id, CASE WHEN p.nic_tag = '' THEN p.made_for::text ELSE p.device_id END AS device_id,
    p.nic_tag = '' AS held, s.launched_at IS NOT NULL AS launched,
    (SELECT array_agg(host(a.address) ORDER BY a.address) FROM network.address a WHERE a.port_id = p.id) AS addresses
FROM network.port p LEFT JOIN compute.server s ON s.id::text = p.device_id
"""
LOOK = f"""
SELECT (SELECT json_agg(p) FROM ({PORTS}) p) AS ports,
    (SELECT json_agg(json_build_array(server_id, host)) FROM compute.unknown_guest) AS unknown
"""
LOOK_AROUND = f"""
SELECT room.*, look.*, (SELECT json_agg(json_build_array(c.server_id, c.name)) FROM ({CLAIMED}) c) AS claimed
FROM ({errors.ROOM}) room, ({LOOK}) look
"""


class PortSeen(msgspec.Struct, frozen=True):
    """A port as it was looked at. held: for an unknown guest. launched: its server has run."""

    id: str
    device_id: str | None
    held: bool | None
    launched: bool
    addresses: tuple[str, ...] | None


async def look_around(story: Story) -> None:
    """Look at everything, after a conductor's batch: what is there is claimed, and ports keep their addresses."""
    async with story.world.database.connection() as connection:
        row = await connection.fetchrow(LOOK_AROUND)
    claimed = _read_keys(row["claimed"])
    ports = {(port.id, port.device_id): port for port in _read_ports(row)}
    has = {port: seen.addresses for port, seen in ports.items() if seen.launched and seen.addresses}
    for port in story.addresses.keys() & ports.keys():
        assert has.get(port) == story.addresses[port], f"port {port[0]} has lost its addresses: {has.get(port)}"
    story.addresses = {port: addresses for port, addresses in has.items() if story.readdressed.isdisjoint(port)}
    stray = story.hosts.list_present() - claimed
    assert not stray or story.recovering, f"guests for which nothing is claimed: {stray}"
    _check_guests(story, ports.values(), _read_keys(row["unknown"]))
    errors.note_room(story, row)


async def look_at_guests(story: Story) -> None:
    """Look at what guests have, if anything was told since the last look."""
    if story.guests_seen_at != len(story.told):
        async with story.world.database.connection() as connection:
            row = await connection.fetchrow(LOOK)
        _check_guests(story, _read_ports(row), _read_keys(row["unknown"]))


async def list_addresses(story: Story) -> set[tuple[str, str]]:
    """Return (port, address) of all ports."""
    async with story.world.database.connection() as connection:
        ports = _read_ports(await connection.fetchrow(LOOK))
    return {(port.id, address) for port in ports for address in port.addresses or ()}


def _read_ports(row: Mapping[str, Any]) -> list[PortSeen]:
    return msgspec.json.decode(row["ports"] or "[]", type=list[PortSeen])


def _read_keys(text: str | None) -> set[tuple[str, str]]:
    return msgspec.json.decode(text or "[]", type=set[tuple[str, str]])


def _check_guests(story: Story, ports: Collection[PortSeen], unknown: Collection[tuple[str, str]]) -> None:
    """Raise AssertionError for guests with their NICs up that have other addresses than their servers' ports.

    unknown: guests that the records do not know: their servers may have been given more since. What another port has
    since before the records went back stays there, so that no third one can be given it (0062).
    """
    story.guests_seen_at = len(story.told)
    addresses: dict[str, set[str]] = {}
    has = {address for guest in story.hosts.list_up() for address in guest.addresses}
    for port in ports:
        if port.device_id and port.addresses:
            own = has.intersection(port.addresses) if port.held else port.addresses
            addresses.setdefault(port.device_id, set()).update(own)
    kept = {
        address for port in ports for address in port.addresses or () if (port.id, address) in story.addresses_restored
    }
    story.hosts.unplug(addresses)
    if story.recovering:
        return
    guests_up = story.hosts.list_up()
    problems = list_world_problems([guest for guest in guests_up if guest[:2] not in unknown], addresses)
    for guest in guests_up:
        if guest[:2] in unknown and (lost := set(guest.addresses) - addresses.get(guest.server_id, set()) - kept):
            problems.append(f"unknown guest {guest.server_id} on {guest.host} has {sorted(lost)}, which is not held")
    assert not problems, "; ".join(problems)
