"""Notifications on their way out: rows of the transaction whose change they tell of, deleted once they were received.

Two services have such tables, `outbox` and `outbox_destination` of their schema. The ids of one subject's rows are in
the order of its changes, since whoever writes them holds the subject's lock; those of different subjects need not be.
So nothing remembers how far a destination got: what is there is still to be delivered. docs/decisions/0041.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from roost.platform.database import Connection, count_changed
from roost.platform.rows import in_schema

REASON_CHARACTERS_MAX = 500


class Notification(Struct, frozen=True, kw_only=True):
    """One message. subject: what its order counts for. request: whose request it follows from, by request_id, ...

    message_id: the same at every delivery, so that receivers can tell a repeated one. payload: read back it is JSON
    as it was written, which nobody needs to decode.
    """

    message_id: str
    event_type: str
    publisher_id: str
    payload: Mapping[str, Any] | msgspec.Raw
    timestamp: datetime
    priority: str = "INFO"
    subject: str = ""
    request: Mapping[str, str | None] = {}


class Waiting(Struct, frozen=True):
    """A notification that is still to be delivered."""

    id: int
    notification: Notification


class DestinationState(Struct, frozen=True, kw_only=True):
    """How a destination does. waiting, parked: rows; reason: why the last delivery failed, None if it did not.

    waiting_s: how long the oldest of those that wait has waited, None if none does.
    """

    name: str
    waiting: int = 0
    waiting_s: float | None = None
    parked: int = 0
    oldest_at: datetime | None = None
    failures: int = 0
    reason: str | None = None


WRITE = """-- {schema}.write_outbox
INSERT INTO {schema}.outbox (destination, subject, notification)
SELECT destination, subject, notification
FROM unnest($1::text[], $2::json[]) WITH ORDINALITY AS new (subject, notification, position)
CROSS JOIN unnest($3::text[]) AS destination ORDER BY position
"""
DROP_SURPLUS = """-- {schema}.drop_surplus
DELETE FROM {schema}.outbox WHERE destination = $1 AND id <= (
    SELECT id FROM {schema}.outbox WHERE destination = $1 ORDER BY id DESC OFFSET $2 LIMIT 1)
"""
LEASE = """-- {schema}.lease_destination
INSERT INTO {schema}.outbox_destination AS d (name, lease_owner, lease_until)
VALUES ($1, $2, clock_timestamp() + $3 * interval '1 second')
ON CONFLICT (name) DO UPDATE SET lease_owner = excluded.lease_owner, lease_until = excluded.lease_until
WHERE (d.lease_owner = $2 OR d.lease_until < clock_timestamp()) AND (d.due_at IS NULL OR d.due_at <= clock_timestamp())
RETURNING true
"""
# What was refused holds up what follows of its subject, and nothing else.
LIST_WAITING = """-- {schema}.list_waiting
SELECT id, notification FROM {schema}.outbox o
WHERE destination = $1 AND parked_at IS NULL AND NOT EXISTS (
    SELECT FROM {schema}.outbox refused WHERE refused.destination = o.destination AND refused.subject = o.subject
        AND refused.due_at > clock_timestamp() AND refused.parked_at IS NULL AND refused.id <= o.id)
ORDER BY id LIMIT $2
"""
DELETE_DELIVERED = """-- {schema}.delete_delivered
DELETE FROM {schema}.outbox WHERE destination = $1 AND id = ANY($2::bigint[])
"""
PUT_OFF = """-- {schema}.put_off
UPDATE {schema}.outbox o SET tries = o.tries + 1,
    due_at = clock_timestamp() + least($4, power(2, least(o.tries, 20))) * interval '1 second',
    reason = left(r.reason, $5),
    parked_at = CASE WHEN o.created_at < now() - $6 * interval '1 second' THEN now() END
FROM unnest($2::bigint[], $3::text[]) AS r (id, reason) WHERE o.destination = $1 AND o.id = r.id
RETURNING o.parked_at IS NOT NULL AS parked
"""
NOTE_ANSWER = """-- {schema}.note_answer
UPDATE {schema}.outbox_destination SET failures = 0, due_at = NULL, reason = NULL WHERE name = $1 AND failures > 0
"""
NOTE_SILENCE = """-- {schema}.note_silence
UPDATE {schema}.outbox_destination SET failures = failures + 1, reason = left($2, $4),
    due_at = clock_timestamp() + least($3, power(2, least(failures, 20))) * interval '1 second' WHERE name = $1
"""
PARK_OLD = """-- {schema}.park_old
UPDATE {schema}.outbox SET parked_at = now(), reason = left($3, $4)
WHERE destination = $1 AND parked_at IS NULL AND created_at < now() - $2 * interval '1 second'
"""
UNPARK = """-- {schema}.unpark
UPDATE {schema}.outbox SET parked_at = NULL, due_at = NULL, tries = 0, created_at = now() WHERE parked_at IS NOT NULL
"""
LIST_DESTINATIONS = """-- {schema}.list_destinations
SELECT coalesce(d.name, o.destination) AS name, coalesce(waiting, 0) AS waiting, coalesce(parked, 0) AS parked,
    oldest_at, waiting_s, coalesce(d.failures, 0) AS failures, coalesce(d.reason, o.reason) AS reason
FROM {schema}.outbox_destination d FULL JOIN (
    SELECT destination, count(*) FILTER (WHERE parked_at IS NULL) AS waiting, max(reason) AS reason,
        count(*) FILTER (WHERE parked_at IS NOT NULL) AS parked, min(created_at) AS oldest_at,
        extract(epoch FROM now() - min(created_at) FILTER (WHERE parked_at IS NULL))::float AS waiting_s
    FROM {schema}.outbox GROUP BY destination) o ON o.destination = d.name
ORDER BY 1
"""


class _Written(Notification, frozen=True, kw_only=True):
    """A notification as it is read back."""

    payload: msgspec.Raw


_decoder = msgspec.json.Decoder(_Written)


@dataclass(frozen=True)
class Outbox:
    """The outbox of one service. host: as publisher ids name it. destinations: who gets what is written."""

    schema: str
    host: str = ""
    destinations: tuple[str, ...] = ()

    async def write(self, tx: Connection, notifications: Sequence[Notification]) -> None:
        """Write what the transaction changes, in order. The locks of the subjects are held."""
        if notifications:
            bodies = [msgspec.json.encode(notification).decode() for notification in notifications]
            subjects = [notification.subject for notification in notifications]
            await tx.execute(in_schema(WRITE, self.schema), subjects, bodies, list(self.destinations))

    async def drop_surplus(self, tx: Connection, destination: str, *, rows_max: int) -> int:
        """Delete the oldest rows above rows_max; return how many."""
        return count_changed(await tx.execute(in_schema(DROP_SURPLUS, self.schema), destination, rows_max))

    async def lease(self, tx: Connection, destination: str, *, owner: str, lease_s: float) -> bool:
        """Take or renew the lease on a destination; False while another has it, or nothing is to be tried yet."""
        return bool(await tx.fetchval(in_schema(LEASE, self.schema), destination, owner, lease_s))

    async def list_waiting(self, tx: Connection, destination: str, *, limit: int) -> list[Waiting]:
        """Return what to deliver next, in the order in which it was written."""
        rows = await tx.fetch(in_schema(LIST_WAITING, self.schema), destination, limit)
        return [Waiting(row["id"], _decoder.decode(row["notification"])) for row in rows]

    async def delete_delivered(self, tx: Connection, destination: str, ids: Sequence[int]) -> None:
        """Forget what was received."""
        if ids:
            await tx.execute(in_schema(DELETE_DELIVERED, self.schema), destination, ids)

    async def put_off(
        self,
        tx: Connection,
        destination: str,
        reasons_by_id: Mapping[int, str],
        *,
        wait_max_s: float,
        park_after_s: float,
    ) -> int:
        """Put off what was refused, later each time; return how many are too old for that and were parked."""
        if not reasons_by_id:
            return 0
        rows = await tx.fetch(
            in_schema(PUT_OFF, self.schema), destination, list(reasons_by_id), list(reasons_by_id.values()), wait_max_s,
            REASON_CHARACTERS_MAX, park_after_s,
        )  # fmt: skip
        return sum(row["parked"] for row in rows)

    async def note_answer(self, tx: Connection, destination: str) -> None:
        """Record that the destination is there."""
        await tx.execute(in_schema(NOTE_ANSWER, self.schema), destination)

    async def note_silence(
        self, tx: Connection, destination: str, reason: str, *, wait_max_s: float, park_after_s: float
    ) -> int:
        """Record that the destination is not there; it is tried later, later each time. Return how many were parked."""
        await tx.execute(in_schema(NOTE_SILENCE, self.schema), destination, reason, wait_max_s, REASON_CHARACTERS_MAX)
        status = await tx.execute(
            in_schema(PARK_OLD, self.schema), destination, park_after_s, reason, REASON_CHARACTERS_MAX
        )
        return count_changed(status)

    async def unpark(self, tx: Connection) -> int:
        """Make what was parked due again; return how many."""
        return count_changed(await tx.execute(in_schema(UNPARK, self.schema)))

    async def list_destinations(self, tx: Connection) -> list[DestinationState]:
        """Return how each destination does for which something was ever written."""
        return [DestinationState(**row) for row in await tx.fetch(in_schema(LIST_DESTINATIONS, self.schema))]
