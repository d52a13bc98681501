"""The ledger's operations against a naive model: after every step the index, the database and the model are one.

ROOST_MODEL_EXAMPLES=N tries N stories other than those STORIES that `make test` always tries: 80 take a minute.
"""

import asyncio
import os
from collections.abc import Awaitable, Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.placement.naive_ledger import STANDARD_CLASSES, STANDARD_TRAITS, NaiveLedger

from roost.placement.model import NameKind
from roost.placement.search.index import NO_ROW, NO_UNITS, Index
from roost.placement.service import (
    claims as claims_service,
)
from roost.placement.service import (
    names as names_service,
)
from roost.placement.service import (
    providers as providers_service,
)
from roost.placement.service import (
    reshape as reshape_service,
)
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.database import Database
from roost.platform.errors import RoostError
from roost.seams.placement import ClaimGroup, ConsumerClaim, Inventory, ProviderState, Refused

STORIES = 25
EXAMPLES = int(os.environ.get("ROOST_MODEL_EXAMPLES", "0"))
T = TypeVar("T")

PROVIDERS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(5)]
CONSUMERS = [f"00000000-0000-4000-8000-0000000000c{number}" for number in range(4)]
AGGREGATES = [f"00000000-0000-4000-8000-0000000000a{number}" for number in range(2)]
NAMES = ("one", "two", "three", "four")
CLASSES = (*STANDARD_CLASSES, "CUSTOM_A", "CUSTOM_B")
TRAITS = (*STANDARD_TRAITS, "CUSTOM_T", "CUSTOM_U")

a_provider = st.sampled_from([*PROVIDERS[:3] * 4, *PROVIDERS[3:]])
"""Mostly one of those that a story begins with."""
a_parent = st.sampled_from(["", *PROVIDERS])
a_class = st.sampled_from([*CLASSES[:3] * 3, *CLASSES[3:]])
a_name = st.sampled_from(NAMES)
an_age = st.sampled_from([0, 0, 0, 0, 0, 0, 1])
"""Of the generation that a writer has seen, in steps; mostly the present one."""
an_inventory = st.builds(
    Inventory,
    total=st.integers(1, 8),
    reserved=st.integers(0, 1),
    min_unit=st.sampled_from([1, 1, 1, 2]),
    max_unit=st.sampled_from([12, 12, 12, 3]),
    step_size=st.sampled_from([1, 1, 1, 2]),
    allocation_ratio=st.sampled_from([1.0, 1.0, 1.5, 0.7]),
)
some_inventories = st.dictionaries(a_class, an_inventory, max_size=3)
some_traits = st.frozensets(st.sampled_from(TRAITS), max_size=2)
some_aggregates = st.frozensets(st.sampled_from(AGGREGATES))
some_resources = st.dictionaries(a_class, st.integers(1, 4), min_size=1, max_size=2)
some_allocations = st.dictionaries(a_provider, some_resources, max_size=2)
a_consumer = st.sampled_from(CONSUMERS)
a_type = st.sampled_from([None, None, "INSTANCE", "MIGRATION"])
some_holders = st.dictionaries(a_consumer, st.tuples(some_allocations, an_age, a_type), min_size=1, max_size=3)
some_states = st.lists(
    st.builds(
        ProviderState,
        uuid=a_provider,
        name=a_name,
        parent_uuid=st.sampled_from([None, *PROVIDERS]),
        inventories=st.none() | some_inventories,
        traits=st.none() | some_traits,
        managed_traits=st.none() | some_traits,
        placement_aggregates=st.none() | some_aggregates,
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda state: state.uuid,
)


class Ground:
    """One event loop and one database for all stories of a test; each starts on an empty ledger."""

    def __init__(self, dsn: str) -> None:
        self.runner = asyncio.Runner()
        self.database = self.run(Database.open(dsn, size=2))

    def run(self, work: Awaitable[T]) -> T:
        async def whole() -> T:
            return await work

        return self.runner.run(whole())

    def close(self) -> None:
        self.run(self.database.close())
        self.runner.close()

    async def clear(self) -> Ledger:
        async with self.database.transaction() as tx:
            for table in ("allocation", "consumer", "inventory", "provider_trait", "provider_aggregate"):
                await tx.execute(f"DELETE FROM placement.{table}")
            await tx.execute("UPDATE placement.provider SET parent_id = NULL")
            for table in ("provider", "change"):
                await tx.execute(f"DELETE FROM placement.{table}")
            for table in ("resource_class", "trait"):
                await tx.execute(f"DELETE FROM placement.{table} WHERE name LIKE 'CUSTOM_%'")
        ledger = Ledger(self.database)
        await sync_standard_names(ledger)
        await ledger.index.fresh()
        return ledger


@pytest.fixture
def ground(dsn: str) -> Iterator[Ground]:
    made = Ground(dsn)
    yield made
    made.close()


class Story(RuleBasedStateMachine):
    """One step is one operation, of the ledger and of the model."""

    def __init__(self, ground: Ground) -> None:
        super().__init__()
        self.ground = ground
        self.model = NaiveLedger()
        self.ledger = ground.run(ground.clear())

    @initialize()
    def begin(self) -> None:
        """Most stories need a place to happen in."""
        inventories = {name: Inventory(total=6) for name in CLASSES[:3]}
        self.ensure_all(
            [
                ProviderState(uuid=PROVIDERS[0], name=NAMES[0], inventories=inventories, traits=frozenset(TRAITS[:2])),
                ProviderState(uuid=PROVIDERS[1], name=NAMES[1], inventories=inventories, parent_uuid=PROVIDERS[0]),
                ProviderState(uuid=PROVIDERS[2], name=NAMES[2], inventories=inventories),
            ]
        )

    def do(self, expected: str, work: Awaitable[T]) -> T | None:
        """It is refused as expected, or done."""
        refused, result = "", None
        try:
            result = self.ground.run(work)
        except RoostError as error:
            refused = type(error).__name__
        assert refused == expected
        return result

    def generation(self, uuid: str, age: int) -> int:
        provider = self.model.providers.get(uuid)
        return 0 if provider is None else provider.generation - age

    # Providers.

    @rule(uuid=a_provider, name=a_name, parent=a_parent)
    def create(self, uuid: str, name: str, parent: str) -> None:
        expected = self.model.create(uuid, name, parent)
        self.do(
            expected, providers_service.create_provider(self.ledger, uuid=uuid, name=name, parent_uuid=parent or None)
        )

    @rule(uuid=a_provider, name=a_name | st.none(), parent=a_parent | st.none(), may_reparent=st.booleans())
    def update(self, uuid: str, name: str | None, parent: str | None, may_reparent: bool) -> None:
        if name is None:
            name = self.model.providers[uuid].name if uuid in self.model.providers else "one"
        expected = self.model.update(uuid, name, parent, may_reparent=may_reparent)
        place = None if parent is None else (parent or None,)
        work = providers_service.update_provider(self.ledger, uuid, name=name, parent=place, may_reparent=may_reparent)
        self.do(expected, work)

    @rule(uuid=a_provider)
    def delete(self, uuid: str) -> None:
        self.do(self.model.delete(uuid), providers_service.delete_provider(self.ledger, uuid))

    @rule(states=some_states)
    def ensure(self, states: list[ProviderState]) -> None:
        known = self.model.providers
        # Who exchanges names among known providers may be refused: names are given one after the other.
        states = [state if state.uuid not in known else replace_name(state, known[state.uuid].name) for state in states]
        self.ensure_all(states)

    def ensure_all(self, states: list[ProviderState]) -> None:
        """Of the generations only that they do not go back."""
        self.do(self.model.ensure(states), claims_service.ensure_providers(self.ledger, states))
        self.adopt_generations(grown=set())

    @rule(uuids=st.lists(a_provider, unique=True, max_size=3))
    def delete_many(self, uuids: list[str]) -> None:
        """Those with children stay, even when the children go: all are looked at as they were."""
        busy = {provider.parent for provider in self.model.providers.values()}
        staying = {uuid for uuid in uuids if uuid in self.model.providers and uuid in busy}
        staying |= {uuid for uuid in uuids if uuid not in staying and self.model.delete(uuid) == "ProviderInUse"}
        assert set(self.do("", claims_service.delete_providers(self.ledger, uuids)) or ()) == staying

    # What they have.

    @rule(uuid=a_provider, inventories=some_inventories, age=an_age, keep=st.booleans())
    def set_inventories(self, uuid: str, inventories: dict[str, Inventory], age: int, keep: bool) -> None:
        """keep: with what it has, which may be in use."""
        if keep and uuid in self.model.providers:
            inventories = {**self.model.providers[uuid].inventories, **inventories}
        generation = self.generation(uuid, age)
        expected = self.model.set_inventories(uuid, inventories, generation)
        self.do(expected, providers_service.set_inventories(self.ledger, uuid, inventories, generation=generation))

    @rule(uuid=a_provider, name=a_class, inventory=an_inventory)
    def add_inventory(self, uuid: str, name: str, inventory: Inventory) -> None:
        expected = self.model.add_inventory(uuid, name, inventory)
        self.do(expected, providers_service.add_inventory(self.ledger, uuid, name, inventory))

    @rule(uuid=a_provider, name=a_class, inventory=an_inventory, age=an_age)
    def update_inventory(self, uuid: str, name: str, inventory: Inventory, age: int) -> None:
        generation = self.generation(uuid, age)
        expected = self.model.update_inventory(uuid, name, inventory, generation)
        self.do(expected, providers_service.update_inventory(self.ledger, uuid, name, inventory, generation=generation))

    @rule(uuid=a_provider, name=a_class | st.just(""))
    def delete_inventories(self, uuid: str, name: str) -> None:
        """One, or all of them."""
        if name:
            self.do(
                self.model.delete_inventory(uuid, name), providers_service.delete_inventory(self.ledger, uuid, name)
            )
        else:
            self.do(self.model.set_inventories(uuid, {}, None), providers_service.delete_inventories(self.ledger, uuid))

    @rule(uuid=a_provider, traits=some_traits, age=an_age | st.none())
    def set_traits(self, uuid: str, traits: frozenset[str], age: int | None) -> None:
        generation = None if age is None else self.generation(uuid, age)
        expected = self.model.set_traits(uuid, traits, generation)
        self.do(expected, providers_service.set_traits(self.ledger, uuid, traits, generation=generation))

    @rule(uuid=a_provider, aggregates=some_aggregates, age=an_age | st.none())
    def set_aggregates(self, uuid: str, aggregates: frozenset[str], age: int | None) -> None:
        generation = None if age is None else self.generation(uuid, age)
        expected = self.model.set_aggregates(uuid, aggregates, generation)
        self.do(expected, providers_service.set_aggregates(self.ledger, uuid, aggregates, generation=generation))

    # Names.

    @rule(name=a_class, new_name=a_class, trait=st.sampled_from(TRAITS), what=st.integers(0, 4))
    def change_names(self, name: str, new_name: str, trait: str, what: int) -> None:
        """One kind of change in one rule: names are not what most of a story is about."""
        ledger, model = self.ledger, self.model
        match what:
            case 0:
                new = self.do("", names_service.create_name(ledger, NameKind.RESOURCE_CLASS, name))
                assert new == (name not in model.classes)
                model.classes.add(name)
            case 1:
                assert self.do("", names_service.create_name(ledger, NameKind.TRAIT, trait)) == (
                    trait not in model.traits
                )
                model.traits.add(trait)
            case 2:
                expected = model.rename_class(name, new_name)
                self.do(expected, names_service.rename_resource_class(ledger, name, new_name))
            case 3:
                self.do(model.delete_class(name), names_service.delete_name(ledger, NameKind.RESOURCE_CLASS, name))
            case _:
                self.do(model.delete_trait(trait), names_service.delete_name(ledger, NameKind.TRAIT, trait))

    # Claims.

    def claims(self, holders: dict[str, tuple[Any, int, str | None]], *, blind: bool) -> list[ConsumerClaim]:
        """What these consumers are to hold, as somebody claims who knows what they hold, or knew."""
        made = []
        for uuid, (allocations, age, consumer_type) in holders.items():
            seen = self.model.consumers.get(uuid)
            generation = None if seen is None else seen.generation - age
            made.append(
                ConsumerClaim(
                    consumer_uuid=uuid, generation=generation, any_generation=blind, allocations=allocations,
                    consumer_type=consumer_type, project_id=f"p{age}", user_id="u",
                )
            )  # fmt: skip
        return made

    @rule(consumer=a_consumer, allocations=some_allocations, age=an_age, consumer_type=a_type)
    def claim_one(self, consumer: str, allocations: Any, age: int, consumer_type: str | None) -> None:
        self.claim_groups([{consumer: (allocations, age, consumer_type)}], blind=False)

    @rule(groups=st.lists(some_holders, min_size=1, max_size=3), blind=st.sampled_from([False, False, True]))
    def claim(self, groups: list[Any], blind: bool) -> None:
        self.claim_groups(groups, blind=blind)

    def claim_groups(self, groups: list[Any], *, blind: bool) -> None:
        """Groups in order: consumer -> (allocations, age of the generation that was seen, type)."""
        wanted = [ClaimGroup(tuple(self.claims(holders, blind=blind))) for holders in groups]
        before = {uuid: self.used_of(uuid) for uuid in self.model.providers}
        expected = self.model.claim(wanted)
        answers = self.do("", claims_service.claim(self.ledger, wanted)) or []
        assert [_rules(answer) for answer in answers] == expected
        self.adopt_generations(grown={uuid for uuid in before if before[uuid] != self.used_of(uuid)})

    @rule(consumer=a_consumer, name=a_class, inventory=an_inventory)
    def claim_again(self, consumer: str, name: str, inventory: Inventory) -> None:
        """What it holds already, under units that may be others by now, and perhaps below what is in use."""
        seen = self.model.consumers.get(consumer)
        if seen is not None:
            for uuid, held in seen.held:
                if held == name:
                    self.model.update_inventory(uuid, name, inventory, self.generation(uuid, 0))
                    generation = self.generation(uuid, 1)
                    work = providers_service.update_inventory(self.ledger, uuid, name, inventory, generation=generation)
                    self.do("", work)
            self.claim_groups([{consumer: (_by_provider(seen.held), 0, None)}], blind=False)

    @rule(consumer=a_consumer, uuid=st.sampled_from(PROVIDERS[:3]), name=a_class, beyond=st.integers(0, 1))
    def fill(self, consumer: str, uuid: str, name: str, beyond: int) -> None:
        """All that is free and that the consumer holds already, which must fit; or one unit more, which must not."""
        inventory = self.model.providers[uuid].inventories.get(name) if uuid in self.model.providers else None
        if inventory is None:
            return
        seen = self.model.consumers.get(consumer)
        free = inventory.capacity - self.model.used(uuid, name) + (seen.held.get((uuid, name), 0) if seen else 0)
        if free + beyond > 0:
            self.claim_groups([{consumer: ({uuid: {name: free + beyond}}, 0, None)}], blind=False)

    @rule(source=a_consumer, heir=a_consumer, back=some_allocations)
    def move(self, source: str, heir: str, back: dict[str, dict[str, int]]) -> None:
        """As a migration does: the one holds what the other held, which holds something else or nothing."""
        seen = self.model.consumers.get(source)
        if seen is None or heir == source:
            return
        moved = _by_provider(seen.held)
        self.claim_groups([{heir: (moved, 0, "MIGRATION"), source: (back, 0, None)}], blind=False)

    @rule(uuids=st.lists(a_consumer, unique=True), age=an_age | st.none())
    def release(self, uuids: list[str], age: int | None) -> None:
        seen = {uuid: one.generation - (age or 0) for uuid, one in self.model.consumers.items()}
        generations = None if age is None else seen
        expected = self.model.release(uuids, generations)
        assert self.do("", claims_service.release(self.ledger, uuids, generations=generations)) == expected

    @rule(
        new=st.dictionaries(a_provider, st.tuples(some_inventories, an_age), max_size=2),
        holders=some_holders,
        keep=st.booleans(),
    )
    def reshape(self, new: Any, holders: Any, keep: bool) -> None:
        self.reshape_to(new, holders, keep=keep)

    def reshape_to(self, new: Any, holders: Any, *, keep: bool) -> None:
        """keep: what is in use of the providers stays, so that not all reshapes are refused."""
        shapes = {}
        for uuid, (inventories, age) in new.items():
            provider = self.model.providers.get(uuid)
            kept = provider.inventories if keep and provider else {}
            shapes[uuid] = reshape_service.NewInventories(self.generation(uuid, age), {**kept, **inventories})
        claims = self.claims(holders, blind=False)
        before = {uuid: self.used_of(uuid) for uuid in self.model.providers}
        expected, broken = self.model.reshape(shapes, claims)
        answer = self.do(expected, reshape_service.reshape(self.ledger, shapes, claims))
        assert answer is None or _rules(answer) == broken
        grown = {uuid for uuid in before if before[uuid] != self.used_of(uuid)}
        self.adopt_generations(grown=grown | (shapes.keys() if answer and not broken else set()))

    @rule(pick=st.integers(0, 7), heir=a_provider, left=st.integers(0, 1))
    def reshape_away(self, pick: int, heir: str, left: int) -> None:
        """As Nova moves inventory to a child with all that is held of it; left: some consumers are forgotten."""
        known = self.model.providers
        held_keys = sorted({key for one in self.model.consumers.values() for key in one.held})
        if not held_keys or heir not in known:
            return
        source, name = held_keys[pick % len(held_keys)]
        if source == heir:
            return
        rest = dict(known[source].inventories)
        moved = {**known[heir].inventories, name: rest.pop(name)}
        holders = {}
        for consumer, one in self.model.consumers.items():
            if (source, name) in one.held:
                allocations: dict[str, dict[str, int]] = {}
                for (uuid, held), amount in one.held.items():
                    resources = allocations.setdefault(heir if (uuid, held) == (source, name) else uuid, {})
                    resources[held] = resources.get(held, 0) + amount
                holders[consumer] = (allocations, 0, None)
        shapes = {source: (rest, 0), heir: (moved, 0)}
        self.reshape_to(shapes, dict(list(holders.items())[left:]), keep=False)

    def used_of(self, uuid: str) -> dict[tuple[str, str], int]:
        """Consumer and resource class -> amount, of a provider."""
        return {
            (consumer, name): amount
            for consumer, one in self.model.consumers.items()
            for (provider, name), amount in one.held.items()
            if provider == uuid
        }

    def adopt_generations(self, *, grown: set[str]) -> None:
        """How far a generation grows with claims is not foretold; that it does not go back, and where it grows, is."""
        rows = self.ground.run(self.fetch("SELECT uuid, generation FROM placement.provider"))
        for uuid, generation in rows:
            if uuid in self.model.providers:
                assert generation >= self.model.providers[uuid].generation + (uuid in grown)
                self.model.providers[uuid].generation = generation

    # After every step.

    async def fetch(self, query: str) -> list[Any]:
        async with self.ground.database.connection() as connection:
            return [tuple(row) for row in await connection.fetch(query)]

    @invariant()
    def everything_agrees(self) -> None:
        expected = {
            uuid: (
                provider.name, provider.generation, provider.parent, self.model.root(uuid), provider.inventories,
                {name: self.model.used(uuid, name) for name in provider.inventories}, provider.traits,
                provider.aggregates,
            )
            for uuid, provider in self.model.providers.items()
        }  # fmt: skip
        index = self.ground.run(self.ledger.index.fresh())
        assert _as_indexed(index) == expected
        _check_arrays(index)
        assert self.ground.run(self.stored_providers()) == expected
        assert self.ground.run(self.stored_consumers()) == {
            (uuid, one.generation, one.consumer_type, one.project_id): one.held
            for uuid, one in self.model.consumers.items()
        }
        names = {name for (name,) in self.ground.run(self.fetch("SELECT name FROM placement.resource_class"))}
        assert {name for name in names if name in CLASSES} == self.model.classes

    async def stored_providers(self) -> dict[str, Any]:
        rows = await self.fetch("""
            SELECT p.id, p.uuid, p.name, p.generation, coalesce(parent.uuid::text, ''), root.uuid
            FROM placement.provider p LEFT JOIN placement.provider parent ON parent.id = p.parent_id
            LEFT JOIN placement.provider root ON root.id = p.root_id""")
        shown: dict[int, Any] = {row[0]: (*row[2:], {}, {}, set(), set()) for row in rows}
        for provider_id, name, *fields, used in await self.fetch("""
            SELECT provider_id, name, total, reserved, min_unit, max_unit, step_size, allocation_ratio, used
            FROM placement.inventory JOIN placement.resource_class r ON r.id = resource_class_id"""):
            shown[provider_id][4][name], shown[provider_id][5][name] = Inventory(*fields), used
        for provider_id, name in await self.fetch(
            "SELECT provider_id, name FROM placement.provider_trait JOIN placement.trait t ON t.id = trait_id"
        ):
            shown[provider_id][6].add(name)
        for provider_id, uuid in await self.fetch(
            "SELECT provider_id, aggregate_uuid FROM placement.provider_aggregate"
        ):
            shown[provider_id][7].add(uuid)
        return {row[1]: shown[row[0]] for row in rows}

    async def stored_consumers(self) -> dict[Any, Any]:
        rows = await self.fetch("SELECT uuid, generation, consumer_type, project_id FROM placement.consumer")
        held: dict[str, dict[tuple[str, str], int]] = {row[0]: {} for row in rows}
        for consumer, provider, name, amount in await self.fetch("""
            SELECT a.consumer_uuid, p.uuid, r.name, a.used FROM placement.allocation a
            LEFT JOIN placement.provider p ON p.id = a.provider_id
            LEFT JOIN placement.resource_class r ON r.id = a.resource_class_id"""):
            held[consumer][provider, name] = amount
        return {row: held[row[0]] for row in rows}


def replace_name(state: ProviderState, name: str) -> ProviderState:
    return ProviderState(
        uuid=state.uuid, name=name, parent_uuid=state.parent_uuid, inventories=state.inventories, traits=state.traits,
        managed_traits=state.managed_traits, placement_aggregates=state.placement_aggregates,
    )  # fmt: skip


def _by_provider(held: dict[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """As a claim has it."""
    allocations: dict[str, dict[str, int]] = {}
    for (uuid, name), amount in held.items():
        allocations.setdefault(uuid, {})[name] = amount
    return allocations


def _rules(answer: Any) -> set[str]:
    return {shortfall.rule.value for shortfall in answer.shortfalls} if isinstance(answer, Refused) else set()


def _as_indexed(index: Index) -> dict[str, Any]:
    assert {uuid for uuid in index.uuids if uuid} == index.row_by_uuid.keys()
    return {
        uuid: (
            index.names[row], index.generations[row],
            "" if index.parent_row[row] == NO_ROW else index.uuids[index.parent_row[row]],
            index.uuids[index.root_row[row]], index.inventories[row], index.used[row], index.traits[row],
            index.placement_aggregates[row],
        )
        for uuid, row in index.row_by_uuid.items()
    }  # fmt: skip


def _check_arrays(index: Index) -> None:
    """What a search sweeps says what each row says."""
    rows = set(index.row_by_uuid.values())
    assert {row for row in range(index.rows) if index.alive[row]} == rows
    for row in rows:
        for name, column in index.columns.items():
            inventory = index.inventories[row].get(name)
            most = NO_UNITS
            if inventory is not None:
                most = max(min(inventory.capacity - index.used[row][name], inventory.max_unit), 0)
                assert (column.min_unit[row], column.step_size[row]) == (inventory.min_unit, inventory.step_size)
            assert column.most[row] == most
        for trait, mask in index.trait_masks.items():
            assert mask[row] == (trait in index.traits[row])
        for aggregate in AGGREGATES:
            assert (row in index.rows_in_aggregate(aggregate)) == (aggregate in index.placement_aggregates[row])
    trees = index.trees()
    assert {row for row in rows if trees.roots[row]} == {row for row in rows if index.root_row[row] == row}


@pytest.mark.timeout(0 if EXAMPLES else 900)  # 15 s where nothing else runs
def test_index_database_and_model_agree_after_every_step_of_any_story(ground: Ground) -> None:
    run_state_machine_as_test(
        lambda: Story(ground),
        settings=settings(
            max_examples=EXAMPLES or STORIES,
            stateful_step_count=50,
            derandomize=not EXAMPLES,
            database=None,
            deadline=None,
            print_blob=False,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
