"""The plan of an export: each step is one that a strict Placement takes, and after the last one both hold the same."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.placement.model import ImportedProvider, LedgerState
from roost.placement.rules.exports import (
    ROOMY,
    ExportPlan,
    Place,
    leave_out_unknown,
    plan_export,
    without_generations,
    without_port_claims,
)
from roost.placement.rules.imports import list_differences
from roost.seams.placement import ConsumerState, Inventory

UUIDS = [f"00000000-0000-4000-8000-00000000000{n}" for n in range(6)]
HOLDERS = [f"10000000-0000-4000-8000-00000000000{n}" for n in range(5)]
CLASSES = ("VCPU", "CUSTOM_A", "CUSTOM_B")


class Strict:
    """A Placement that takes a step only if upstream would; it raises AssertionError for any other."""

    def __init__(self, state: LedgerState) -> None:
        self.classes, self.traits = set(state.resource_classes), set(state.traits)
        self.providers = dict(state.providers)
        self.consumers = dict(state.consumers)

    def used(self, uuid: str, name: str, *, but: str = "") -> int:
        return sum(
            item.allocations.get(uuid, {}).get(name, 0) for key, item in self.consumers.items() if key != but
        )  # fmt: skip

    def place(self, place: Place, *, new: bool) -> None:
        assert (place.uuid in self.providers) != new
        others = {uuid: item for uuid, item in self.providers.items() if uuid != place.uuid}
        assert place.name not in {item.name for item in others.values()}
        above = place.parent_uuid
        while above is not None:
            assert above != place.uuid, "a circle"
            above = self.providers[above].parent_uuid
        old = self.providers.get(place.uuid) or ImportedProvider(
            uuid=place.uuid, name="", generation=0, parent_uuid=None, inventories={}, traits=frozenset(),
            placement_aggregates=frozenset(),
        )  # fmt: skip
        self.providers[place.uuid] = msgspec.structs.replace(old, name=place.name, parent_uuid=place.parent_uuid)

    def set_inventories(self, uuid: str, inventories: dict[str, Inventory]) -> None:
        assert set(inventories) <= self.classes
        for name in self.providers[uuid].inventories.keys() - inventories.keys():
            assert self.used(uuid, name) == 0, "an inventory in use cannot go"
        self.providers[uuid] = msgspec.structs.replace(self.providers[uuid], inventories=inventories)

    def claim(self, consumer: ConsumerState) -> None:
        for uuid, resources in consumer.allocations.items():
            for name, amount in resources.items():
                inventory = self.providers[uuid].inventories[name]
                assert inventory.min_unit <= amount <= inventory.max_unit
                assert amount % inventory.step_size == 0
                assert self.used(uuid, name, but=consumer.consumer_uuid) + amount <= inventory.capacity
        self.consumers[consumer.consumer_uuid] = consumer

    def delete(self, uuid: str) -> None:
        assert not any(item.parent_uuid == uuid for item in self.providers.values())
        assert not any(uuid in item.allocations for item in self.consumers.values())
        del self.providers[uuid]

    def apply(self, plan: ExportPlan, *, steps: int = 10_000) -> int:
        """Take so many steps of the plan; how many there were."""
        done = 0
        for step in self.steps(plan):
            if done == steps:
                break
            step()
            done += 1
        return done

    def steps(self, plan: ExportPlan):  # type: ignore[no-untyped-def]
        yield lambda: self.classes.update(plan.classes_new)
        yield lambda: self.traits.update(plan.traits_new)
        for key in plan.consumers_gone:
            yield lambda key=key: self.consumers.pop(key)
        for place in plan.names_cleared:
            yield lambda place=place: self.place(place, new=False)
        for place in plan.providers_new:
            yield lambda place=place: self.place(place, new=True)
        for place in plan.places:
            yield lambda place=place: self.place(place, new=False)
        for uuid, inventories in plan.inventories_first.items():
            yield lambda uuid=uuid, inventories=inventories: self.set_inventories(uuid, dict(inventories))
        for uuid, traits in plan.traits.items():
            yield lambda uuid=uuid, traits=traits: self.replace(uuid, traits=traits)
        for uuid, aggregates in plan.placement_aggregates.items():
            yield lambda uuid=uuid, aggregates=aggregates: self.replace(uuid, placement_aggregates=aggregates)
        for consumer in plan.consumers:
            yield lambda consumer=consumer: self.claim(consumer)
        for uuid, inventories in plan.inventories_last.items():
            yield lambda uuid=uuid, inventories=inventories: self.set_inventories(uuid, dict(inventories))
        for uuid in plan.providers_gone:
            yield lambda uuid=uuid: self.delete(uuid)
        yield lambda: self.traits.difference_update(plan.traits_gone)
        yield lambda: self.classes.difference_update(plan.classes_gone)

    def replace(self, uuid: str, **fields: object) -> None:
        self.providers[uuid] = msgspec.structs.replace(self.providers[uuid], **fields)

    def state(self) -> LedgerState:
        return LedgerState(
            resource_classes=frozenset(self.classes), traits=frozenset(self.traits), providers=self.providers,
            consumers=self.consumers,
        )  # fmt: skip


inventories = st.builds(
    Inventory, total=st.integers(1, 6), reserved=st.integers(0, 3), min_unit=st.integers(1, 2),
    max_unit=st.integers(2, 6), step_size=st.integers(1, 2),
)  # fmt: skip


@st.composite
def states(draw: st.DrawFn) -> LedgerState:
    """Any ledger: also one that holds more than it has room for, and claims that its inventories would not take."""
    providers: dict[str, ImportedProvider] = {}
    names = draw(st.permutations([f"name{n}" for n in range(len(UUIDS))]))
    uuids = draw(st.lists(st.sampled_from(UUIDS), unique=True))
    for uuid, name in zip(uuids, names, strict=False):
        parent = draw(st.sampled_from([None, *providers]))
        has = draw(st.dictionaries(st.sampled_from(CLASSES), inventories))
        traits = frozenset(draw(st.lists(st.sampled_from(["HW_X", "CUSTOM_T"]))))
        providers[uuid] = ImportedProvider(
            uuid=uuid, name=name, generation=0, parent_uuid=parent, inventories=has, traits=traits,
            placement_aggregates=frozenset(draw(st.lists(st.sampled_from(UUIDS), max_size=2))),
        )  # fmt: skip
    lines = [(uuid, name) for uuid, item in providers.items() for name in item.inventories]
    consumers = {}
    for holder in draw(st.lists(st.sampled_from(HOLDERS), unique=True)) if lines else []:
        held: dict[str, dict[str, int]] = {}
        for uuid, name in draw(st.lists(st.sampled_from(lines), min_size=1, max_size=3, unique=True)):
            held.setdefault(uuid, {})[name] = draw(st.integers(1, 9))
        consumers[holder] = ConsumerState(
            consumer_uuid=holder, generation=0, consumer_type="INSTANCE", project_id="p", user_id="u", allocations=held
        )
    return LedgerState(
        resource_classes=frozenset({"VCPU", *(name for _, name in lines)}),
        traits=frozenset({"HW_X", *(name for item in providers.values() for name in item.traits)}),
        providers=providers, consumers=consumers,
    )  # fmt: skip


@given(states(), states(), st.integers(0, 40))
def test_a_strict_placement_takes_every_step_and_holds_the_same_afterwards(
    wanted: LedgerState, present: LedgerState, steps: int
) -> None:
    """Also when the first export was interrupted after any number of steps."""
    there = Strict(present)
    there.apply(plan_export(wanted, present, delete=True), steps=steps)
    there.apply(plan_export(wanted, there.state(), delete=True))
    assert list_differences(wanted, there.state()) == ()
    assert plan_export(wanted, there.state(), delete=True) == plan_export(wanted, wanted, delete=True)


@given(states())
def test_nothing_is_planned_where_nothing_differs(state: LedgerState) -> None:
    assert not any(msgspec.structs.astuple(plan_export(state, state, delete=True)))


def test_claims_of_ports_are_left_out_and_nothing_else() -> None:
    types = ("PORT", "INSTANCE", None)
    consumers = {
        f"{number}": ConsumerState(
            consumer_uuid=f"{number}", generation=1, consumer_type=kind, project_id="p", user_id="u", allocations={}
        )
        for number, kind in enumerate(types)
    }
    state = LedgerState(providers={}, consumers=consumers)
    assert list(without_port_claims(state).consumers) == ["1", "2"]


def a_host(**fields: object) -> ImportedProvider:
    given = {"generation": 3, "parent_uuid": None, "inventories": {}, "traits": frozenset(), **fields}
    return ImportedProvider(uuid=UUIDS[0], name="h1", placement_aggregates=frozenset(), **given)


@pytest.mark.parametrize(("held", "roomy"), [(4, False), (5, True)])
def test_only_what_is_over_its_capacity_is_given_room_for_a_while(held: int, roomy: bool) -> None:
    host = a_host(inventories={"VCPU": Inventory(total=4)})
    consumer = ConsumerState(
        consumer_uuid=HOLDERS[0], generation=1, consumer_type=None, project_id="p", user_id="u",
        allocations={host.uuid: {"VCPU": held}},
    )  # fmt: skip
    wanted = LedgerState(providers={host.uuid: host}, consumers={HOLDERS[0]: consumer})
    plan = plan_export(wanted, LedgerState(providers={}, consumers={}), delete=False)
    assert (plan.inventories_first[host.uuid]["VCPU"] == ROOMY) == roomy
    assert bool(plan.inventories_last) == roomy


def test_standard_names_that_the_other_does_not_know_are_left_out_with_their_consumers() -> None:
    host = a_host(inventories={"PCPU": Inventory(total=4)}, traits=frozenset({"HW_NEW", "CUSTOM_T"}))
    consumer = ConsumerState(
        consumer_uuid=HOLDERS[0], generation=1, consumer_type=None, project_id="p", user_id="u",
        allocations={host.uuid: {"PCPU": 1}},
    )  # fmt: skip
    wanted = LedgerState(
        resource_classes=frozenset({"PCPU"}), traits=frozenset({"HW_NEW", "CUSTOM_T"}), providers={host.uuid: host},
        consumers={HOLDERS[0]: consumer},
    )  # fmt: skip
    known, left_out = leave_out_unknown(wanted, LedgerState(providers={}, consumers={}))
    assert (known.providers[host.uuid].traits, known.providers[host.uuid].inventories) == ({"CUSTOM_T"}, {})
    assert (known.consumers, known.traits, known.resource_classes) == ({}, {"CUSTOM_T"}, frozenset())
    assert [item.key for item in left_out] == [host.uuid, HOLDERS[0]]


def test_generations_are_each_ones_own() -> None:
    state = LedgerState(providers={UUIDS[0]: a_host()}, consumers={})
    other = LedgerState(providers={UUIDS[0]: a_host(generation=9)}, consumers={})
    assert list_differences(without_generations(state), without_generations(other)) == ()
    assert list_differences(state, other) != ()


def test_a_tree_that_was_turned_round_makes_no_circle_on_the_way() -> None:
    def tree(above: str, below: str) -> LedgerState:
        top = msgspec.structs.replace(a_host(), uuid=above, name=above)
        child = msgspec.structs.replace(a_host(), uuid=below, name=below, parent_uuid=above)
        return LedgerState(providers={above: top, below: child}, consumers={})

    wanted, present = tree(UUIDS[1], UUIDS[0]), tree(UUIDS[0], UUIDS[1])
    there = Strict(present)
    there.apply(plan_export(wanted, present, delete=False))
    assert list_differences(wanted, there.state()) == ()


def test_names_that_change_hands_are_given_up_first() -> None:
    def named(first: str, second: str) -> LedgerState:
        hosts = [msgspec.structs.replace(a_host(), uuid=UUIDS[n], name=name) for n, name in enumerate((first, second))]
        return LedgerState(providers={host.uuid: host for host in hosts}, consumers={})

    wanted, present = named("a", "b"), named("b", "a")
    there = Strict(present)
    there.apply(plan_export(wanted, present, delete=False))
    assert list_differences(wanted, there.state()) == ()
