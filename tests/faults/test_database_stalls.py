"""The database stands still, or a lock is not given back: requests are answered in a time of their own."""

import asyncio
import re
import time

import aiohttp
from tests.cluster import cluster
from tests.database_proxy import DatabaseProxy
from tests.placement_client import PlacementClient, a_uuid, claim

from roost.platform.database import Database

REQUEST_TIMEOUT_S = 3.0
ANSWER_MAX_S = REQUEST_TIMEOUT_S + 2
"""A second or two more than the option says: other tests run beside this one."""
LEASE_S = 2.0
TIMES = {"ROOST_API_REQUEST_TIMEOUT_S": str(REQUEST_TIMEOUT_S)}
HEALTH_MAX_S = 1.0


async def test_a_request_is_answered_in_its_own_time_while_the_database_stands_still() -> None:
    with cluster() as made:
        made.serve("placement")  # for its PostgreSQL
        async with DatabaseProxy.listening(made.dsn) as proxy:
            await asyncio.to_thread(made.serve, "placement", database=proxy.dsn, environment=TIMES)
            async with PlacementClient.connect(made.url) as client, aiohttp.ClientSession() as session:
                host = await client.provider("host", VCPU=10)
                await client.do("GET", "/allocation_candidates?resources=VCPU:1")  # what the index has seen it may tell
                proxy.open.clear()
                started_s = time.monotonic()
                answers = await asyncio.gather(
                    *(client.call("PUT", f"/allocations/{a_uuid()}", claim({host: {"VCPU": 1}})) for _ in range(5)),
                    client.call("GET", "/resource_providers"),
                    client.call("GET", "/allocation_candidates?resources=VCPU:1"),
                )
                assert time.monotonic() - started_s < ANSWER_MAX_S
                *claims, listed, candidates = answers
                for answer in (*claims, listed):
                    assert (answer.status, answer.headers.get("Retry-After")) == (503, "1"), answer
                    assert re.search("not done within [23] s|does not answer at the moment", answer.detail), answer
                assert candidates.status == 200, candidates
                for _ in range(3):
                    started_s = time.monotonic()
                    async with session.get(f"{made.url}/healthz") as health:
                        assert health.status == 503
                        assert "does not answer" in (await health.json())["reason"]
                    assert time.monotonic() - started_s < HEALTH_MAX_S
                proxy.open.set()
                answer = await client.call("PUT", f"/allocations/{a_uuid()}", claim({host: {"VCPU": 1}}))
                assert answer.status == 204, answer
                async with session.get(f"{made.url}/healthz") as health:
                    assert health.status == 200
        assert "Traceback" not in made.logs()


async def test_who_waits_too_long_for_a_lock_is_told_so_with_a_503() -> None:
    with cluster() as made:
        made.serve("placement", environment={"ROOST_CONDUCTOR_LEASE_S": str(LEASE_S)})
        database = await Database.open(made.dsn, size=1)
        try:
            async with PlacementClient.connect(made.url) as client, database.transaction() as tx:
                host = await client.provider("host", VCPU=10)
                # Somebody at work, who says something now and then: nobody ends that.
                await tx.execute("SELECT FROM placement.provider WHERE uuid = $1 FOR UPDATE", host)
                started_s = time.monotonic()
                answer = await client.call("PUT", f"/allocations/{a_uuid()}", claim({host: {"VCPU": 1}}))
                assert time.monotonic() - started_s >= LEASE_S + 5
                assert (answer.status, answer.headers.get("Retry-After")) == (503, "1"), answer
                assert "Another transaction held for too long what this one needs" in answer.detail
        finally:
            await database.close()
