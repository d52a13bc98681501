"""The refresh on real PostgreSQL: what was committed before a request came, the request sees."""

import asyncio
import threading
from contextlib import suppress
from datetime import timedelta

import asyncpg
import msgspec
import pytest
from tests.placement.providers import Undo, a_state, a_uuid, claim_of, touch

from roost.placement.model import Changes, ProviderRow
from roost.placement.search.index import Index
from roost.placement.service import claims as claims_service
from roost.placement.service import providers as providers_service
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.service.refresh import CHANGES_KEPT, IndexRefresher, prune_changes
from roost.placement.store import claims as claims_store
from roost.placement.store import index as index_store
from roost.placement.store import providers as providers_store
from roost.platform.database import Database
from roost.seams.placement import SHARING, VCPU, Inventory, ProviderState


@pytest.fixture
async def ledger(database: Database) -> Ledger:
    made = Ledger(database)
    await sync_standard_names(made)
    return made


async def test_every_kind_of_change_reaches_the_index(ledger: Ledger) -> None:
    refresher = IndexRefresher(ledger.database)
    assert len(await refresher.fresh()) == 0
    root = a_state("h1", traits=frozenset({SHARING}), placement_aggregates=frozenset({a_uuid()}))
    child = a_state("h1-numa0", parent=root.uuid)
    await claims_service.ensure_providers(ledger, [root, child])
    index = await refresher.fresh()
    row, child_row = index.find_row(root.uuid), index.find_row(child.uuid)
    assert row is not None
    assert child_row is not None
    assert index.parent_row[child_row] == index.root_row[child_row] == row
    assert index.traits[row] == {SHARING}
    assert index.placement_aggregates[row] == root.placement_aggregates
    assert index.used[row] == {VCPU: 0}

    await claims_service.claim(ledger, [claim_of(root.uuid, 3)])
    index = await refresher.fresh()
    assert index.used[row] == {VCPU: 3}
    assert index.columns[VCPU].most[row] == 5

    await claims_service.ensure_providers(
        ledger, [ProviderState(uuid=root.uuid, name="renamed", inventories={VCPU: Inventory(total=4)})]
    )
    index = await refresher.fresh()
    assert index.names[row] == "renamed"
    assert index.columns[VCPU].most[row] == 1

    grandchild, other = a_state("h1-numa0-pf0", parent=child.uuid), a_state("h2")
    await claims_service.ensure_providers(ledger, [grandchild, other])
    await refresher.fresh()
    await providers_service.update_provider(ledger, child.uuid, name="moved", parent=(other.uuid,), may_reparent=True)
    index = await refresher.fresh()
    row_of = index.row_by_uuid
    assert index.root_row[row_of[grandchild.uuid]] == index.root_row[row_of[child.uuid]] == row_of[other.uuid]

    await claims_service.delete_providers(ledger, [grandchild.uuid])
    index = await refresher.fresh()
    assert index.find_row(grandchild.uuid) is None
    assert len(index) == 3


async def test_a_change_that_was_under_way_during_a_refresh_is_not_missed(ledger: Ledger) -> None:
    host, other = a_state("h1"), a_state("h2")
    await claims_service.ensure_providers(ledger, [host, other])
    refresher = IndexRefresher(ledger.database)
    async with ledger.database.transaction() as slow:
        ids = frozenset((await claims_store.lock_providers(slow, [host.uuid])).values())
        await claims_store.write_changes(slow, Changes(consumers=(), used={}, provider_ids=ids))
        await claims_service.claim(ledger, [claim_of(other.uuid, 1)])  # younger, and committed earlier
        index = await refresher.fresh()
        row = index.find_row(host.uuid)
        assert row is not None
        generation = index.generations[row]
    index = await refresher.fresh()
    assert index.generations[row] == generation + 1


async def test_requests_that_wait_share_a_refresh_and_each_sees_what_was_committed_before_it(ledger: Ledger) -> None:
    host = a_state("h1", total=100)
    await claims_service.ensure_providers(ledger, [host])
    refresher = IndexRefresher(ledger.database)

    async def claim_and_look() -> None:
        nonlocal claimed
        await claims_service.claim(ledger, [claim_of(host.uuid, 1)])
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
    await claims_service.ensure_providers(ledger, [a_state("h1")])
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
    await claims_service.ensure_providers(ledger, [a_state("h1")])
    refresher = IndexRefresher(ledger.database)
    first = await refresher.fresh()
    refresher._seen = msgspec.structs.replace(refresher._seen, server=("another", "00000001", 0.0))
    second = await refresher.fresh()
    assert second is not first
    assert len(second) == 1


def generations(index: Index) -> dict[str, int]:
    return {index.uuids[row]: index.generations[row] for row in index.row_by_id.values()}


async def test_writers_that_take_long_are_seen_once_each_however_many_refreshes_lie_between(ledger: Ledger) -> None:
    hosts = [a_state(f"h{number}") for number in range(5)]
    await claims_service.ensure_providers(ledger, hosts)
    refresher = IndexRefresher(ledger.database)
    first, second, third, fourth, quick = (host.uuid for host in hosts)
    expected = generations(await refresher.fresh())
    database = ledger.database
    async with database.transaction() as late, database.transaction() as later:
        await touch(later, second)
        await late.execute("UPDATE placement.provider SET name = 'renamed' WHERE uuid = $1", first)
        await providers_store.record_reshaped(late, await touch(late, first))
        async with late.transaction():  # a savepoint has an id of its own; the journal has its parent's
            await touch(late, third)
        for _ in range(3):
            async with database.transaction() as tx:
                await touch(tx, quick)
            expected[quick] += 1
            assert generations(await refresher.fresh()) == expected
        with suppress(Undo):
            async with database.transaction() as undone:
                await touch(undone, fourth)
                assert generations(await refresher.fresh()) == expected
                raise Undo
    expected = {**expected, first: expected[first] + 1, second: expected[second] + 1, third: expected[third] + 1}
    index = await refresher.fresh()
    assert generations(index) == expected
    assert index.names[index.row_by_uuid[first]] == "renamed"


async def test_a_refresh_reads_only_what_the_one_before_did_not_see(ledger: Ledger) -> None:
    host, slow_host = a_state("h1"), a_state("h2")
    await claims_service.ensure_providers(ledger, [host, slow_host])
    refresher = IndexRefresher(ledger.database)
    await refresher.fresh()
    async with ledger.database.transaction() as slow:
        await touch(slow, slow_host.uuid)  # holds xmin where it is
        await claims_service.claim(ledger, [claim_of(host.uuid, 1)])
        await refresher.fresh()
        async with ledger.database.lookups() as connection:
            news = await index_store.get_news(connection, refresher._seen)
        assert news.complete
        assert not news.usages
        assert news.snapshot.xmin <= news.snapshot.running[0] < news.snapshot.xmax


async def test_a_provider_that_was_deleted_and_made_again_is_the_new_one(ledger: Ledger) -> None:
    refresher = IndexRefresher(ledger.database)
    host = a_state("h1", total=4, traits=frozenset({SHARING}))
    await claims_service.ensure_providers(ledger, [host])
    old = await refresher.fresh()
    old_id = old.ids[old.row_by_uuid[host.uuid]]
    await claims_service.delete_providers(ledger, [host.uuid])
    again = msgspec.structs.replace(host, inventories={VCPU: Inventory(total=6, max_unit=6)}, traits=frozenset())
    await claims_service.ensure_providers(ledger, [again])
    await claims_service.claim(ledger, [claim_of(host.uuid, 1)])
    index = await refresher.fresh()
    row = index.find_row(host.uuid)
    assert row is not None
    assert index.ids[row] != old_id
    assert index.traits[row] == frozenset()
    assert index.columns[VCPU].most[row] == 5
    assert len(index) == 1


async def grow_old(ledger: Ledger) -> None:
    """As if CHANGES_KEPT had passed since the horizon was noted."""
    async with ledger.database.transaction() as tx:
        await tx.execute("UPDATE placement.change_horizon SET noted_at = noted_at - $1::interval", CHANGES_KEPT)


async def count_changes(ledger: Ledger) -> int:
    async with ledger.database.connection() as connection:
        return await connection.fetchval("SELECT count(*) FROM placement.change")


async def test_an_index_that_slept_past_the_horizon_is_loaded_anew_and_one_that_did_not_is_not(ledger: Ledger) -> None:
    host = a_state("h1")
    await claims_service.ensure_providers(ledger, [host])
    await prune_changes(ledger.database)  # the database is a copy of one whose horizon may have been noted long ago
    asleep, awake = IndexRefresher(ledger.database), IndexRefresher(ledger.database)
    asleep_at_first, awake_at_first = await asleep.fresh(), await awake.fresh()
    await claims_service.claim(ledger, [claim_of(host.uuid, 3)])
    await prune_changes(ledger.database)
    assert await count_changes(ledger) > 0  # too young
    await grow_old(ledger)
    await prune_changes(ledger.database)  # notes this moment; the one before is the horizon now
    await awake.fresh()
    await claims_service.claim(ledger, [claim_of(host.uuid, 2)])
    await grow_old(ledger)
    await asyncio.gather(*(prune_changes(ledger.database) for _ in range(3)))
    assert await count_changes(ledger) == 1  # the younger claim
    for refresher in (asleep, awake):
        index = await refresher.fresh()
        row = index.find_row(host.uuid)
        assert row is not None
        assert index.used[row] == {VCPU: 5}
    assert await asleep.fresh() is not asleep_at_first
    assert await awake.fresh() is awake_at_first


async def test_a_process_that_finds_another_at_the_horizon_leaves_it_to_that_one(ledger: Ledger) -> None:
    await grow_old(ledger)
    async with ledger.database.transaction() as other:
        noted = await other.fetchval("SELECT noted_xid FROM placement.change_horizon FOR UPDATE")
        await claims_service.ensure_providers(ledger, [a_state("h1")])
        async with asyncio.timeout(60):
            await prune_changes(ledger.database)
    async with ledger.database.connection() as connection:
        assert await connection.fetchval("SELECT noted_xid FROM placement.change_horizon") == noted


async def test_changes_of_a_transaction_under_way_outlive_the_horizon_and_reload_nothing(ledger: Ledger) -> None:
    host, other = a_state("h1"), a_state("h2")
    await claims_service.ensure_providers(ledger, [host, other])
    refresher = IndexRefresher(ledger.database)
    at_first = await refresher.fresh()
    expected = generations(at_first)
    async with ledger.database.transaction() as slow:
        await touch(slow, host.uuid)
        for _ in range(3):
            await claims_service.claim(ledger, [claim_of(other.uuid, 1)])
            await grow_old(ledger)
            await prune_changes(ledger.database)
            await refresher.fresh()
    await grow_old(ledger)
    await prune_changes(ledger.database)
    index = await refresher.fresh()
    assert index is at_first
    assert generations(index) == {host.uuid: expected[host.uuid] + 1, other.uuid: expected[other.uuid] + 3}


async def test_a_late_change_below_the_horizon_is_found_by_loading_anew(ledger: Ledger) -> None:
    host, other = a_state("h1"), a_state("h2")
    await claims_service.ensure_providers(ledger, [host, other])
    refresher = IndexRefresher(ledger.database)
    async with ledger.database.transaction() as slow:
        await touch(slow, host.uuid)
        await claims_service.claim(ledger, [claim_of(other.uuid, 1)])
        before = generations(await refresher.fresh())
    horizons = []
    for _ in range(2):
        async with ledger.database.transaction() as tx:
            horizons.append(await index_store.move_horizon(tx, kept=timedelta(0)))
    seen = refresher._seen
    assert seen.xmin < horizons[1] <= seen.xmax
    async with ledger.database.transaction() as tx:
        await index_store.delete_changes(tx, horizon=horizons[1], limit=100)
    assert generations(await refresher.fresh())[host.uuid] == before[host.uuid] + 1


async def test_a_journal_that_came_with_a_dump_from_another_server_hides_nothing_and_goes(ledger: Ledger) -> None:
    host = a_state("h1")
    await claims_service.ensure_providers(ledger, [host])
    async with ledger.database.transaction() as tx:
        await tx.execute("UPDATE placement.change SET xid = (xid::text::bigint + 1000000000)::text::xid8")
        await tx.execute("UPDATE placement.change_horizon SET xid = '900000000', noted_xid = '950000000'")
    refresher = IndexRefresher(ledger.database)
    for used in (1, 2):
        await claims_service.claim(ledger, [claim_of(host.uuid, 1)])
        index = await refresher.fresh()
        row = index.find_row(host.uuid)
        assert row is not None
        assert index.used[row] == {VCPU: used}
    await prune_changes(ledger.database)
    loaded = await refresher.fresh()
    await claims_service.claim(ledger, [claim_of(host.uuid, 1)])
    assert await refresher.fresh() is loaded
    assert loaded.used[loaded.row_by_uuid[host.uuid]] == {VCPU: 3}


async def test_the_journal_is_pruned_in_batches(ledger: Ledger) -> None:
    await claims_service.ensure_providers(ledger, [a_state("h1")])
    async with ledger.database.transaction() as tx:
        await tx.execute("INSERT INTO placement.change SELECT '5', false, '{1}' FROM generate_series(1, 25)")
        assert [await index_store.delete_changes(tx, horizon=6, limit=10) for _ in range(4)] == [10, 10, 5, 0]
    assert await count_changes(ledger) == 2  # the provider's own


async def test_an_index_is_built_after_the_transaction_that_read_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the CPU is scarce, building a large one takes longer than a transaction may stand still (R23)."""
    await claims_service.ensure_providers(ledger, [a_state("h1"), a_state("h2")])
    refresher = IndexRefresher(ledger.database)
    states: list[str] = []
    build_rows = providers_store.build_rows

    def build(rows_read: providers_store.RowsRead) -> list[ProviderRow]:
        states.extend(asyncio.run_coroutine_threadsafe(_list_idle(ledger.database.dsn), elsewhere).result())
        return build_rows(rows_read)

    elsewhere = asyncio.new_event_loop()
    thread = threading.Thread(target=elsewhere.run_forever)
    thread.start()
    try:
        for count in (2, 3):  # loaded whole, then what was reshaped
            with monkeypatch.context() as patched:
                patched.setattr(providers_store, "build_rows", build)
                assert len(await refresher.fresh()) == count
            await claims_service.ensure_providers(ledger, [a_state(f"h{count + 1}")])
    finally:
        elsewhere.call_soon_threadsafe(elsewhere.stop)
        thread.join()
        elsewhere.close()
    assert states == []


async def _list_idle(dsn: str) -> list[str]:
    """Return the sessions of this database that stand still in a transaction."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
        )
        return [row[0] for row in rows]
    finally:
        await connection.close()
