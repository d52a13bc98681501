"""The refresh on real PostgreSQL: what was committed before a request came, the request sees."""

import asyncio
import uuid

import msgspec
import pytest

from roost.placement import service, store
from roost.placement.refresh import IndexRefresher
from roost.placement.service_ledger import Ledger, sync_standard_names
from roost.platform.database import Database
from roost.seams.placement import SHARING, VCPU, ClaimGroup, ConsumerClaim, Inventory, ProviderState


def a_uuid() -> str:
    return str(uuid.uuid4())


@pytest.fixture
async def ledger(database: Database) -> Ledger:
    made = Ledger(database)
    await sync_standard_names(made)
    return made


def a_state(name: str, *, total: int = 8, parent: str | None = None, **fields) -> ProviderState:
    return ProviderState(
        uuid=a_uuid(), name=name, parent_uuid=parent,
        inventories={VCPU: Inventory(total=total, max_unit=total)}, **fields,
    )  # fmt: skip


def claim_of(provider_uuid: str, amount: int) -> ClaimGroup:
    return ClaimGroup(
        (
            ConsumerClaim(
                consumer_uuid=a_uuid(), generation=None, consumer_type="INSTANCE", project_id="p", user_id="u",
                allocations={provider_uuid: {VCPU: amount}},
            ),
        )
    )  # fmt: skip


async def test_every_kind_of_change_reaches_the_index(ledger: Ledger) -> None:
    refresher = IndexRefresher(ledger.database)
    assert len(await refresher.fresh()) == 0
    root = a_state("h1", traits=frozenset({SHARING}), placement_aggregates=frozenset({a_uuid()}))
    child = a_state("h1-numa0", parent=root.uuid)
    await service.ensure_providers(ledger, [root, child])
    index = await refresher.fresh()
    row, child_row = index.find_row(root.uuid), index.find_row(child.uuid)
    assert row is not None
    assert child_row is not None
    assert index.parent_row[child_row] == index.root_row[child_row] == row
    assert index.traits[row] == {SHARING}
    assert index.placement_aggregates[row] == root.placement_aggregates
    assert index.used[row] == {VCPU: 0}

    await service.claim(ledger, [claim_of(root.uuid, 3)])
    index = await refresher.fresh()
    assert index.used[row] == {VCPU: 3}
    assert index.columns[VCPU].most[row] == 5

    await service.ensure_providers(
        ledger, [ProviderState(uuid=root.uuid, name="renamed", inventories={VCPU: Inventory(total=4)})]
    )
    index = await refresher.fresh()
    assert index.names[row] == "renamed"
    assert index.columns[VCPU].most[row] == 1

    await service.delete_providers(ledger, [child.uuid])
    index = await refresher.fresh()
    assert index.find_row(child.uuid) is None
    assert len(index) == 1


async def test_a_change_that_was_under_way_during_a_refresh_is_not_missed(ledger: Ledger) -> None:
    host, other = a_state("h1"), a_state("h2")
    await service.ensure_providers(ledger, [host, other])
    refresher = IndexRefresher(ledger.database)
    async with ledger.database.transaction() as slow:
        await store.touch_providers(slow, (await store.lock_providers(slow, [host.uuid])).values(), generation_steps=1)
        await service.claim(ledger, [claim_of(other.uuid, 1)])  # younger, and committed earlier
        index = await refresher.fresh()
        row = index.find_row(host.uuid)
        assert row is not None
        generation = index.generations[row]
    index = await refresher.fresh()
    assert index.generations[row] == generation + 1


async def test_requests_that_wait_share_a_refresh_and_each_sees_what_was_committed_before_it(ledger: Ledger) -> None:
    host = a_state("h1", total=100)
    await service.ensure_providers(ledger, [host])
    refresher = IndexRefresher(ledger.database)

    async def claim_and_look() -> None:
        nonlocal claimed
        await service.claim(ledger, [claim_of(host.uuid, 1)])
        claimed += 1
        before = claimed
        index = await refresher.fresh()
        row = index.find_row(host.uuid)
        assert row is not None
        assert index.used[row][VCPU] >= before

    claimed = 0
    await asyncio.gather(*(claim_and_look() for _ in range(40)))


async def test_a_refresh_after_nothing_happened_runs_one_statement(dsn: str) -> None:
    database = await Database.open(dsn, size=1)
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    await service.ensure_providers(ledger, [a_state("h1")])
    statements: list[str] = []
    async with database.lookups() as connection:
        connection.add_query_logger(lambda record: statements.append(record.query.partition("\n")[0]))
    refresher = IndexRefresher(database)
    await refresher.fresh()
    assert len(statements) > 5
    statements.clear()
    await refresher.fresh()
    assert [words for words in statements if words.startswith("--")] == ["-- placement.get_news"]
    await database.close()


async def test_another_server_has_the_index_loaded_anew(ledger: Ledger) -> None:
    await service.ensure_providers(ledger, [a_state("h1")])
    refresher = IndexRefresher(ledger.database)
    first = await refresher.fresh()
    refresher._seen = msgspec.structs.replace(refresher._seen, server=("another", "00000001", 0.0))
    second = await refresher.fresh()
    assert second is not first
    assert len(second) == 1
