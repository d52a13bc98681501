"""What must hold while a story goes on: of claims, of ports, and of what the hosts themselves have."""

from tests.simulation import errors
from tests.simulation.story import Story
from tests.world import list_world_problems, read_addresses

CLAIMED = """
SELECT coalesce(m.server_id, a.consumer_uuid) AS server_id, h.name FROM placement.allocation a
JOIN placement.provider p ON p.id = a.provider_id JOIN compute.host h ON h.provider_uuid = p.uuid
LEFT JOIN compute.move m ON m.uuid = a.consumer_uuid
UNION ALL SELECT server_id, host FROM compute.guest WHERE fenced_by = 'stopped'
"""
"""And what a silent host has with its NICs down, and destroys before it makes anything else."""
PORTS = """
SELECT p.id, p.device_id, s.launched_at IS NOT NULL AS launched,
    (SELECT array_agg(host(a.address) ORDER BY a.address) FROM network.address a WHERE a.port_id = p.id) AS addresses
FROM network.port p LEFT JOIN compute.server s ON s.id::text = p.device_id
"""


async def look_around(story: Story) -> None:
    """Look at everything, after a conductor's batch: what is there is claimed, and ports keep their addresses."""
    async with story.world.database.connection() as connection:
        claimed = {(row["server_id"], row["name"]) for row in await connection.fetch(CLAIMED)}
        ports = {(row["id"], row["device_id"]): row for row in await connection.fetch(PORTS)}
    has = {port: tuple(row["addresses"]) for port, row in ports.items() if row["launched"] and row["addresses"]}
    for port in story.addresses.keys() & ports.keys():
        assert has.get(port) == story.addresses[port], f"port {port[0]} has lost its addresses: {has.get(port)}"
    story.addresses = {port: addresses for port, addresses in has.items() if story.readdressed.isdisjoint(port)}
    stray = story.hosts.list_present() - claimed
    assert not stray, f"guests for which nothing is claimed: {stray}"
    await look_at_guests(story)
    await errors.look_for_room(story)


async def look_at_guests(story: Story) -> None:
    """Raise AssertionError for guests with their NICs up that have other addresses than their servers' ports."""
    async with story.world.database.connection() as connection:
        addresses = await read_addresses(connection)
    story.hosts.unplug(addresses)
    problems = list_world_problems(story.hosts.list_up(), addresses)
    assert not problems, "; ".join(problems)
