"""The import on real PostgreSQL: the ledger becomes the source's, whatever it was, and nobody sees it half done."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace
from tests.placement.ledger_states import consumer, ledgers, provider, state, uuid_of

from roost.placement.model import LedgerState
from roost.placement.service import claims as claims_service
from roost.placement.service.imports import LedgerBusy, compare_ledger, import_ledger
from roost.placement.service.ledger import Ledger
from roost.placement.service.reads import get_provider
from roost.placement.store import imports as imports_store
from roost.platform.database import Database
from roost.seams.placement import Claimed, ClaimGroup, ConsumerClaim, Inventory

WRONG_USE = """
    SELECT i.* FROM placement.inventory i LEFT JOIN placement.allocation a USING (provider_id, resource_class_id)
    GROUP BY i.provider_id, i.resource_class_id HAVING i.used <> coalesce(sum(a.used), 0)
"""
WRONG_ROOT = """
    WITH RECURSIVE tree (id, root_id) AS (
        SELECT id, id FROM placement.provider WHERE parent_id IS NULL
        UNION ALL SELECT child.id, tree.root_id FROM placement.provider child JOIN tree ON child.parent_id = tree.id
    )
    SELECT p.uuid FROM placement.provider p LEFT JOIN tree USING (id) WHERE tree.root_id IS DISTINCT FROM p.root_id
"""
HANGING = """
    SELECT a.* FROM placement.allocation a LEFT JOIN placement.inventory i USING (provider_id, resource_class_id)
    LEFT JOIN placement.consumer c ON c.uuid = a.consumer_uuid WHERE i.provider_id IS NULL OR c.uuid IS NULL
"""


@pytest.fixture
async def ledger(database: Database) -> Ledger:
    return Ledger(database)


async def held_by(ledger: Ledger) -> LedgerState:
    async with ledger.database.transaction(snapshot=True) as tx:
        return await imports_store.read_ledger(tx)


async def assert_is(ledger: Ledger, source: LedgerState) -> None:
    """Providers, consumers and custom names are the source's, the books agree, and so does the index."""
    held = await held_by(ledger)
    assert held.providers == source.providers
    assert held.consumers == source.consumers
    for ours, theirs in ((held.resource_classes, source.resource_classes), (held.traits, source.traits)):
        assert {name for name in ours if name.startswith("CUSTOM_")} == {
            name for name in theirs if name.startswith("CUSTOM_")
        }
    async with ledger.database.connection() as connection:
        for query in (WRONG_USE, WRONG_ROOT, HANGING):
            assert await connection.fetch(query) == []
    index = await ledger.index.fresh()
    assert len(index) == len(source.providers)
    for uuid, one in source.providers.items():
        view = await get_provider(ledger, uuid)
        assert (view.name, view.generation, view.parent_uuid) == (one.name, one.generation, one.parent_uuid)
        assert (view.inventories, view.traits) == (one.inventories, one.traits)
        assert view.placement_aggregates == one.placement_aggregates
        top = uuid
        while (above := source.providers[top].parent_uuid) is not None:
            top = above
        assert view.root_uuid == top
        assert view.used == {
            name: sum(held.allocations.get(uuid, {}).get(name, 0) for held in source.consumers.values())
            for name in one.inventories
        }


@given(ledgers(), ledgers())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_whatever_the_ledger_was_it_becomes_the_source(
    ledger: Ledger, first: LedgerState, second: LedgerState
) -> None:
    for source in (first, second):
        expected = (await compare_ledger(ledger, source, delete=True, overwrite=True)).plan
        imported = await import_ledger(ledger, source, delete=True, overwrite=True)
        assert imported.plan == expected
        assert imported.written == expected.writes
        await assert_is(ledger, source)
        again = await import_ledger(ledger, source, delete=True, overwrite=False)
        assert (again.plan.differences, again.written) == ((), False)


HOST = provider(1, "host", generation=7, inventories={"VCPU": Inventory(total=4, reserved=4)})
SERVER = consumer(1, {HOST.uuid: {"VCPU": 3}}, generation=5)


async def test_a_provider_over_its_capacity_is_taken_as_it_is(ledger: Ledger) -> None:
    await import_ledger(ledger, state([HOST], [SERVER]), delete=False, overwrite=False)
    assert await claims_service.list_usages(ledger, [HOST.uuid]) == {HOST.uuid: {"VCPU": (0, 3)}}
    held = await claims_service.get_consumers(ledger, [SERVER.consumer_uuid])
    assert held[SERVER.consumer_uuid].generation == 5


async def test_nothing_is_written_when_something_is_in_the_way(ledger: Ledger) -> None:
    await import_ledger(ledger, state([HOST], [SERVER]), delete=False, overwrite=False)
    before = await held_by(ledger)
    other = state([provider(2, "host"), provider(3, "free", traits=frozenset({"CUSTOM_NEW"}))])
    imported = await import_ledger(ledger, other, delete=False, overwrite=False)
    assert imported.plan.obstacles
    assert not imported.written
    assert await held_by(ledger) == before


async def test_delete_leaves_what_was_made_in_roost_unless_told(ledger: Ledger) -> None:
    """An import with --delete after the switch once removed new hosts with the claims of their servers."""
    old = provider(2, "old", inventories={"VCPU": Inventory(total=4)})
    source, smaller = state([HOST, old], [SERVER]), state([HOST])
    await import_ledger(ledger, source, delete=True, overwrite=False)
    await import_ledger(ledger, smaller, delete=False, overwrite=False)  # stays noted as the source's
    again = await import_ledger(ledger, smaller, delete=True, overwrite=False)
    assert (again.written, again.plan.obstacles) == (True, ())
    await assert_is(ledger, smaller)

    await import_ledger(ledger, source, delete=True, overwrite=False)
    claim = ConsumerClaim(
        consumer_uuid=uuid_of(4, 1), generation=None, consumer_type="INSTANCE", project_id="p", user_id="u",
        allocations={old.uuid: {"VCPU": 1}},
    )  # fmt: skip
    (answer,) = await claims_service.claim(ledger, [ClaimGroup((claim,))])
    assert isinstance(answer, Claimed)
    before = await held_by(ledger)
    refused = await import_ledger(ledger, smaller, delete=True, overwrite=False)
    assert not refused.written
    assert [sentence.split(" which")[0] for sentence in refused.plan.obstacles] == ["1 provider", "1 consumer"]
    assert await held_by(ledger) == before
    assert (await import_ledger(ledger, smaller, delete=True, overwrite=True)).written
    await assert_is(ledger, smaller)


async def test_a_child_that_only_roost_has_follows_its_parent_into_another_tree(ledger: Ledger) -> None:
    below = provider(3, "below", parent_uuid=HOST.uuid)
    top = provider(4, "top")
    await import_ledger(ledger, state([HOST, below, top]), delete=False, overwrite=False)
    assert (await get_provider(ledger, below.uuid)).root_uuid == HOST.uuid
    moved = replace(HOST, parent_uuid=top.uuid)
    await import_ledger(ledger, state([moved, top]), delete=False, overwrite=False)
    assert (await get_provider(ledger, below.uuid)).root_uuid == top.uuid


async def test_a_database_without_a_ledger_is_compared_as_an_empty_one(dsn: str) -> None:
    database = await Database.open(dsn)
    try:
        async with database.connection() as connection:
            await connection.execute("DROP SCHEMA placement CASCADE")
        compared = await compare_ledger(Ledger(database), state([HOST], [SERVER]), delete=False, overwrite=False)
        assert compared == await compare_ledger(None, state([HOST], [SERVER]), delete=False, overwrite=False)
        assert {one.key for one in compared.plan.differences} == {HOST.uuid, SERVER.consumer_uuid}
        async with database.connection() as connection:
            assert not await imports_store.has_ledger(connection)
    finally:
        await database.close()


async def test_claims_race_an_import_and_both_are_done(ledger: Ledger) -> None:
    hosts = [provider(number, inventories={"VCPU": Inventory(total=1000)}) for number in range(20)]
    source = state(hosts, [consumer(n, {hosts[n % 20].uuid: {"VCPU": 1}}) for n in range(200)])
    await import_ledger(ledger, source, delete=False, overwrite=False)
    ending = asyncio.Event()
    claimed = 0

    async def boot(number: int) -> None:
        """New consumers, which are locked after providers, and the same ones again, which are locked before."""
        nonlocal claimed
        while not ending.is_set():
            claimed += 1
            uuid = uuid_of(4, number * 100_000 + claimed)
            for generation in (None, 1):
                one = ConsumerClaim(
                    consumer_uuid=uuid, generation=generation, consumer_type="INSTANCE", project_id="p", user_id="u",
                    allocations={hosts[(number + claimed) % 20].uuid: {"VCPU": 1}},
                )  # fmt: skip
                (answer,) = await claims_service.claim(ledger, [ClaimGroup((one,))])
                # An import may have removed the consumer in between.
                assert isinstance(answer, Claimed) or generation is not None

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(boot(number))
        for generation in range(1, 6):
            changed = replace(source, providers={one.uuid: replace(one, generation=generation) for one in hosts})
            imported = await import_ledger(ledger, changed, delete=True, overwrite=True)
            assert imported.written
        ending.set()
    assert claimed > 5
    async with ledger.database.connection() as connection:
        assert await connection.fetch(WRONG_USE) == []
        assert await connection.fetch(HANGING) == []


async def test_an_import_that_never_gets_the_ledger_says_so(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    await import_ledger(ledger, state([HOST]), delete=False, overwrite=False)
    monkeypatch.setattr("roost.placement.service.imports.LOCK_ROUNDS_MAX", 2)
    async with ledger.database.transaction() as tx:
        await tx.execute("LOCK TABLE placement.consumer IN ROW EXCLUSIVE MODE")
        with pytest.raises(LedgerBusy):
            await import_ledger(ledger, state([HOST], [SERVER]), delete=False, overwrite=False)
    assert (await held_by(ledger)).consumers == {}
