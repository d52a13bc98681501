"""Whether each ERROR is explained: it says why, and something befell the server, or there was a moment without room.

That moment is looked for before and after each batch of a conductor, by counting: a table that knows nothing of how
Roost places servers.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from tests.simulation.beginning import HOSTS
from tests.simulation.story import Room, Story, Want

VCPUS = {"small": 1, "large": 2}


class ServerSeen(msgspec.Struct, frozen=True):
    """A server as it was looked at. building: it has never run."""

    id: str
    status: str
    fault: str | None
    building: bool
    stage: str | None


ROOM = """
SELECT (SELECT json_agg(s) FROM (
    SELECT s.id, s.status, s.fault ->> 'message' AS fault, s.launched_at IS NULL AS building, w.stage
    FROM compute.server s LEFT JOIN compute.work w ON w.server_id = s.id) s) AS servers,
(SELECT json_agg(r) FROM (
    SELECT p.uuid, h.name AS host, h.forced_down OR h.silent AS down,
        (floor((i.total - i.reserved) * i.allocation_ratio) - i.used)::int AS free,
        (SELECT json_object_agg(a.consumer_uuid, a.used) FROM placement.allocation a
            WHERE a.provider_id = p.id AND a.resource_class_id = c.id) AS claims
    FROM placement.provider p JOIN placement.inventory i ON i.provider_id = p.id
    JOIN placement.resource_class c ON c.id = i.resource_class_id AND c.name IN ('VCPU', 'IPV4_ADDRESS')
    LEFT JOIN compute.host h ON h.provider_uuid = p.uuid) r) AS rooms,
(SELECT coalesce(sum((s.flavor ->> 'vcpus')::int), 0) FROM compute.move m JOIN compute.server s ON s.id = m.server_id
    WHERE m.open) + ending.vcpus AS moving, ending.addresses AS ending
FROM (SELECT count(*) AS addresses, coalesce(sum((s.flavor ->> 'vcpus')::int), 0) AS vcpus
    FROM compute.work w JOIN compute.server s ON s.id = w.server_id
    WHERE w.deleting AND s.launched_at IS NULL) ending
"""
"""moving: VCPUs that moves, and builds that are being deleted, may claim for a moment on any host, and give back before
anybody looks. ending: addresses that such builds may, of each network.
"""
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
    """Note who is without room now, if anything was told since the last look. See note_room."""
    if story.room_seen_at != len(story.told):
        async with story.world.database.connection() as connection:
            note_room(story, await connection.fetchrow(ROOM))


def note_room(story: Story, row: Mapping[str, Any]) -> None:
    """Note who is without room. Raises AssertionError for a server in ERROR that was harmed by nothing."""
    story.room_seen_at = len(story.told)
    servers = msgspec.json.decode(row["servers"] or "[]", type=list[ServerSeen])
    excused = story.harmed | story.hosts.failed | story.roomless
    waiting = {
        server.id: story.wants[server.id]
        for server in servers
        if server.building and server.id in story.wants and server.id not in excused
    }
    moving, story.vcpus_moving = story.vcpus_moving, int(row["moving"])
    ending, story.builds_ending = story.builds_ending, int(row["ending"])
    rooms_seen = msgspec.json.decode(row["rooms"], type=list[Room])
    rooms = {room.uuid: room for room in rooms_seen} if waiting else {}
    free = {
        uuid: _count_free(room, story.rooms.get(uuid, room)) - (moving if room.host else ending)
        for uuid, room in rooms.items()
    }
    down = {room.host for room in rooms_seen if room.down}
    doubtful, story.hosts_down = story.hosts_down | down, down | (story.hosts_down if story.sleepers else set())
    hosts_free = {room.host: free[uuid] for uuid, room in rooms.items() if room.host and room.host not in doubtful}
    story.rooms = rooms
    story.roomless.update(id for id, want in waiting.items() if not _has_room(story, want, hosts_free, free))
    for server in servers:
        if server.status != "ERROR":
            continue
        server_want = waiting.get(server.id)
        named = server_want is not None and server_want.named
        named = named and str(server.fault).startswith(("Port ", "IP address ", "10."))
        assert server.fault or server.id in story.harmed, f"in ERROR without a fault: {server.id}"
        explained = named or server.id in excused | story.roomless
        assert explained, f"in ERROR with room everywhere: {server}, {hosts_free}, {free}"
        if named:
            story.harmed.add(server.id)


def _count_free(room: Room, before: Room) -> int:
    """Return what was free at least since it was looked at before: others may have claimed before some gave back."""
    claims, claims_before = room.claims or {}, before.claims or {}
    claimed = sum(max(0, used - claims_before.get(consumer, 0)) for consumer, used in claims.items())
    return min(room.free, before.free - claimed)


def _has_room(story: Story, want: Want, hosts_free: Mapping[str, int], free: Mapping[str, int]) -> bool:
    lost = story.hosts.cut | story.hosts.off | story.hosts.deaf | story.hosts.recabled
    return any(
        host not in lost
        and vcpus >= VCPUS[want.flavor]
        and want.racks <= {HOSTS[host]}
        and all(free.get(story.provider_of(network, HOSTS[host]), 0) > 0 for network in want.networks)
        for host, vcpus in hosts_free.items()
    )
