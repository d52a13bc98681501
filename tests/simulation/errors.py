"""Whether each ERROR is explained: it says why, and something befell the server, or there was a moment without room.

That moment is looked for before and after each batch of a conductor, by counting: a table that knows nothing of how
Roost places servers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulation.story import HOSTS, Story, Want

VCPUS = {"small": 1, "large": 2}
LIST_SERVERS = """
SELECT s.id, s.status, s.fault ->> 'message' AS fault, s.launched_at IS NULL AS building, w.stage
FROM compute.server s LEFT JOIN compute.work w ON w.server_id = s.id
"""
LIST_FREE = """
SELECT p.uuid, coalesce(h.name, '') AS host, h.forced_down OR h.silent AS down,
    floor((i.total - i.reserved) * i.allocation_ratio) - i.used AS free
FROM placement.provider p JOIN placement.inventory i ON i.provider_id = p.id
JOIN placement.resource_class c ON c.id = i.resource_class_id AND c.name IN ('VCPU', 'IPV4_ADDRESS')
LEFT JOIN compute.host h ON h.provider_uuid = p.uuid
"""
LIST_NEAR = """
SELECT server_id FROM compute.guest WHERE host = $1 UNION SELECT id FROM compute.server WHERE host = $1
UNION SELECT server_id FROM compute.work WHERE placed ->> 'host' = $1
"""
LIST_WAITING = "SELECT server_id FROM compute.work WHERE stage IN ('launch', 'copy', 'stop', 'restore')"
LIST_OWNERS = "SELECT device_id FROM network.port WHERE id = $1"


async def harm_near(story: Story, host: str) -> None:
    """Note that something befell the servers of a host."""
    await _harm(story, LIST_NEAR, host)


async def harm_waiting(story: Story) -> None:
    """Note that servers waited for their hosts for long."""
    await _harm(story, LIST_WAITING)


async def harm_owner(story: Story, port: str) -> None:
    """Note that something befell the server of a port."""
    await _harm(story, LIST_OWNERS, port)


async def _harm(story: Story, query: str, *arguments: str) -> None:
    async with story.world.database.connection() as connection:
        story.harmed.update(str(row[0]) for row in await connection.fetch(query, *arguments))


async def look_for_room(story: Story) -> None:
    """Note who is without room now. Raises AssertionError for a server in ERROR that was harmed by nothing."""
    async with story.world.database.connection() as connection:
        rows = await connection.fetch(LIST_SERVERS)
        free = await connection.fetch(LIST_FREE)
    harmed = story.harmed | story.hosts.failed
    for row in rows:
        want = story.wants.get(row["id"])
        if want is not None and row["building"] and not _has_room(story, want, free):
            story.roomless.add(row["id"])
        if row["status"] != "ERROR":
            continue
        named = want is not None and want.named and str(row["fault"]).startswith("Port ")
        assert row["fault"] or row["id"] in story.harmed, f"in ERROR without a fault: {row['id']}"
        explained = named or row["id"] in harmed | story.roomless
        assert explained, f"in ERROR with room everywhere: {dict(row)}, {[dict(item) for item in free]}"


def _has_room(story: Story, want: Want, free: Sequence[Mapping[str, Any]]) -> bool:
    addresses = {item["uuid"]: item["free"] for item in free if not item["host"]}
    for item in free:
        host = item["host"]
        if not host or item["down"] or host in story.hosts.cut | story.hosts.off or item["free"] < VCPUS[want.flavor]:
            continue
        if all(addresses.get(story.provider_of(network, HOSTS[host]), 0) > 0 for network in want.networks):
            return True
    return False
