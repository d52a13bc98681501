"""Keeps events: each is a row of the service that saw it.

Three services have such a table, `event` of their schema. Whoever changes something writes its events in the same
transaction, so none is lost and none tells what did not happen; after the commit it logs them. What happened alike in
one transaction is one row, which names every server and request: a batch of refusals costs one row.
"""
# ruff: noqa: S608 - what is put into a statement are constants of this file.

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import structlog
from msgspec.structs import asdict, replace

from roost.platform.database import Connection, Database, HasDatabase, count_changed
from roost.platform.drift import Drift
from roost.platform.events import (
    MOVE,
    REPAIR,
    SENTENCES,
    WHOLE_HOST,
    Event,
    EventFilter,
    KeptEvent,
    Subject,
    repair_events,
)
from roost.platform.purging import purge
from roost.platform.rows import in_schema

PURGE_BATCH = 1000
"""Events that one transaction deletes."""
REASON_CHARACTERS_MAX = 4000
UNLOGGED = frozenset({"requirement", "network_id", "segment_id", "funnel", "subjects", "count"})
"""What of an event its line leaves out: the reason says it in words."""

log = structlog.get_logger()


def log_events(events: Sequence[Event]) -> None:
    """Log a line for each server of each event, or one for a whole host; call it after the commit."""
    for event in events:
        write = log.info if event.kind in (MOVE, REPAIR) else log.warning
        if event.action == WHOLE_HOST:
            write(SENTENCES[event.kind], servers=len(event.subjects), **_line(event, Subject()))
            continue
        for subject in event.subjects or (Subject(),):
            write(SENTENCES[event.kind], **_line(event, subject))


def _line(event: Event, subject: Subject) -> dict[str, Any]:
    """Return what a line says of an event and of one of its servers; empty words are left out."""
    words = {name: value for name, value in asdict(event).items() if name not in UNLOGGED}
    words |= {
        "server": subject.server_id,
        "request_id": subject.request_id,
        "global_request_id": subject.global_request_id,
    }
    return {name: value for name, value in words.items() if value}


COLUMNS = """kind, action, requirement, project_id, host, source_host, network_id, network, segment_id, segment,
    reason, funnel, subjects, count"""
WRITE = f"""-- {{schema}}.write_events
INSERT INTO {{schema}}.event ({COLUMNS}) SELECT {COLUMNS} FROM jsonb_to_recordset($1::jsonb) AS new (
    kind text, action text, requirement text, project_id text, host text, source_host text, network_id text,
    network text, segment_id text, segment text, reason text, funnel jsonb, subjects jsonb, count integer)
"""
LIST = f"""-- {{schema}}.list_events
SELECT id, at, {COLUMNS} FROM {{schema}}.event
WHERE ($1::text IS NULL OR kind = $1) AND ($2::text IS NULL OR host = $2 OR source_host = $2)
    AND ($3::text IS NULL OR segment_id = $3 OR segment = $3) AND ($4::jsonb IS NULL OR subjects @> $4)
    AND ($5::jsonb IS NULL OR subjects @> $5 OR subjects @> $6) AND ($7::timestamptz IS NULL OR at >= $7)
    AND ($8::timestamptz IS NULL OR (at, id) < ($8, $9::bigint))
ORDER BY at DESC, id DESC LIMIT $10
"""
FIND_TIME = """-- {schema}.find_event_time
SELECT at FROM {schema}.event WHERE id = $1
"""
PURGE_OLD = """-- {schema}.purge_old_events
DELETE FROM {schema}.event WHERE id IN (
    SELECT id FROM {schema}.event WHERE at <= now() - $1::interval ORDER BY at, id LIMIT $2)
"""
PURGE_SURPLUS = """-- {schema}.purge_surplus_events
DELETE FROM {schema}.event WHERE id IN (SELECT id FROM {schema}.event
    WHERE id <= (SELECT max(id) FROM {schema}.event) - $1::bigint ORDER BY id LIMIT $2)
"""


_funnel = msgspec.json.Decoder(tuple[tuple[str, int], ...])
_subjects = msgspec.json.Decoder(tuple[Subject, ...])


@dataclass(frozen=True)
class EventTable:
    """The events of one service, by its schema."""

    schema: str

    async def write(self, tx: Connection, events: Sequence[Event]) -> None:
        """Write what the transaction changes; nothing and no statement where nothing happened."""
        if events:
            bounded = [replace(event, reason=event.reason[:REASON_CHARACTERS_MAX]) for event in events]
            await tx.execute(
                in_schema(WRITE, self.schema), msgspec.json.encode([asdict(event) for event in bounded]).decode()
            )

    async def list(
        self, tx: Connection, only: EventFilter, *, before: tuple[datetime, int] | None, limit: int
    ) -> list[KeptEvent]:
        """Return events, the latest first. before: only those of an earlier time, or of it with a lower number."""
        at, number = before or (None, 0)
        of_server = _having(server_id=only.server_id)
        own, of_caller = _having(request_id=only.request_id), _having(global_request_id=only.request_id)
        rows = await tx.fetch(
            in_schema(LIST, self.schema), only.kind, only.host, only.segment, of_server, own, of_caller, only.since,
            at, number, limit,
        )  # fmt: skip
        return [self._kept(row) for row in rows]

    def _kept(self, row: Any) -> KeptEvent:
        values = dict(row)
        number, funnel, subjects = values.pop("id"), values.pop("funnel"), values.pop("subjects")
        return KeptEvent(
            **values,
            service=self.schema,
            number=number,
            funnel=_funnel.decode(funnel),
            subjects=_subjects.decode(subjects),
        )

    async def keep_repairs(self, service: HasDatabase, drifts: Sequence[Drift]) -> None:
        """Write and log what was repaired: after the repairs, which reach over several services."""
        events = repair_events(drifts)
        async with service.database.transaction() as tx:
            await self.write(tx, events)
        log_events(events)

    async def find_time(self, tx: Connection, number: int) -> datetime | None:
        """Return when the event of that number was; None where it is not kept."""
        at: datetime | None = await tx.fetchval(in_schema(FIND_TIME, self.schema), number)
        return at

    async def purge(self, database: Database, *, keep_days: float, keep_rows: int) -> int:
        """Delete what is older than that, and the oldest above that many rows, in batches; return how many went."""
        purged = 0
        for statement, bound in ((PURGE_OLD, timedelta(days=keep_days)), (PURGE_SURPLUS, keep_rows)):
            purged += await purge(database, partial(self._purge, statement, bound), batch=PURGE_BATCH)
        return purged

    async def _purge(self, statement: str, bound: timedelta | float, tx: Connection, limit: int) -> int:
        return count_changed(await tx.execute(in_schema(statement, self.schema), bound, limit))


def _having(**fields: str | None) -> str | None:
    """Return a list of one subject with this field, as JSON; None where its value is None."""
    return msgspec.json.encode([fields]).decode() if None not in fields.values() else None
