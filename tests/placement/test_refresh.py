"""The refresh on real PostgreSQL: what was committed before a request came, the request sees."""

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta

import msgspec
import pytest

from roost.placement import index_store, service, service_names, service_write, store
from roost.placement.errors import ConcurrentUpdate
from roost.placement.index import NO_ROW, Index, IndexedProvider
from roost.placement.refresh import CHANGES_KEPT, IndexRefresher, prune_changes
from roost.placement.service_ledger import Ledger, sync_standard_names
from roost.platform.database import Connection, Database
from roost.platform.errors import DatabaseUnavailable
from roost.seams.placement import SHARING, VCPU, ClaimGroup, ConsumerClaim, Inventory, ProviderState


class Undo(Exception):
    """A writer changes its mind."""


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


async def touch(tx: Connection, *uuids: str) -> list[int]:
    ids = list((await store.lock_providers(tx, uuids)).values())
    await store.touch_providers(tx, ids, generation_steps=1)
    return ids


def generations(index: Index) -> dict[str, int]:
    return {index.uuids[row]: index.generations[row] for row in index.row_by_id.values()}


async def test_writers_that_take_long_are_seen_once_each_however_many_refreshes_lie_between(ledger: Ledger) -> None:
    hosts = [a_state(f"h{number}") for number in range(5)]
    await service.ensure_providers(ledger, hosts)
    refresher = IndexRefresher(ledger.database)
    first, second, third, fourth, quick = (host.uuid for host in hosts)
    expected = generations(await refresher.fresh())
    database = ledger.database
    async with database.transaction() as late, database.transaction() as later:
        await touch(later, second)
        await late.execute("UPDATE placement.provider SET name = 'renamed' WHERE uuid = $1", first)
        await store.record_reshaped(late, await touch(late, first))
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
    await service.ensure_providers(ledger, [host, slow_host])
    refresher = IndexRefresher(ledger.database)
    await refresher.fresh()
    async with ledger.database.transaction() as slow:
        await touch(slow, slow_host.uuid)  # holds xmin where it is
        await service.claim(ledger, [claim_of(host.uuid, 1)])
        await refresher.fresh()
        async with ledger.database.lookups() as connection:
            news = await index_store.get_news(connection, refresher._seen)
        assert news.complete
        assert not news.usages
        assert news.snapshot.xmin <= news.snapshot.running[0] < news.snapshot.xmax


async def test_a_provider_that_was_deleted_and_made_again_is_the_new_one(ledger: Ledger) -> None:
    refresher = IndexRefresher(ledger.database)
    host = a_state("h1", total=4, traits=frozenset({SHARING}))
    await service.ensure_providers(ledger, [host])
    old = await refresher.fresh()
    old_id = old.ids[old.row_by_uuid[host.uuid]]
    await service.delete_providers(ledger, [host.uuid])
    again = msgspec.structs.replace(host, inventories={VCPU: Inventory(total=6, max_unit=6)}, traits=frozenset())
    await service.ensure_providers(ledger, [again])
    await service.claim(ledger, [claim_of(host.uuid, 1)])
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
    await service.ensure_providers(ledger, [host])
    asleep, awake = IndexRefresher(ledger.database), IndexRefresher(ledger.database)
    asleep_at_first, awake_at_first = await asleep.fresh(), await awake.fresh()
    await service.claim(ledger, [claim_of(host.uuid, 3)])
    await prune_changes(ledger.database)
    assert await count_changes(ledger) > 0  # too young
    await grow_old(ledger)
    await prune_changes(ledger.database)  # notes this moment; the one before is the horizon now
    await awake.fresh()
    await service.claim(ledger, [claim_of(host.uuid, 2)])
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


async def test_changes_of_a_transaction_under_way_outlive_the_horizon_and_reload_nothing(ledger: Ledger) -> None:
    host, other = a_state("h1"), a_state("h2")
    await service.ensure_providers(ledger, [host, other])
    refresher = IndexRefresher(ledger.database)
    at_first = await refresher.fresh()
    expected = generations(at_first)
    async with ledger.database.transaction() as slow:
        await touch(slow, host.uuid)
        for _ in range(3):
            await service.claim(ledger, [claim_of(other.uuid, 1)])
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
    await service.ensure_providers(ledger, [host, other])
    refresher = IndexRefresher(ledger.database)
    async with ledger.database.transaction() as slow:
        await touch(slow, host.uuid)
        await service.claim(ledger, [claim_of(other.uuid, 1)])
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
    await service.ensure_providers(ledger, [host])
    async with ledger.database.transaction() as tx:
        await tx.execute("UPDATE placement.change SET xid = (xid::text::bigint + 1000000000)::text::xid8")
        await tx.execute("UPDATE placement.change_horizon SET xid = '900000000', noted_xid = '950000000'")
    refresher = IndexRefresher(ledger.database)
    for used in (1, 2):
        await service.claim(ledger, [claim_of(host.uuid, 1)])
        index = await refresher.fresh()
        row = index.find_row(host.uuid)
        assert row is not None
        assert index.used[row] == {VCPU: used}
    await prune_changes(ledger.database)
    loaded = await refresher.fresh()
    await service.claim(ledger, [claim_of(host.uuid, 1)])
    assert await refresher.fresh() is loaded
    assert loaded.used[loaded.row_by_uuid[host.uuid]] == {VCPU: 3}


async def test_the_journal_is_pruned_in_batches(ledger: Ledger) -> None:
    await service.ensure_providers(ledger, [a_state("h1")])
    async with ledger.database.transaction() as tx:
        await tx.execute("INSERT INTO placement.change SELECT '5', false, '{1}' FROM generate_series(1, 25)")
        assert [await index_store.delete_changes(tx, horizon=6, limit=10) for _ in range(4)] == [10, 10, 5, 0]
    assert await count_changes(ledger) == 2  # the provider's own


Shown = tuple[object, ...]


def shown(providers: Iterable[IndexedProvider]) -> dict[int, Shown]:
    """By id: generation first, then everything else."""
    return {
        one.id: (
            one.generation, one.uuid, one.name, one.parent_id, one.root_id, dict(one.inventories), dict(one.used),
            one.traits, one.placement_aggregates,
        )
        for one in providers
    }  # fmt: skip


def shown_of_index(index: Index) -> dict[int, Shown]:
    def parent_id(row: int) -> int | None:
        parent = int(index.parent_row[row])
        return None if parent == NO_ROW else index.ids[parent]

    return {
        provider_id: (
            index.generations[row], index.uuids[row], index.names[row], parent_id(row),
            index.ids[int(index.root_row[row])], dict(index.inventories[row]), dict(index.used[row]),
            index.traits[row], index.placement_aggregates[row],
        )
        for provider_id, row in index.row_by_id.items()
    }  # fmt: skip


async def stored(database: Database) -> dict[int, Shown]:
    async with database.transaction(snapshot=True) as tx:
        return shown(await index_store.list_all(tx))


class Storm:
    """Writers of every kind at once, some of which take long, and some of which change their mind."""

    def __init__(self, ledger: Ledger, seed: int) -> None:
        self.ledger, self.seed, self.lot = ledger, seed, random.Random(seed)
        self.states = {state.uuid: state for state in (a_state(f"h{number}", total=1000) for number in range(12))}
        self.roots, self.movable = list(self.states)[:6], list(self.states)[6:]
        self.rare, self.rare_name = a_state("rare"), f"CUSTOM_{a_uuid().replace('-', '_').upper()}"
        self.renaming = asyncio.Lock()
        self.held: list[str] = []
        self.done: Counter[str] = Counter()

    async def write(self, times: int) -> None:
        shapes = (self.change_shape, self.replace, self.dawdle, self.move, self.join, self.rename_class)
        for _ in range(times):
            # The same twice at a time may refuse one of them, or find a deadlock.
            with suppress(ConcurrentUpdate, DatabaseUnavailable):
                work = self.lot.choice((self.claim, self.claim, self.claim, self.release, *shapes))
                await work()
                self.done[work.__name__] += 1

    async def claim(self) -> None:
        group = claim_of(self.lot.choice(list(self.states)), 1)
        await service.claim(self.ledger, [group])
        self.held.append(group.consumers[0].consumer_uuid)

    async def release(self) -> None:
        if self.held:
            await service.release(self.ledger, [self.held.pop()])

    async def change_shape(self) -> None:
        state = self.lot.choice(list(self.states.values()))
        total = self.lot.randrange(500, 1000)
        traits = frozenset({SHARING}) if total % 2 else frozenset[str]()
        await service.ensure_providers(
            self.ledger,
            [
                ProviderState(
                    uuid=state.uuid,
                    name=f"{state.name}-{a_uuid()}",
                    inventories={VCPU: Inventory(total=total)},
                    traits=traits,
                )
            ],
        )

    async def move(self) -> None:
        """Under another name each time, so that no state comes back: the generation stays as it was."""
        uuid, parent = self.lot.choice(self.movable), self.lot.choice([None, *self.roots])
        await service_write.update_provider(
            self.ledger, uuid, name=f"moved-{a_uuid()}", parent=(parent,), may_reparent=True
        )

    async def join(self) -> None:
        await service_write.set_aggregates(
            self.ledger, self.lot.choice(self.movable), frozenset({a_uuid()}), generation=None
        )

    async def rename_class(self) -> None:
        """Its inventories have another name, and no generation says so."""
        async with self.renaming:
            new = f"CUSTOM_{a_uuid().replace('-', '_').upper()}"
            await service_names.rename_resource_class(self.ledger, self.rare_name, new)
            self.rare_name = new

    async def replace(self) -> None:
        """Under another id, if it comes back."""
        state = a_state(f"child-{a_uuid()}", parent=self.lot.choice(self.roots))
        await service.ensure_providers(self.ledger, [state])
        await service.delete_providers(self.ledger, [state.uuid])
        if self.lot.random() < 0.5:
            await service.ensure_providers(self.ledger, [state])

    async def dawdle(self) -> None:
        with suppress(Undo):
            async with self.ledger.database.transaction() as tx:
                ids = await touch(tx, self.lot.choice(list(self.states)))
                if self.lot.random() < 0.3:
                    await store.record_reshaped(tx, ids)
                for _ in range(self.lot.randrange(12)):
                    await tx.execute("SELECT 1")
                if self.lot.random() < 0.2:
                    raise Undo

    async def prune(self, times: int) -> None:
        for _ in range(times):
            async with self.ledger.database.transaction() as tx:
                horizon = await index_store.move_horizon(tx, kept=timedelta(0))
            assert horizon is not None
            async with self.ledger.database.transaction() as tx:
                await index_store.delete_changes(tx, horizon=horizon, limit=1000)
            for _ in range(self.lot.randrange(200)):
                await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(3))
async def test_in_a_storm_of_writers_every_refresh_shows_what_was_committed_before_it(dsn: str, seed: int) -> None:
    database = await Database.open(dsn, size=12)
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    storm = Storm(ledger, seed)
    await service_names.create_resource_class(ledger, storm.rare_name)
    rare = msgspec.structs.replace(storm.rare, inventories={storm.rare_name: Inventory(total=1)})
    await service.ensure_providers(ledger, [*storm.states.values(), rare])
    gone: set[int] = set()

    async def look(refresher: IndexRefresher) -> None:
        gone_before = set(gone)
        before = await stored(database)
        seen = shown_of_index(await refresher.fresh())
        after = await stored(database)
        gone.update(before.keys() - after.keys())
        assert not seen.keys() & gone_before
        assert before.keys() & after.keys() <= seen.keys()
        for provider_id, one in seen.items():
            earlier, later = before.get(provider_id), after.get(provider_id)
            assert earlier is None or earlier[0] <= one[0], f"seed {seed}"
            assert later is None or one[0] <= later[0], f"seed {seed}"
            assert earlier is None or earlier != later or one == later, f"seed {seed}"

    async def read(refresher: IndexRefresher) -> None:
        while not written.is_set():
            await look(refresher)

    written = asyncio.Event()
    workers = [IndexRefresher(database) for _ in range(2)]
    async with asyncio.TaskGroup() as tasks:
        for worker in (*workers, workers[0]):
            tasks.create_task(read(worker))
        async with asyncio.TaskGroup() as writers:
            for _ in range(6):
                writers.create_task(storm.write(30))
            writers.create_task(storm.prune(5))
        written.set()
    assert all(times > 5 for times in storm.done.values()), storm.done
    for worker in workers:
        assert shown_of_index(await worker.fresh()) == await stored(database)
    await database.close()
