"""Clients that want the same thing at once, over HTTP: nothing is given twice, and nobody is sent away for nothing."""

import asyncio
from collections import Counter

import pytest
from tests.faults.conftest import LedgerServers
from tests.invariants import assert_books_agree
from tests.placement_client import Answer, PlacementClient, a_uuid, at_once, claim

from roost.platform.database import Database

CLIENTS = 16
ROOM = 10
HOT_CLIENTS = 32
HOT_HOSTS = 200


@pytest.mark.parametrize("workers", ["one", "four"])
@pytest.mark.parametrize("how", ["PUT", "POST", "PUT without generations"])
async def test_sixteen_clients_race_for_a_segment_and_as_many_win_as_it_has_room(
    ledger_servers: LedgerServers, ledger_database: Database, workers: str, how: str
) -> None:
    async with PlacementClient.connect(getattr(ledger_servers, workers), reuse=False) as client:
        segment = await client.provider(f"segment {workers} {how}", IPV4_ADDRESS=ROOM)
        hosts = [await client.provider(f"host {number} {workers} {how}", VCPU=100) for number in range(2)]

        async def take(number: int) -> Answer:
            server, port = {hosts[number % 2]: {"VCPU": 1}}, {segment: {"IPV4_ADDRESS": 1}}
            if how == "POST":
                return await client.call("POST", "/allocations", {a_uuid(): claim(server), a_uuid(): claim(port)})
            body = claim(server | port)
            if how == "PUT":
                return await client.call("PUT", f"/allocations/{a_uuid()}", body)
            del body["consumer_generation"], body["consumer_type"]
            return await client.call("PUT", f"/allocations/{a_uuid()}", body, version="1.12")

        racing = asyncio.create_task(at_once(*(take(number) for number in range(CLIENTS))))
        samples = await _sample_until(ledger_database, racing, segment)
        answers = racing.result()
        assert Counter(answer.status for answer in answers) == {204: ROOM, 409: CLIENTS - ROOM}
        for answer in answers:
            if answer.status == 409:
                assert f"'IPV4_ADDRESS' on resource provider '{segment}'" in answer.detail
                assert "Unable to allocate inventory: Unable to create allocation for" in answer.detail
                assert "The requested amount would exceed the capacity" in answer.detail
                assert how.endswith("generations") or answer.code == "placement.undefined_code"
        assert all(used == held <= ROOM for used, held in samples), samples
        assert await client.used(segment) == {"IPV4_ADDRESS": ROOM}
        assert sum([(await client.used(host))["VCPU"] for host in hosts]) == ROOM
        held = (await client.do("GET", f"/resource_providers/{segment}/allocations"))["allocations"]
        assert [one["resources"] for one in held.values()] == [{"IPV4_ADDRESS": 1}] * ROOM
    await assert_books_agree(ledger_database, settled=False)


@pytest.mark.parametrize("workers", ["one", "four"])
async def test_clients_that_write_one_consumer_from_one_generation_are_told_that_it_changed(
    ledger_servers: LedgerServers, ledger_database: Database, workers: str
) -> None:
    async with PlacementClient.connect(getattr(ledger_servers, workers), reuse=False) as client:
        host = await client.provider(f"host of one consumer {workers}", VCPU=100)
        consumer = a_uuid()
        for generation, seen in ((None, 0), (1, 1), (2, 2)):
            bodies = [claim({host: {"VCPU": amount}}, generation) for amount in range(1, CLIENTS + 1)]
            answers = await at_once(*(client.call("PUT", f"/allocations/{consumer}", body) for body in bodies))
            assert Counter(answer.status for answer in answers) == {204: 1, 409: CLIENTS - 1}
            (won,) = [amount for amount, answer in enumerate(answers, 1) if answer.status == 204]
            for answer in answers:
                if answer.status == 409:
                    assert answer.code == "placement.concurrent_update"
                    assert f"consumer generation conflict - expected {seen + 1} but got {generation}" in answer.detail
            assert await client.used(host) == {"VCPU": won}
    await assert_books_agree(ledger_database, settled=False)


@pytest.mark.parametrize("workers", ["one", "four"])
async def test_a_segment_shared_by_hundreds_of_hosts_takes_claims_at_once_without_generation_conflicts(
    ledger_servers: LedgerServers, ledger_database: Database, workers: str
) -> None:
    """LP 1719933, story 2006467: claims name no generation of a provider, so a hot one refuses nobody who fits."""
    async with PlacementClient.connect(getattr(ledger_servers, workers), reuse=False) as client:
        aggregate = a_uuid()
        segment = await client.provider(f"hot segment {workers}", IPV4_ADDRESS=10_000)
        await client.do(
            "PUT", f"/resource_providers/{segment}/traits",
            {"resource_provider_generation": 1, "traits": ["MISC_SHARES_VIA_AGGREGATE"]},
        )  # fmt: skip

        async def join(provider: str, generation: int) -> str:
            body = {"resource_provider_generation": generation, "aggregates": [aggregate]}
            await client.do("PUT", f"/resource_providers/{provider}/aggregates", body)
            return provider

        async def add_host(number: int) -> str:
            return await join(await client.provider(f"hot {workers} {number}", VCPU=8, MEMORY_MB=4096), 1)

        await join(segment, 2)
        hosts: list[str] = []
        for start in range(0, HOT_HOSTS, HOT_CLIENTS):
            hosts += await at_once(*(add_host(start + number) for number in range(HOT_CLIENTS)))

        async def boot(number: int) -> list[Answer]:
            answers = []
            for turn in range(4):
                host = hosts[(number + turn * HOT_CLIENTS) % len(hosts)]
                held = {host: {"VCPU": 1, "MEMORY_MB": 512}, segment: {"IPV4_ADDRESS": 1}}
                answers.append(await client.call("PUT", f"/allocations/{a_uuid()}", claim(held)))
            return answers

        answers = [one for some in await at_once(*map(boot, range(HOT_CLIENTS))) for one in some]
        assert [answer for answer in answers if answer.status != 204] == []
        assert await client.used(segment) == {"IPV4_ADDRESS": 4 * HOT_CLIENTS}
    await assert_books_agree(ledger_database, settled=False)


async def _sample_until(database: Database, done: asyncio.Task[list[Answer]], provider: str) -> list[tuple[int, int]]:
    """(used, sum of the allocations) of a provider, each pair of one instant, again and again until it is over."""
    samples: list[tuple[int, int]] = []
    async with database.connection() as connection:
        while not samples or not done.done():
            row = await connection.fetchrow(
                """SELECT i.used, coalesce(sum(a.used), 0)::int FROM placement.provider p
                JOIN placement.inventory i ON i.provider_id = p.id
                LEFT JOIN placement.allocation a USING (provider_id, resource_class_id)
                WHERE p.uuid = $1 GROUP BY i.used""",
                provider,
            )
            samples.append((row[0], row[1]))
    await done
    return samples
