"""What hosts are asked for: the guests that are not as they are desired. SQL only."""
# ruff: noqa: S608 - what is put into a statement are constants of this package.

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec.structs import replace

from roost.compute.model.work import MoveKind, Plan
from roost.compute.rules.guest_disks import find_disk_kept
from roost.compute.rules.servers import make_hostname
from roost.compute.store.guests import ORDER_OPEN
from roost.compute.store.recovery import FOLLOWS
from roost.compute.store.unknown_guests import HAS_ADDRESS, UNKNOWN_ELSEWHERE
from roost.platform.database import Connection
from roost.seams.agent import GuestOrder, OrderId
from roost.seams.compute import RequestSpec, ServerPort
from roost.seams.guests import GuestImage, MemorySource

# An order that an agent is at work on comes back only when its desired state has changed meanwhile. A guest that
# another agent of the host has is not this one's to destroy, and one that is lost is not made again by itself. A host
# that is back destroys guests whose servers are elsewhere by now before it makes any. While the records recover there
# are no orders.
ORDERS = f"""
-- compute.list_orders
SELECT g.server_id, g.host, g.attempt, g.desired, g.hurry, coalesce(s.name, '') AS name, s.project_id, s.spec,
    g.nics_version, s.hostname, s.image_ref, CASE WHEN g.desired <> 'absent' THEN s.network_info END AS network_info,
    coalesce(s.host = g.host AND s.task_state IN ('powering-off', 'rebooting', 'resize_prep', 'shelving'), false)
        AS soft,
    CASE WHEN g.desired <> 'absent' THEN d.meeting END AS meeting,
    s.launched_at IS NULL OR s.task_state = 'rebuilding' AS begins_anew, m.kind AS move_kind, m.source_host, m.plan,
    coalesce(a.request_id, s.request_id, '') AS request_id,
    coalesce(CASE WHEN a.request_id IS NULL THEN s.global_request_id ELSE a.global_request_id END, '')
        AS global_request_id
FROM compute.guest g
JOIN compute.host h ON h.name = g.host AND h.agent_id = $1
LEFT JOIN compute.server s ON s.id = g.server_id
LEFT JOIN LATERAL (
    SELECT request_id, global_request_id FROM compute.action WHERE server_id = g.server_id ORDER BY id DESC LIMIT 1
) AS a ON true
LEFT JOIN compute.guest d
    ON $8::boolean AND d.server_id = g.server_id AND d.host <> g.host AND d.meeting IS NOT NULL
    AND (d.desired = 'incoming' OR (d.desired <> 'absent' AND d.reported IS NULL))
LEFT JOIN compute.move m ON $8::boolean AND m.server_id = g.server_id AND m.open
WHERE {ORDER_OPEN}
  AND (g.agent_id IS NULL OR g.agent_id = $1) AND NOT (g.desired <> 'absent' AND g.lost_at IS NOT NULL)
  AND (g.desired = 'absent' OR NOT EXISTS (
    SELECT FROM compute.guest f
    WHERE f.host = g.host AND f.fenced_by IS NOT NULL AND (f.agent_id IS NULL OR f.agent_id = $1)))
  AND (g.desired = 'absent' OR NOT EXISTS (SELECT {UNKNOWN_ELSEWHERE} AND unknown.server_id = g.server_id))
  AND (g.desired NOT IN ('running', 'paused') OR NOT EXISTS (SELECT {UNKNOWN_ELSEWHERE} AND {HAS_ADDRESS}))
  AND {FOLLOWS}
  AND (g.server_id, g.host, g.attempt, g.desired, g.hurry) NOT IN (
    SELECT * FROM unnest($2::uuid[], $3::text[], $4::integer[], $5::text[], $7::boolean[]))
ORDER BY g.created_at, g.server_id
LIMIT $6
"""

_spec = msgspec.json.Decoder(RequestSpec)
_ports = msgspec.json.Decoder(tuple[ServerPort, ...])
_meeting = msgspec.json.Decoder(MemorySource)
_plan = msgspec.json.Decoder(Plan)
_NOTHING = RequestSpec(vcpus=0, memory_mb=0, disk_gb=0)


async def list_orders(
    tx: Connection, *, agent_id: str, described: bool, busy: Collection[OrderId], limit: int
) -> list[GuestOrder]:
    """Return what the agent should change on the hosts that it holds, oldest first.

    described: with hostnames, images, and what there is to say of stops and moves. busy: to leave out.
    """
    *columns, hurries = [
        [getattr(order, name) for order in busy] for name in ("server_id", "host", "attempt", "desired", "hurry")
    ]
    orders = []
    for row in await tx.fetch(ORDERS, agent_id, *columns, limit, hurries, described):
        spec = _NOTHING if row["spec"] is None else _spec.decode(row["spec"])
        order = GuestOrder(
            server_id=row["server_id"],
            host=row["host"],
            attempt=row["attempt"],
            desired=row["desired"],
            hurry=row["hurry"],
            name=row["name"],
            project_id=row["project_id"] or "",
            vcpus=spec.vcpus,
            ram_mb=spec.memory_mb,
            disk_gb=spec.disk_gb,
            ports=() if row["network_info"] is None else _ports.decode(row["network_info"]),
            request_id=row["request_id"],
            global_request_id=row["global_request_id"],
            nics_version=row["nics_version"],
        )
        orders.append(_described(order, row, spec) if described else order)
    return orders


def _described(order: GuestOrder, row: Any, spec: RequestSpec) -> GuestOrder:
    return replace(
        order,
        hostname=row["hostname"] or (make_hostname(order.name, order.server_id) if order.name else ""),
        image=GuestImage(id=row["image_ref"], checksum=spec.image_checksum or "") if row["image_ref"] else None,
        disk=find_disk_kept(
            row["host"],
            begins_anew=row["begins_anew"],
            size_gb=spec.disk_gb,
            kind=row["move_kind"] and MoveKind(row["move_kind"]),
            source_host=row["source_host"],
            plan=row["plan"] and _plan.decode(row["plan"]),
        ),
        soft=row["soft"],
        meeting=None if row["meeting"] is None else _meeting.decode(row["meeting"]),
    )
