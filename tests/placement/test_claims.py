"""The rules of a claim: capacity, units and generations, as tables and against the same said plainly."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from roost.placement.model import NO_TYPE, ConsumerRow, InventoryRow, LockedLedger
from roost.placement.rules.claims import decide_claims
from roost.seams.placement import Claimed, ClaimGroup, ConsumerClaim, Refused, Rule

KEYS = {("host", "VCPU"): (1, 10), ("host", "DISK_GB"): (1, 11), ("segment", "IPV4_ADDRESS"): (2, 12)}
"""(provider UUID, resource class) -> key of the inventory."""
ROOM = InventoryRow(capacity=8, min_unit=1, max_unit=8, step_size=1, used=0)
Held = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Consumer -> allocations; each consumer that holds something is at generation 3."""
NOBODY: Held = {}


def a_ledger(
    held: Held = NOBODY, *, vcpu: InventoryRow = ROOM, disk: InventoryRow = ROOM, used: int | None = None
) -> LockedLedger:
    """Eight of everything, and in use is what the consumers hold; used: of VCPU, if others hold some as well."""
    consumers = {
        uuid: ConsumerRow(3, {KEYS[at, name]: n for at, amounts in allocations.items() for name, n in amounts.items()})
        for uuid, allocations in held.items()
    }
    taken = Counter[tuple[int, int]]()
    for row in consumers.values():
        taken.update(row.allocations)
    inventories = {(1, 10): vcpu, (1, 11): disk, (2, 12): ROOM}
    rows = {key: row._replace(used=row.used + taken[key]) for key, row in inventories.items()}
    if used is not None:
        rows[1, 10] = rows[1, 10]._replace(used=used)
    return LockedLedger(
        provider_ids={"host": 1, "segment": 2},
        resource_class_ids={"VCPU": 10, "DISK_GB": 11, "IPV4_ADDRESS": 12, "CUSTOM_GPU": 13},
        inventories=rows,
        consumers=consumers,
    )


def a_claim(uuid: str = "c", generation: int | None = None, **allocations: Mapping[str, int]) -> ConsumerClaim:
    return ConsumerClaim(
        consumer_uuid=uuid, generation=generation, consumer_type=None, project_id="p", user_id="u",
        allocations=allocations,
    )  # fmt: skip


def broken(ledger: LockedLedger, *claims: ConsumerClaim, **options: bool) -> list[tuple[Rule, str, str, int, int, int]]:
    """Every reason why one group of claims is refused: (rule, consumer, class, asked, free, limit)."""
    ((answer,), changes) = decide_claims([ClaimGroup(claims)], ledger, **options)
    if isinstance(answer, Claimed):
        return []
    assert (changes.consumers, changes.used, changes.provider_ids) == ((), {}, frozenset()), "refused changes nothing"
    return [(s.rule, s.consumer_uuid, s.resource_class, s.requested, s.free, s.limit) for s in answer.shortfalls]


@pytest.mark.parametrize(
    ("used", "asked", "free"),
    [(0, 1, None), (0, 8, None), (0, 9, 8), (7, 1, None), (7, 2, 1), (8, 1, 0), (9, 1, -1)],
    ids=lambda value: str(value),
)
def test_a_claim_fits_up_to_the_last_free_unit(used: int, asked: int, free: int | None) -> None:
    said = broken(a_ledger(vcpu=ROOM._replace(max_unit=99), used=used), a_claim(host={"VCPU": asked}))
    assert said == ([] if free is None else [(Rule.CAPACITY, "c", "VCPU", asked, free, 0)])


@pytest.mark.parametrize(
    ("holds", "used", "asked", "refused"),
    [
        pytest.param(2, 8, 2, False, id="the same of a full provider"),
        pytest.param(2, 8, 1, False, id="less of a full provider"),
        pytest.param(2, 8, 3, True, id="more of a full provider"),
        pytest.param(2, 7, 3, False, id="the one that is left"),
        pytest.param(3, 12, 3, False, id="the same of a provider over its capacity"),
        pytest.param(3, 12, 2, False, id="less of a provider over its capacity"),
        pytest.param(3, 12, 4, True, id="more of a provider over its capacity"),
    ],
)
def test_a_claim_replaces_what_its_consumer_held(holds: int, used: int, asked: int, refused: bool) -> None:
    ledger = a_ledger({"c": {"host": {"VCPU": holds}}}, used=used)
    said = broken(ledger, a_claim(generation=3, host={"VCPU": asked}))
    assert said == ([(Rule.CAPACITY, "c", "VCPU", asked - holds, 8 - used, 0)] if refused else [])


@pytest.mark.parametrize(
    ("units", "asked", "rules"),
    [
        ((1, 8, 1), 1, []),
        ((2, 8, 1), 1, [(Rule.MIN_UNIT, 2)]),
        ((2, 8, 1), 2, []),
        ((1, 4, 1), 4, []),
        ((1, 4, 1), 5, [(Rule.MAX_UNIT, 4)]),
        ((1, 8, 3), 3, []),
        ((1, 8, 3), 6, []),
        ((1, 8, 3), 4, [(Rule.STEP_SIZE, 3)]),
        ((2, 8, 2), 1, [(Rule.MIN_UNIT, 2), (Rule.STEP_SIZE, 2)]),
        ((1, 4, 2), 5, [(Rule.MAX_UNIT, 4), (Rule.STEP_SIZE, 2)]),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "-".join(map(str, value)),
)
def test_an_amount_is_measured_by_min_unit_max_unit_and_step_size(
    units: tuple[int, int, int], asked: int, rules: list[tuple[Rule, int]]
) -> None:
    ledger = a_ledger(vcpu=InventoryRow(8, *units, used=1))
    assert broken(ledger, a_claim(host={"VCPU": asked})) == [(r, "c", "VCPU", asked, 7, limit) for r, limit in rules]


@pytest.mark.parametrize(("asked", "fits"), [(3, True), (2, False), (5, False)])
def test_an_amount_that_is_held_already_is_not_measured_again_unless_asked_for(asked: int, fits: bool) -> None:
    ledger = a_ledger({"c": {"host": {"VCPU": 3}}}, vcpu=ROOM._replace(min_unit=4, step_size=4))
    claim = a_claim(generation=3, host={"VCPU": asked})
    assert (broken(ledger, claim) == []) is fits
    assert {rule for rule, *_ in broken(ledger, claim, held_units_fit=False)} >= {Rule.STEP_SIZE}


@pytest.mark.parametrize(
    ("exists", "given_generation", "refused"),
    [
        pytest.param(False, None, None, id="none is expected and there is none"),
        pytest.param(False, 3, (3, -1), id="one is expected and there is none"),
        pytest.param(False, 0, (0, -1), id="zero is a generation too"),
        pytest.param(False, -1, (-1, -1), id="minus one does not stand for none"),
        pytest.param(True, None, (-1, 3), id="none is expected and there is one"),
        pytest.param(True, 2, (2, 3), id="an older one is expected"),
        pytest.param(True, 3, None, id="it is as expected"),
        pytest.param(True, 4, (4, 3), id="a newer one is expected"),
    ],
)
def test_a_consumer_is_at_the_generation_that_was_read(
    exists: bool, given_generation: int | None, refused: tuple[int, int] | None
) -> None:
    ledger = a_ledger({"c": {"host": {"VCPU": 1}}} if exists else {})
    claim = a_claim(generation=given_generation, host={"VCPU": 1})
    said = [(rule, asked, free) for rule, _, _, asked, free, _ in broken(ledger, claim)]
    assert said == ([] if refused is None else [(Rule.CONSUMER_GENERATION, *refused)])
    assert broken(ledger, replace(claim, any_generation=True)) == []


@pytest.mark.parametrize(
    ("provider", "name", "rule"),
    [("elsewhere", "VCPU", Rule.NO_PROVIDER), ("elsewhere", "CUSTOM_NEW", Rule.NO_PROVIDER),
     ("segment", "VCPU", Rule.NO_INVENTORY), ("host", "CUSTOM_GPU", Rule.NO_INVENTORY),
     ("host", "CUSTOM_NEW", Rule.NO_INVENTORY)],
)  # fmt: skip
def test_what_is_not_there_cannot_be_claimed(provider: str, name: str, rule: Rule) -> None:
    claim = a_claim(**{provider: {name: 2}})
    assert broken(a_ledger(), claim) == [(rule, "c", name, 2, 0, 0)]


def test_all_that_stands_against_a_claim_is_said_at_once() -> None:
    ledger = a_ledger({"c": {"host": {"VCPU": 1}}}, vcpu=ROOM._replace(min_unit=9, max_unit=99))
    claim = a_claim(host={"VCPU": 8, "DISK_GB": 8, "CUSTOM_GPU": 1}, elsewhere={"VCPU": 1})
    other = a_claim("d", host={"DISK_GB": 1})
    assert [(rule, uuid, name) for rule, uuid, name, *_ in broken(ledger, claim, other)] == [
        (Rule.NO_INVENTORY, "c", "CUSTOM_GPU"),
        (Rule.NO_PROVIDER, "c", "VCPU"),
        (Rule.CONSUMER_GENERATION, "c", ""),
        (Rule.MIN_UNIT, "c", "VCPU"),
        (Rule.CAPACITY, "c", "DISK_GB"),
    ]


def test_the_consumers_of_a_group_are_measured_together() -> None:
    """A server moves: what it gave back is room for its heir, and one unit more is too much."""
    ledger = a_ledger({"c": {"host": {"VCPU": 5}}})
    for heirs, short in ((8, []), (9, [(Rule.CAPACITY, "d", "VCPU", 4, 3, 0)])):
        claims = (a_claim(generation=3), a_claim("d", host={"VCPU": heirs}))
        vcpu = replace(ledger, inventories={**ledger.inventories, (1, 10): ROOM._replace(used=5, max_unit=99)})
        assert broken(vcpu, *claims) == short
    ((answer,), changes) = decide_claims([ClaimGroup((a_claim(generation=3), a_claim("d", host={"VCPU": 8})))], ledger)
    assert answer == Claimed({"c": 4, "d": 1})
    assert changes.used == {(1, 10): 3}
    assert changes.provider_ids == {1}


def test_a_refused_group_leaves_its_room_to_the_next() -> None:
    groups = [
        ClaimGroup((a_claim("a", host={"VCPU": 5}),)),
        ClaimGroup((a_claim("b", host={"VCPU": 4}, segment={"IPV4_ADDRESS": 1}),)),
        ClaimGroup((a_claim("c", host={"VCPU": 3}),)),
    ]
    answers, changes = decide_claims(groups, a_ledger())
    assert [type(answer) for answer in answers] == [Claimed, Refused, Claimed]
    assert changes.used == {(1, 10): 8}
    assert [write.uuid for write in changes.consumers] == ["a", "c"]
    assert changes.provider_ids == {1}


def test_a_later_group_sees_what_an_earlier_one_changed() -> None:
    groups = [
        ClaimGroup((a_claim("a", host={"VCPU": 5}),)),
        ClaimGroup((a_claim("a", 1, segment={"IPV4_ADDRESS": 1}),)),
        ClaimGroup((a_claim("b", host={"VCPU": 8}),)),
        ClaimGroup((a_claim("a", 1, host={"VCPU": 1}),)),
    ]
    answers, changes = decide_claims(groups, a_ledger())
    assert answers[:3] == [Claimed({"a": 1}), Claimed({"a": 2}), Claimed({"b": 1})]
    assert {s.rule for s in answers[3].shortfalls} == {Rule.CONSUMER_GENERATION, Rule.CAPACITY}
    assert changes.used == {(1, 10): 8, (2, 12): 1}
    assert {write.uuid: (write.generation, write.created) for write in changes.consumers} == {
        "a": (2, True), "b": (1, True),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("exists", "types", "written"),
    [
        pytest.param(False, [None], None, id="a new consumer without a type"),
        pytest.param(False, ["X"], "X", id="a new consumer with a type"),
        pytest.param(True, [None], None, id="the type that it has stays"),
        pytest.param(True, ["X", None], "X", id="that of the earlier group stays"),
        pytest.param(True, ["X", "Y"], "Y", id="the later group decides"),
        pytest.param(True, ["X", "gone", None], NO_TYPE, id="it was gone in between, and has no type any more"),
        pytest.param(False, ["X", "gone", None], None, id="it never was, went, and came without a type"),
    ],
)
def test_a_consumer_keeps_its_type_until_it_is_gone(exists: bool, types: list[str | None], written: str | None) -> None:
    groups = []
    for name in types:
        amounts = {} if name == "gone" else {"VCPU": 1}
        claim = replace(a_claim(host=amounts), any_generation=True, consumer_type=None if name == "gone" else name)
        groups.append(ClaimGroup((claim,)))
    answers, changes = decide_claims(groups, a_ledger({"c": {"host": {"VCPU": 1}}} if exists else {}))
    assert all(isinstance(answer, Claimed) for answer in answers)
    (write,) = changes.consumers
    assert (write.consumer_type, write.created) == (written, not exists)
    assert write.allocations == {(1, 10): 1}


def test_a_consumer_that_is_made_again_starts_anew() -> None:
    groups = [ClaimGroup((a_claim(generation=3),)), ClaimGroup((a_claim(host={"VCPU": 1}),))]
    answers, _ = decide_claims(groups, a_ledger({"c": {"host": {"VCPU": 5}}}))
    assert answers == [Claimed({"c": 4}), Claimed({"c": 1})]


def test_a_provider_that_is_left_or_kept_as_it_was_counts_as_touched() -> None:
    ledger = a_ledger({"c": {"host": {"VCPU": 1}, "segment": {"IPV4_ADDRESS": 1}}})
    _, changes = decide_claims([ClaimGroup((a_claim(generation=3, host={"VCPU": 1}),))], ledger)
    assert changes.provider_ids == {1, 2}
    assert changes.used == {(2, 12): -1}, "what did not change is left out"


UUIDS = ("a", "b", "c")
some_allocations = st.dictionaries(st.sampled_from(sorted(KEYS)), st.integers(1, 6), max_size=2)
some_holders = st.dictionaries(
    st.sampled_from(UUIDS), st.dictionaries(st.sampled_from(sorted(KEYS)), st.integers(1, 6), min_size=1, max_size=2)
)
some_groups = st.lists(st.dictionaries(st.sampled_from(UUIDS), some_allocations, min_size=1), max_size=4)


@given(some_holders, some_groups, st.integers(4, 12))
def test_a_group_is_taken_exactly_if_what_it_raises_fits(
    held: dict[str, dict[tuple[str, str], int]], groups: list[dict[str, dict[tuple[str, str], int]]], capacity: int
) -> None:
    """Against sums over all consumers, from the beginning for every group."""
    row = InventoryRow(capacity, 1, 99, 1, 0)
    ledger = a_ledger({uuid: _by_provider(lines) for uuid, lines in held.items()})
    sums = {key: sum(lines.get(name, 0) for lines in held.values()) for name, key in KEYS.items()}
    ledger = replace(ledger, inventories={key: row._replace(used=sums[key]) for key in KEYS.values()})
    asked = [
        ClaimGroup(tuple(replace(a_claim(uuid, **_by_provider(lines)), any_generation=True)
                         for uuid, lines in group.items()))
        for group in groups
    ]  # fmt: skip
    answers, changes = decide_claims(asked, ledger)
    now = dict(held)
    for group, answer in zip(groups, answers, strict=True):
        after = {**now, **group}
        use = {name: (_sum(now, name), _sum(after, name)) for name in KEYS}
        fits = all(new <= max(capacity, old) for old, new in use.values())  # what raises no use is allowed
        assert isinstance(answer, Claimed) is fits
        if fits:
            now = after
    assert changes.used == {
        key: _sum(now, name) - _sum(held, name) for name, key in KEYS.items() if _sum(now, name) != _sum(held, name)
    }
    written = {write.uuid: {name: write.allocations.get(key, 0) for name, key in KEYS.items()}
               for write in changes.consumers}  # fmt: skip
    assert written == {uuid: {name: now[uuid].get(name, 0) for name in KEYS} for uuid in written}
    assert all(now.get(uuid) == held.get(uuid) for uuid in UUIDS if uuid not in written)


def _by_provider(lines: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    allocations: dict[str, dict[str, int]] = {}
    for (uuid, name), amount in lines.items():
        allocations.setdefault(uuid, {})[name] = amount
    return allocations


def _sum(held: Mapping[str, Mapping[tuple[str, str], int]], name: tuple[str, str]) -> int:
    return sum(lines.get(name, 0) for lines in held.values())
