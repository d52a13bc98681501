"""The refresh in a storm of writers: whoever looks, sees what was committed before."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta

import msgspec
import pytest
from tests.placement.providers import Undo, a_state, a_uuid, claim_of, touch

from roost.placement.errors import ConcurrentUpdate
from roost.placement.model import NameKind, ProviderRow
from roost.placement.search.index import NO_ROW, Index
from roost.placement.service import claims as claims_service
from roost.placement.service import names as names_service
from roost.placement.service import providers as providers_service
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.service.refresh import IndexRefresher
from roost.placement.store import index as index_store
from roost.placement.store import providers as providers_store
from roost.platform.database import Database
from roost.platform.errors import DatabaseUnavailable
from roost.seams.placement import SHARING, VCPU, Inventory, ProviderState

Shown = tuple[object, ...]


def shown(providers: Iterable[ProviderRow]) -> dict[int, Shown]:
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
        return shown(await providers_store.list_all(tx))


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
        await claims_service.claim(self.ledger, [group])
        self.held.append(group.consumers[0].consumer_uuid)

    async def release(self) -> None:
        if self.held:
            await claims_service.release(self.ledger, [self.held.pop()])

    async def change_shape(self) -> None:
        state = self.lot.choice(list(self.states.values()))
        total = self.lot.randrange(500, 1000)
        traits = frozenset({SHARING}) if total % 2 else frozenset[str]()
        await claims_service.ensure_providers(
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
        await providers_service.update_provider(
            self.ledger, uuid, name=f"moved-{a_uuid()}", parent=(parent,), may_reparent=True
        )

    async def join(self) -> None:
        await providers_service.set_aggregates(
            self.ledger, self.lot.choice(self.movable), frozenset({a_uuid()}), generation=None
        )

    async def rename_class(self) -> None:
        """Its inventories have another name, and no generation says so."""
        async with self.renaming:
            new = f"CUSTOM_{a_uuid().replace('-', '_').upper()}"
            await names_service.rename_resource_class(self.ledger, self.rare_name, new)
            self.rare_name = new

    async def replace(self) -> None:
        """Under another id, if it comes back."""
        state = a_state(f"child-{a_uuid()}", parent=self.lot.choice(self.roots))
        await claims_service.ensure_providers(self.ledger, [state])
        await claims_service.delete_providers(self.ledger, [state.uuid])
        if self.lot.random() < 0.5:
            await claims_service.ensure_providers(self.ledger, [state])

    async def dawdle(self) -> None:
        with suppress(Undo):
            async with self.ledger.database.transaction() as tx:
                ids = await touch(tx, self.lot.choice(list(self.states)))
                if self.lot.random() < 0.3:
                    await providers_store.record_reshaped(tx, ids)
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
    await names_service.create_name(ledger, NameKind.RESOURCE_CLASS, storm.rare_name)
    rare = msgspec.structs.replace(storm.rare, inventories={storm.rare_name: Inventory(total=1)})
    await claims_service.ensure_providers(ledger, [*storm.states.values(), rare])
    gone: set[int] = set()
    known: dict[tuple[object, ...], Shown] = {}

    def learn(state: dict[int, Shown]) -> None:
        """What a generation means: the inventories and traits that a provider has in it."""
        for provider_id, (generation, uuid, *_, inventories, _used, traits, _aggregates) in state.items():
            if uuid != storm.rare.uuid:
                meaning = (inventories, traits)
                assert known.setdefault((provider_id, generation), meaning) == meaning, f"seed {seed}"

    async def look(refresher: IndexRefresher) -> None:
        gone_before = set(gone)
        before = await stored(database)
        seen = shown_of_index(await refresher.fresh())
        after = await stored(database)
        for state in (before, after, seen):
            learn(state)
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
    assert len(storm.done) == 8, storm.done
    for worker in workers:
        assert shown_of_index(await worker.fresh()) == await stored(database)
    await database.close()
