"""The rules of the import: what differs, what is written, what stands in the way."""

import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.placement.ledger_states import consumer, ledgers, provider, state, uuid_of

from roost.placement.model import ImportedProvider, Kind, LastImport, LedgerState
from roost.placement.rules.imports import Change, Detail, Plan, leave_out_impossible, make_plan, top_down
from roost.seams.placement import ConsumerState, Inventory

VCPU = {"VCPU": Inventory(total=4)}
EMPTY = state([])


def applied(plan: Plan, here: LedgerState) -> LedgerState:
    """What the ledger is when the plan is written, as plainly as it can be said; nothing may be left hanging."""
    providers = {uuid: one for uuid, one in here.providers.items() if uuid not in plan.gone(Kind.PROVIDER)}
    consumers = {uuid: one for uuid, one in here.consumers.items() if uuid not in plan.gone(Kind.CONSUMER)}
    providers |= {one.uuid: one for one in plan.providers}
    consumers |= {one.consumer_uuid: one for one in plan.consumers}
    after = LedgerState(
        resource_classes=here.resource_classes.union(plan.new(Kind.RESOURCE_CLASS)).difference(
            plan.gone(Kind.RESOURCE_CLASS)
        ),
        traits=here.traits.union(plan.new(Kind.TRAIT)).difference(plan.gone(Kind.TRAIT)),
        providers=providers,
        consumers=consumers,
    )
    assert leave_out_impossible(after) == (after, ())
    assert len({one.name for one in providers.values()}) == len(providers)
    return after


@given(ledgers(), ledgers())
def test_the_plan_makes_the_ledger_as_the_source(source: LedgerState, here: LedgerState) -> None:
    plan = make_plan(source, here, delete=True, overwrite=True)
    assert not plan.obstacles
    assert applied(plan, here) == source
    assert not plan.remaining
    again = make_plan(source, source, delete=True, overwrite=False)
    assert not again.differences
    assert not again.obstacles
    assert not again.writes


@given(ledgers(), ledgers())
def test_without_delete_what_only_roost_has_stays_and_is_said(source: LedgerState, here: LedgerState) -> None:
    plan = make_plan(source, here, delete=False, overwrite=True)
    if plan.obstacles:
        return
    after = applied(plan, here)
    assert {uuid: after.providers[uuid] for uuid in source.providers} == source.providers
    assert {uuid: after.consumers[uuid] for uuid in source.consumers} == source.consumers
    extra = [*(here.providers.keys() - source.providers), *(here.consumers.keys() - source.consumers)]
    assert all(after.providers.get(uuid, after.consumers.get(uuid)) is not None for uuid in extra)
    found = make_plan(source, after, delete=False, overwrite=True).differences
    assert found == plan.remaining
    assert {one.key for one in found if one.kind in (Kind.PROVIDER, Kind.CONSUMER)} == set(extra)


@given(ledgers(), ledgers())
def test_every_provider_whose_use_changes_is_summed_again(source: LedgerState, here: LedgerState) -> None:
    plan = make_plan(source, here, delete=True, overwrite=True)
    before, after = used(here), used(source)
    for at, name in before.keys() | after.keys():
        if before.get((at, name)) != after.get((at, name)) and at in source.providers:
            assert at in plan.providers_touched


def used(ledger: LedgerState) -> dict[tuple[str, str], int]:
    sums: dict[tuple[str, str], int] = {}
    for one in ledger.consumers.values():
        for at, resources in one.allocations.items():
            for name, amount in resources.items():
                sums[at, name] = sums.get((at, name), 0) + amount
    return sums


HOST = provider(1, "host", generation=3, inventories=VCPU)
SERVER = consumer(1, {HOST.uuid: {"VCPU": 2}}, generation=2)
IMPORTED = LastImport(providers={HOST.uuid: HOST.generation}, consumers={SERVER.consumer_uuid: SERVER.generation})


@pytest.mark.parametrize(
    ("there", "details"),
    [
        (replace(HOST, name="other"), (Detail("name", "host", "other"),)),
        (replace(HOST, generation=4), (Detail("generation", 3, 4),)),
        (replace(HOST, parent_uuid=uuid_of(1, 2)), (Detail("parent", None, uuid_of(1, 2)),)),
        (replace(HOST, traits=frozenset({"CUSTOM_X"})), (Detail("trait CUSTOM_X", None, True),)),
        (
            replace(HOST, placement_aggregates=frozenset({uuid_of(3, 1)})),
            (Detail(f"placement aggregate {uuid_of(3, 1)}", None, True),),
        ),
        (
            replace(HOST, inventories={"VCPU": Inventory(total=4, reserved=4)}),
            (Detail("inventory VCPU", Inventory(total=4), Inventory(total=4, reserved=4)),),
        ),
        (replace(HOST, inventories={}), (Detail("inventory VCPU", Inventory(total=4), None),)),
    ],
)
def test_each_part_of_a_provider_is_compared(there: ImportedProvider, details: tuple[Detail, ...]) -> None:
    plan = make_plan(state([there, provider(2)]), state([HOST, provider(2)]), delete=False, overwrite=False)
    (one,) = (one for one in plan.differences if one.kind is Kind.PROVIDER)
    assert (one.change, one.key, one.details) == (Change.CHANGED, HOST.uuid, details)
    assert plan.providers == (there,)


@pytest.mark.parametrize(
    ("there", "details"),
    [
        (replace(SERVER, generation=1), (Detail("generation", 2, 1),)),
        (replace(SERVER, consumer_type=None), (Detail("type", "INSTANCE", None),)),
        (replace(SERVER, project_id="q"), (Detail("project", "p", "q"),)),
        (replace(SERVER, user_id="v"), (Detail("user", "u", "v"),)),
        (
            replace(SERVER, allocations={HOST.uuid: {"VCPU": 9}}),
            (Detail(f"VCPU of provider {HOST.uuid}", 2, 9),),
        ),
    ],
)
def test_each_part_of_a_consumer_is_compared(there: ConsumerState, details: tuple[Detail, ...]) -> None:
    plan = make_plan(state([HOST], [there]), state([HOST], [SERVER]), delete=False, overwrite=False)
    (one,) = plan.differences
    assert (one.kind, one.change, one.key, one.details) == (Kind.CONSUMER, Change.CHANGED, there.consumer_uuid, details)


def test_only_custom_names_are_only_in_roost() -> None:
    here = replace(EMPTY, traits=EMPTY.traits | {"HW_NEWER", "CUSTOM_OLD"}, resource_classes=frozenset({"CUSTOM_OLD"}))
    there = replace(EMPTY, traits=EMPTY.traits | {"HW_OTHER"})
    plan = make_plan(there, here, delete=True, overwrite=False)
    assert {(one.kind, one.change, one.key) for one in plan.differences} == {
        (Kind.TRAIT, Change.NEW, "HW_OTHER"),
        (Kind.TRAIT, Change.ONLY_HERE, "CUSTOM_OLD"),
        (Kind.RESOURCE_CLASS, Change.NEW, "VCPU"),
        (Kind.RESOURCE_CLASS, Change.ONLY_HERE, "CUSTOM_OLD"),
    }
    assert (plan.gone(Kind.TRAIT), plan.gone(Kind.RESOURCE_CLASS)) == (["CUSTOM_OLD"], ["CUSTOM_OLD"])


def test_a_ledger_that_was_written_to_is_only_overwritten_when_told() -> None:
    here = state([replace(HOST, generation=4)])
    (obstacle,) = make_plan(state([HOST]), here, delete=True, overwrite=False).obstacles
    assert obstacle.startswith("1 provider has a higher generation in Roost than at the source (host)")
    assert make_plan(state([HOST]), here, delete=True, overwrite=True).obstacles == ()
    assert make_plan(here, state([HOST]), delete=True, overwrite=False).obstacles == ()


def test_what_stands_in_the_way_needs_delete() -> None:
    same_name = make_plan(state([provider(2, "host")]), state([HOST]), delete=False, overwrite=False)
    assert same_name.obstacles == (
        f"provider {HOST.uuid}, which only Roost has, has the name 'host' of provider {uuid_of(1, 2)}: "
        "--delete removes it",
    )
    bare = state([replace(HOST, inventories={})])
    in_use = make_plan(bare, state([HOST], [SERVER]), delete=False, overwrite=False)
    assert in_use.obstacles == (
        f"consumer {SERVER.consumer_uuid}, which only Roost has, holds VCPU of provider {HOST.uuid}, which has none "
        "at the source: --delete removes it",
    )
    for source, here in ((state([provider(2, "host")]), state([HOST])), (bare, state([HOST], [SERVER]))):
        assert make_plan(source, here, IMPORTED, delete=True, overwrite=False).obstacles == ()


@pytest.mark.parametrize(
    ("last", "obstacles"),
    [
        (IMPORTED, []),
        (LastImport(), ["1 provider which only Roost has was", "1 consumer which only Roost has was"]),
        (LastImport(consumers=IMPORTED.consumers), ["1 provider which only Roost has was"]),
        (LastImport(providers=IMPORTED.providers), ["1 consumer which only Roost has was"]),
        (
            LastImport(providers={HOST.uuid: HOST.generation - 1}, consumers={SERVER.consumer_uuid: 1}),
            ["1 provider which only Roost has was", "1 consumer which only Roost has was"],
        ),
    ],
)
def test_what_was_written_in_roost_is_only_deleted_when_told(last: LastImport, obstacles: list[str]) -> None:
    here = state([HOST], [SERVER])
    plan = make_plan(EMPTY, here, last, delete=True, overwrite=False)
    assert [sentence.split(" written in Roost since the last import")[0] for sentence in plan.obstacles] == obstacles
    assert make_plan(EMPTY, here, last, delete=True, overwrite=True).obstacles == ()
    assert make_plan(EMPTY, here, last, delete=False, overwrite=False).obstacles == ()


def test_what_was_deleted_in_roost_is_only_made_again_when_told() -> None:
    source = state([HOST], [SERVER])
    for delete in (False, True):
        plan = make_plan(source, EMPTY, IMPORTED, delete=delete, overwrite=False)
        assert plan.obstacles == (
            "1 provider was deleted in Roost since the last import (host): --overwrite brings back what the source has",
        )
        assert make_plan(source, EMPTY, IMPORTED, delete=delete, overwrite=True).obstacles == ()
        assert make_plan(source, EMPTY, delete=delete, overwrite=False).obstacles == ()


def test_a_provider_that_only_roost_has_gets_a_generation_of_its_own_when_its_use_changes() -> None:
    other = provider(2, "other", inventories=VCPU)
    here = state([HOST, other], [replace(SERVER, allocations={other.uuid: {"VCPU": 1}})])
    plan = make_plan(state([HOST], [SERVER]), here, delete=False, overwrite=False)
    assert plan.providers_touched == {HOST.uuid, other.uuid}
    assert plan.providers_raised == {other.uuid}


@given(ledgers())
def test_parents_come_before_their_children(source: LedgerState) -> None:
    uuids = [one.uuid for one in top_down(source.providers)]
    assert sorted(uuids) == sorted(source.providers)
    places = {uuid: number for number, uuid in enumerate([None, *uuids])}
    assert all(places[one.parent_uuid] < places[one.uuid] for one in source.providers.values())


def test_what_cannot_be_is_left_out_by_name() -> None:
    lost = provider(2, parent_uuid=uuid_of(1, 9), inventories=VCPU)
    below = provider(3, parent_uuid=lost.uuid)
    loop = [provider(4, parent_uuid=uuid_of(1, 5)), provider(5, parent_uuid=uuid_of(1, 4))]
    gone = consumer(2, {HOST.uuid: {"VCPU": 1, "DISK_GB": 1}})
    on_lost = consumer(3, {lost.uuid: {"VCPU": 1}})
    odd = replace(SERVER, consumer_uuid="not-a-uuid")
    whole, left_out = leave_out_impossible(state([HOST, lost, below, *loop], [SERVER, gone, on_lost, odd]))
    assert whole.providers == {HOST.uuid: HOST}
    assert whole.consumers == {SERVER.consumer_uuid: SERVER}
    assert {(one.key, one.reason) for one in left_out} == {
        (lost.uuid, f"its parent {uuid_of(1, 9)} is in no tree"),
        (below.uuid, f"its parent {lost.uuid} is in no tree"),
        (loop[0].uuid, f"its parent {loop[1].uuid} is in no tree"),
        (loop[1].uuid, f"its parent {loop[0].uuid} is in no tree"),
        (gone.consumer_uuid, f"there is no inventory of DISK_GB at provider {HOST.uuid}"),
        (on_lost.consumer_uuid, f"there is no inventory of VCPU at provider {lost.uuid}"),
        ("not-a-uuid", "it is no UUID"),
    }
