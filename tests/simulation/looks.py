"""What must hold while a story goes on: of claims, of ports, and of what the hosts themselves have."""

from collections.abc import Iterable

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
LOOK = f"SELECT json_agg(p) AS ports FROM ({PORTS}) p"
LOOK_AROUND = f"""
SELECT room.*, (SELECT json_agg(json_build_array(c.server_id, c.name)) FROM ({CLAIMED}) c) AS claimed,
    ({LOOK}) AS ports
FROM ({errors.ROOM}) room
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
    claimed = {(server, host) for server, host in msgspec.json.decode(row["claimed"] or "[]")}
    ports = {(port.id, port.device_id): port for port in _read_ports(row["ports"])}
    has = {port: seen.addresses for port, seen in ports.items() if seen.launched and seen.addresses}
    for port in story.addresses.keys() & ports.keys():
        assert has.get(port) == story.addresses[port], f"port {port[0]} has lost its addresses: {has.get(port)}"
    story.addresses = {port: addresses for port, addresses in has.items() if story.readdressed.isdisjoint(port)}
    stray = story.hosts.list_present() - claimed
    assert not stray or story.recovering, f"guests for which nothing is claimed: {stray}"
    _check_guests(story, ports.values())
    errors.note_room(story, row)


async def look_at_guests(story: Story) -> None:
    """Look at what guests have, if anything was told since the last look."""
    if story.guests_seen_at != len(story.told):
        async with story.world.database.connection() as connection:
            _check_guests(story, _read_ports(await connection.fetchval(LOOK)))


def _read_ports(text: str | None) -> list[PortSeen]:
    return msgspec.json.decode(text or "[]", type=list[PortSeen])


def _check_guests(story: Story, ports: Iterable[PortSeen]) -> None:
    """Raise AssertionError for guests with their NICs up that have other addresses than their servers' ports."""
    story.guests_seen_at = len(story.told)
    addresses: dict[str, set[str]] = {}
    has = {address for guest in story.hosts.list_up() for address in guest.addresses}
    for port in ports:
        if port.device_id and port.addresses:
            own = has.intersection(port.addresses) if port.held else port.addresses
            addresses.setdefault(port.device_id, set()).update(own)
    story.hosts.unplug(addresses)
    problems = [] if story.recovering else list_world_problems(story.hosts.list_up(), addresses)
    assert not problems, "; ".join(problems)
