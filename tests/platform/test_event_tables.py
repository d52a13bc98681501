"""Events as they are kept: found by each of their parts, and purged in bounds."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from roost.platform.database import Database
from roost.platform.drift import Kind
from roost.platform.event_tables import PURGE_BATCH, EventTable
from roost.platform.events import HOST, MOVE, REFUSAL, Event, EventFilter, Subject, join_alike, repair_events

TABLE = EventTable("placement")
S1, S2 = Subject(server_id="s1", request_id="req-1", global_request_id="req-g"), Subject(server_id="s2")
REFUSED = Event(
    kind=REFUSAL, action="boot", requirement="addresses", project_id="p", network_id="n", network="net",
    segment_id="seg", segment="rack1", reason="no room", funnel=(("considered", 2), ("free", 0)), subjects=(S1, S2),
    count=2,
)  # fmt: skip
MOVED = Event(kind=MOVE, action="live-migration", host="h2", source_host="h1", subjects=(S2,))
SILENT = Event(kind=HOST, action="silent", host="h1")
EVERY = (REFUSED, MOVED, SILENT)


async def write(database: Database, *events: Event) -> None:
    async with database.transaction() as tx:
        await TABLE.write(tx, events)


async def found(database: Database, only: EventFilter) -> list[Event]:
    async with database.connection() as connection:
        kept = await TABLE.list(connection, only, before=None, limit=1000)
    names = Event.__struct_fields__
    return [Event(**{name: getattr(event, name) for name in names}) for event in reversed(kept)]


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (EventFilter(), EVERY),
        (EventFilter(kind=MOVE), (MOVED,)),
        (EventFilter(host="h1"), (MOVED, SILENT)),
        (EventFilter(host="h2"), (MOVED,)),
        (EventFilter(segment="rack1"), (REFUSED,)),
        (EventFilter(segment="seg"), (REFUSED,)),
        (EventFilter(server_id="s1"), (REFUSED,)),
        (EventFilter(server_id="s2"), (REFUSED, MOVED)),
        (EventFilter(request_id="req-1"), (REFUSED,)),
        (EventFilter(request_id="req-g"), (REFUSED,)),
        (EventFilter(server_id="s2", kind=REFUSAL), (REFUSED,)),
        (EventFilter(server_id="s3"), ()),
        (EventFilter(since=datetime.now(UTC) - timedelta(hours=1)), EVERY),
        (EventFilter(since=datetime.now(UTC) + timedelta(hours=1)), ()),
    ],
)
async def test_an_event_is_found_by_each_of_its_parts(
    database: Database, only: EventFilter, expected: tuple[Event, ...]
) -> None:
    await write(database, *EVERY)
    assert await found(database, only) == list(expected)


async def test_an_event_is_there_only_if_its_transaction_is(database: Database) -> None:
    async def write_and_fail() -> None:
        async with database.transaction() as tx:
            await TABLE.write(tx, [REFUSED])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await write_and_fail()
    assert await found(database, EventFilter()) == []


def test_those_that_differ_in_their_servers_alone_are_one() -> None:
    first, second, other = replace(REFUSED, subjects=(S1,), count=1), replace(REFUSED, subjects=(S2,), count=1), MOVED
    assert join_alike([first, other, second]) == [REFUSED, MOVED]


def test_what_was_repaired_is_told_by_its_kind() -> None:
    kind = Kind("number-wrong", "a number is wrong", "set again")
    (event,) = repair_events([kind.drift("k1", "is 5", name="five"), kind.drift("k2", "is 5")])
    assert (event.kind, event.action, event.reason) == (
        "repair", "number-wrong", "a number is wrong; is 5; set again"
    )  # fmt: skip
    assert [subject.server_id for subject in event.subjects] == ["k1", "k2"]


FILL = """
INSERT INTO placement.event (at, kind, action, requirement, network, segment, reason, funnel, subjects, count)
SELECT now() - interval '31 days' * (number <= $2)::int, 'refusal', 'boot', 'cpu', '', '', repeat('no room ', 20),
    '[["considered", 2]]', jsonb_build_array(jsonb_build_object('server_id', gen_random_uuid())), 1
FROM generate_series(1, $1::integer) AS number
"""


@pytest.mark.parametrize(
    ("rows", "old", "keep_rows", "left"),
    [
        (10, 0, 100, 10),
        (10, 4, 100, 6),
        (10, 0, 3, 3),
        (10, 0, 0, 0),
        (10, 10, 3, 0),
        (2 * PURGE_BATCH + 5, PURGE_BATCH, 1000, 1000),
        pytest.param(1_000_000, 500_000, 100_000, 100_000, marks=pytest.mark.long),
    ],
)
async def test_what_is_old_or_too_many_is_purged_in_batches(
    database: Database, rows: int, old: int, keep_rows: int, left: int
) -> None:
    async with database.connection() as connection:
        await connection.execute(FILL, rows, old, timeout=600)
    assert await TABLE.purge(database, keep_days=30, keep_rows=keep_rows) == rows - left
    async with database.connection() as connection:
        numbers = await connection.fetchrow("SELECT count(*) AS left, max(id) AS last FROM placement.event")
    assert (numbers["left"], numbers["last"] or rows) == (left, rows)
