"""Events of all services as one list over `/roost/v1/events`: in order, in pages, for admins and services."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.applications import Starlette
from tests.platform.asgi import ask

from roost.cli.serving.access import OPEN_PATHS, api_policy
from roost.placement.settings import PlacementSettings
from roost.platform.authentication import Authentication, noauth2
from roost.platform.database import Database
from roost.platform.event_tables import EventTable
from roost.platform.events import Event, Subject
from roost.platform.mounts import mount
from roost.seeing.api import event_routes
from roost.seeing.service.events import EventSource

TABLES = [EventTable(schema) for schema in ("placement", "compute", "network")]
ADMIN = {"x-auth-token": "ann:mine", "x-roles": "admin"}
SERVICE = {"x-auth-token": "nova:service", "x-roles": "service"}
MEMBER = {"x-auth-token": "ann:mine", "x-roles": "member"}
SERVER = "11111111-1111-4111-8111-111111111111"


def side(database: Database) -> Authentication:
    sources = [EventSource(table, database) for table in TABLES]
    policy = api_policy("seeing", "noauth2", "secure-rbac", PlacementSettings(), folder=Path("/"))
    app = Starlette(routes=[mount("/roost", event_routes(sources, policy))])
    return Authentication(app, noauth2, open_paths=OPEN_PATHS)


async def write(database: Database, table: EventTable, *reasons: str) -> None:
    """Events of one moment, as one transaction writes them."""
    events = [Event(kind="refusal", reason=reason, subjects=(Subject(server_id=SERVER),)) for reason in reasons]
    async with database.transaction() as tx:
        await table.write(tx, events)


async def listed(database: Database, headers: Any = ADMIN, **query: Any) -> Any:
    path = "/roost/v1/events" + (f"?{urlencode(query)}" if query else "")
    return await ask(side(database), path, headers)


def reasons(answer: Any) -> Sequence[str]:
    assert answer.status == 200, answer.body
    return [event["reason"] for event in answer.body["events"]]


async def test_events_of_all_services_come_in_the_order_of_time(database: Database) -> None:
    for number, table in enumerate(TABLES * 2):
        await write(database, table, str(number))
    answer = await listed(database)
    assert reasons(answer) == list("543210")
    assert answer.body["next"] is None
    times = [datetime.fromisoformat(event["at"]) for event in answer.body["events"]]
    assert times == sorted(times, reverse=True)
    event = answer.body["events"][0]
    assert (event["id"], event["server_id"], event["count"]) == ("network-2", SERVER, 1)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
async def test_pages_follow_each_other_without_a_gap_also_at_one_moment(database: Database, limit: int) -> None:
    for table in TABLES:
        await write(database, table, *"ab")
    async with database.connection() as connection:
        for table in TABLES:
            await connection.execute(f"UPDATE {table.schema}.event SET at = '2026-01-01T00:00:00Z'")
    whole = (await listed(database)).body["events"]
    assert len(whole) == 6
    seen: list[Any] = []
    marker: dict[str, str] = {}
    while True:
        page = (await listed(database, limit=limit, **marker)).body
        seen += page["events"]
        if page["next"] is None:
            break
        marker = {"marker": page["next"]}
    assert seen == whole


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"marker": "compute-1"}, "expected the id of an event that is kept"),
        ({"marker": "compute-99999999999999999999999"}, "expected the id of an event that is kept"),
        ({"marker": "nothing"}, "expected the id of an event that is kept"),
        ({"kind": "boot"}, "expected one of drain, failure, fence"),
        ({"since": "yesterday"}, "expected a time such as"),
        ({"limit": "0"}, "expected a whole number from 1 to 1000"),
        ({"limit": "1001"}, "expected a whole number from 1 to 1000"),
        ({"server": ""}, "with 1 to 255 characters"),
        ({"host": "a\x00"}, "with 1 to 255 characters"),
        ({"project": "p"}, "does not serve this parameter"),
    ],
)
async def test_what_cannot_be_asked_for_is_said(database: Database, query: dict[str, str], said: str) -> None:
    answer = await listed(database, **query)
    assert answer.status == 400, answer
    assert said in answer.body["detail"]


@pytest.mark.parametrize(("headers", "status"), [(ADMIN, 200), (SERVICE, 200), (MEMBER, 403), ({}, 401)])
async def test_admins_and_services_see_events(database: Database, headers: dict[str, str], status: int) -> None:
    assert (await listed(database, headers)).status == status


async def test_the_server_that_was_asked_for_is_the_one_that_is_shown(database: Database) -> None:
    subjects = (Subject(server_id="other", request_id="req-1"), Subject(server_id=SERVER, request_id="req-2"))
    async with database.transaction() as tx:
        await TABLES[0].write(tx, [Event(kind="refusal", subjects=subjects, count=2)])
    for query, shown in (({}, "other"), ({"server": SERVER.upper()}, SERVER), ({"request": "req-2"}, SERVER)):
        (event,) = (await listed(database, **query)).body["events"]
        assert (event["server_id"], len(event["servers"])) == (shown, 2)
    assert (await listed(database, server="none")).body["events"] == []
