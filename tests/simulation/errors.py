"""Whether each ERROR is explained: it says why, and something befell the server, or there was a moment without room.

That moment is looked for before and after each batch of a conductor, by counting: a table that knows nothing of how
Roost places servers.
"""

from collections.abc import Mapping

import msgspec
from tests.simulation.beginning import HOSTS
from tests.simulation.story import Room, Story, Want

VCPUS = {"small": 1, "large": 2}
LIST_SERVERS = """
SELECT s.id, s.status, s.fault ->> 'message' AS fault, s.launched_at IS NULL AS building, w.stage
FROM compute.server s LEFT JOIN compute.work w ON w.server_id = s.id
"""
LIST_FREE = """
SELECT p.uuid, h.name AS host, h.forced_down OR h.silent AS down,
    floor((i.total - i.reserved) * i.allocation_ratio) - i.used AS free,
    (SELECT jsonb_object_agg(a.consumer_uuid, a.used) FROM placement.allocation a
        WHERE a.provider_id = p.id AND a.resource_class_id = c.id) AS claims
FROM placement.provider p JOIN placement.inventory i ON i.provider_id = p.id
JOIN placement.resource_class c ON c.id = i.resource_class_id AND c.name IN ('VCPU', 'IPV4_ADDRESS')
LEFT JOIN compute.host h ON h.provider_uuid = p.uuid
"""
COUNT_MOVING = """
SELECT coalesce(sum((s.flavor ->> 'vcpus')::int), 0) FROM compute.move m JOIN compute.server s ON s.id = m.server_id
WHERE m.open
"""
"""What moves may claim for a moment on any host, and give back before anybody looks."""
LIST_NEAR = """
SELECT server_id FROM compute.guest WHERE host = $1 UNION SELECT id FROM compute.server WHERE host = $1
UNION SELECT server_id FROM compute.work WHERE placed ->> 'host' = $1
"""
LIST_OWNERS = "SELECT device_id FROM network.port WHERE id = $1"


async def harm_near(story: Story, host: str) -> None:
    """Note that something befell the servers of a host."""
    await _harm(story, LIST_NEAR, host)


async def harm_owner(story: Story, port: str) -> None:
    """Note that something befell the server of a port."""
    await _harm(story, LIST_OWNERS, port)


async def _harm(story: Story, query: str, *arguments: str) -> None:
    async with story.world.database.connection() as connection:
        story.harmed.update(str(row[0]) for row in await connection.fetch(query, *arguments))


async def look_for_room(story: Story) -> None:
    """Note who is without room now. Raises AssertionError for a server in ERROR that was harmed by nothing."""
    async with story.world.database.connection() as connection:
        servers = await connection.fetch(LIST_SERVERS)
        excused = story.harmed | story.hosts.failed | story.roomless
        waiting = {
            row["id"]: story.wants[row["id"]]
            for row in servers
            if row["building"] and row["id"] in story.wants and row["id"] not in excused
        }
        rows = await connection.fetch(LIST_FREE) if waiting else []
        moving, story.vcpus_moving = story.vcpus_moving, int(await connection.fetchval(COUNT_MOVING))
    rooms = {
        row["uuid"]: Room(row["host"], row["down"], int(row["free"]), msgspec.json.decode(row["claims"] or "{}"))
        for row in rows
    }
    free = {uuid: _count_free(room, story.rooms.get(uuid, room)) for uuid, room in rooms.items()}
    hosts_free = {str(room.host): free[uuid] - moving for uuid, room in rooms.items() if room.host and not room.down}
    story.rooms = rooms
    story.roomless.update(id for id, want in waiting.items() if not _has_room(story, want, hosts_free, free))
    for row in servers:
        if row["status"] != "ERROR":
            continue
        want = waiting.get(row["id"])
        named = want is not None and want.named and str(row["fault"]).startswith(("Port ", "IP address "))
        assert row["fault"] or row["id"] in story.harmed, f"in ERROR without a fault: {row['id']}"
        explained = named or row["id"] in excused | story.roomless
        assert explained, f"in ERROR with room everywhere: {dict(row)}, {hosts_free}, {free}"
        if named:
            story.harmed.add(row["id"])


def _count_free(room: Room, before: Room) -> int:
    """Return what was free at least since it was looked at before: others may have claimed before some gave back."""
    claimed = sum(max(0, used - before.claims.get(consumer, 0)) for consumer, used in room.claims.items())
    return min(room.free, before.free - claimed)


def _has_room(story: Story, want: Want, hosts_free: Mapping[str, int], free: Mapping[str, int]) -> bool:
    lost = story.hosts.cut | story.hosts.off | story.hosts.deaf | story.hosts.recabled
    return any(
        host not in lost
        and vcpus >= VCPUS[want.flavor]
        and want.rack in (None, HOSTS[host])
        and all(free.get(story.provider_of(network, HOSTS[host]), 0) > 0 for network in want.networks)
        for host, vcpus in hosts_free.items()
    )
