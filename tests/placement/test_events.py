"""What the ledger refuses an unmodified Nova is there to be read, by both ids of the request; a flood is a few rows."""

import asyncio

import pytest
from tests.placement.calls import Api
from tests.placement.test_api import HOST, api

from roost.placement.service.events import EVENTS
from roost.placement.service.ledger import Ledger
from roost.platform import noted_events
from roost.platform.database import Database
from roost.platform.events import EventFilter, KeptEvent
from roost.platform.request_ids import RequestIds

__all__ = ["api"]

GLOBAL = "req-11111111-1111-4111-8111-111111111111"
SERVER = "33333333-0000-4000-8000-00000000000{}"
EVERY = EventFilter()


@pytest.fixture
def ledger(api: Api) -> Ledger:
    """The API's ledger, whose requests have ids now, as on a listener."""
    api.app = RequestIds(api.app)
    return api.ledger


async def kept(ledger: Ledger, only: EventFilter = EVERY) -> list[KeptEvent]:
    await ledger.refusals.keep()
    async with ledger.database.connection() as connection:
        return await EVENTS.list(connection, only, before=None, limit=100)


async def search(api: Api, vcpus: int, request_id: str = GLOBAL) -> None:
    headers = {"X-Openstack-Request-Id": request_id}
    assert (await api.call("GET", f"/allocation_candidates?resources=VCPU:{vcpus}", headers=headers))[0] == 200


def claim(vcpus: int) -> dict[str, object]:
    return {
        "allocations": {HOST: {"resources": {"VCPU": vcpus}}}, "project_id": "p", "user_id": "u",
        "consumer_generation": None, "consumer_type": "INSTANCE",
    }  # fmt: skip


async def test_an_empty_answer_is_kept_with_its_funnel_and_both_ids(api: Api, ledger: Ledger) -> None:
    await search(api, 10**6)
    (event,) = await kept(ledger)
    assert (event.kind, event.action, event.requirement) == ("refusal", "candidates", "free")
    assert event.funnel[0] == ("hosts", 1)
    assert event.funnel[-1][1] == 0
    assert "1000000 VCPU free" in event.reason
    (subject,) = event.subjects
    assert (subject.global_request_id, subject.server_id) == (GLOBAL, None)
    assert subject.request_id == api.headers["x-openstack-request-id"]
    for request_id in (subject.request_id, GLOBAL):
        assert await kept(ledger, EventFilter(request_id=request_id)) == [event]


async def test_a_refused_claim_is_kept_with_its_server(api: Api, ledger: Ledger) -> None:
    path = f"/allocations/{SERVER.format(1)}"
    status, _ = await api.call("PUT", path, claim(10**6), headers={"X-Openstack-Request-Id": GLOBAL})
    assert status == 409
    (event,) = await kept(ledger, EventFilter(server_id=SERVER.format(1)))
    assert (event.action, event.project_id) == ("claim", "p")
    assert event.host is not None
    assert event.subjects[0].global_request_id == GLOBAL


async def test_what_is_answered_is_noted_nowhere(api: Api, ledger: Ledger) -> None:
    await search(api, 1)
    assert (await api.call("PUT", f"/allocations/{SERVER.format(1)}", claim(1)))[0] == 204
    assert (await api.call("PUT", f"/allocations/{SERVER.format(1)}", claim(1)))[0] == 409, "its generation"
    assert len(ledger.refusals) == 0
    assert await kept(ledger) == []


async def test_a_flood_is_a_row_with_every_request(api: Api, ledger: Ledger) -> None:
    ids = [f"req-11111111-1111-4111-8111-{number:012}" for number in range(300)]
    for request_id in ids:
        await search(api, 10**6, request_id)
    (event,) = await kept(ledger)
    assert (event.count, len(event.subjects)) == (300, 300)
    assert await kept(ledger, EventFilter(request_id=ids[-1])) == [event]


async def test_what_could_not_be_written_is_written_the_next_time_and_is_bounded(
    api: Api, ledger: Ledger, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noted_events, "NOTED_MAX", 2)
    await search(api, 10**6)
    async with database.connection() as connection:
        async with connection.transaction():
            await connection.execute("ALTER TABLE placement.event RENAME TO away")
            keeping = asyncio.create_task(ledger.refusals.keep())
            await asyncio.sleep(0.1)  # it waits for the table
            for _ in range(3):
                await search(api, 10**6)
        with pytest.raises(Exception, match="does not exist"):
            await keeping
        assert len(ledger.refusals) == 2
        await connection.execute("ALTER TABLE placement.away RENAME TO event")
    (event,) = await kept(ledger)
    assert event.count == 2
