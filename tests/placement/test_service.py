"""Claims on real PostgreSQL: races, replacement, release, and what stays true of `used`."""

import asyncio
import uuid

import pytest

from roost.placement.errors import InventoryInUse, ProviderNameTaken
from roost.placement.service import claims as claims_service
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.service.reads import find_candidates, get_provider, match_candidates
from roost.placement.service.reshape import reshape_states
from roost.placement.settings import PlacementSettings
from roost.platform.database import Database
from roost.seams.placement import (
    SHARING,
    CandidateQuery,
    Claimed,
    ClaimGroup,
    ConsumerClaim,
    Inventory,
    ProviderState,
    Refused,
    RequestGroup,
    Rule,
)


def a_uuid() -> str:
    return str(uuid.uuid4())


def claim_of(allocations: dict[str, dict[str, int]], consumer: str | None = None, generation: int | None = None):
    return ConsumerClaim(
        consumer_uuid=consumer or a_uuid(), generation=generation, consumer_type="INSTANCE",
        project_id="p", user_id="u", allocations=allocations,
    )  # fmt: skip


@pytest.fixture
async def ledger(database: Database) -> Ledger:
    made = Ledger(database)
    await sync_standard_names(made)
    return made


async def a_provider(ledger: Ledger, **totals: int) -> str:
    made = a_uuid()
    inventories = {name: Inventory(total=total, max_unit=total) for name, total in totals.items()}
    await claims_service.ensure_providers(
        ledger, [ProviderState(uuid=made, name=f"host-{made}", inventories=inventories)]
    )
    return made


async def assert_books_agree(ledger: Ledger) -> None:
    async with ledger.database.connection() as connection:
        wrong = await connection.fetch("""
            SELECT i.provider_id, i.used, coalesce(sum(a.used), 0)
            FROM placement.inventory i LEFT JOIN placement.allocation a USING (provider_id, resource_class_id)
            GROUP BY i.provider_id, i.resource_class_id, i.used HAVING i.used <> coalesce(sum(a.used), 0)
        """)
        over = await connection.fetch("""
            SELECT provider_id FROM placement.inventory WHERE used > floor((total - reserved) * allocation_ratio)
        """)
        idle = await connection.fetch("""
            SELECT uuid FROM placement.consumer c
            WHERE NOT EXISTS (SELECT FROM placement.allocation a WHERE a.consumer_uuid = c.uuid)
        """)
    assert not wrong
    assert not over
    assert not idle


async def test_sixteen_clients_race_for_ten_addresses_and_exactly_ten_win(ledger: Ledger) -> None:
    segment = await a_provider(ledger, IPV4_ADDRESS=10)
    hosts = [await a_provider(ledger, VCPU=100) for _ in range(4)]

    async def boot(number: int) -> Claimed | Refused:
        server = claim_of({hosts[number % 4]: {"VCPU": 1}})
        port = claim_of({segment: {"IPV4_ADDRESS": 1}})
        return (await claims_service.claim(ledger, [ClaimGroup((server, port))]))[0]

    answers = await asyncio.gather(*(boot(number) for number in range(16)))
    assert sum(isinstance(answer, Claimed) for answer in answers) == 10
    for answer in answers:
        if isinstance(answer, Refused):
            (shortfall,) = answer.shortfalls
            assert (shortfall.rule, shortfall.provider_uuid, shortfall.requested) == (Rule.CAPACITY, segment, 1)
            assert shortfall.free == 0
    usages = await claims_service.list_usages(ledger, [segment, *hosts])
    assert usages[segment]["IPV4_ADDRESS"] == (10, 10)
    assert sum(usages[host]["VCPU"][1] for host in hosts) == 10
    await assert_books_agree(ledger)


async def test_a_refused_group_undoes_no_other_and_later_groups_see_earlier_ones(ledger: Ledger) -> None:
    host = await a_provider(ledger, VCPU=4)
    groups = [ClaimGroup((claim_of({host: {"VCPU": amount}}),)) for amount in (2, 3, 2, 1)]
    answers = await claims_service.claim(ledger, groups)
    assert [isinstance(answer, Claimed) for answer in answers] == [True, False, True, False]
    await assert_books_agree(ledger)


async def test_a_group_is_taken_whole_or_not_at_all_with_every_reason(ledger: Ledger) -> None:
    host = await a_provider(ledger, VCPU=4, MEMORY_MB=100)
    segment = await a_provider(ledger, IPV4_ADDRESS=1)
    server = claim_of({host: {"VCPU": 5, "MEMORY_MB": 50, "DISK_GB": 1}})
    ports = [claim_of({segment: {"IPV4_ADDRESS": 1}}), claim_of({segment: {"IPV4_ADDRESS": 1}})]
    (answer,) = await claims_service.claim(ledger, [ClaimGroup((server, *ports))])
    assert isinstance(answer, Refused)
    found = {(shortfall.rule, shortfall.resource_class) for shortfall in answer.shortfalls}
    assert found == {
        (Rule.CAPACITY, "VCPU"), (Rule.MAX_UNIT, "VCPU"), (Rule.NO_INVENTORY, "DISK_GB"),
        (Rule.CAPACITY, "IPV4_ADDRESS"),
    }  # fmt: skip
    assert await claims_service.get_consumers(ledger, [server.consumer_uuid]) == {}
    await assert_books_agree(ledger)


async def test_a_claim_replaces_what_the_consumer_held(ledger: Ledger) -> None:
    one, two = await a_provider(ledger, VCPU=4), await a_provider(ledger, VCPU=4)
    consumer = a_uuid()
    (first,) = await claims_service.claim(ledger, [ClaimGroup((claim_of({one: {"VCPU": 4}}, consumer),))])
    assert isinstance(first, Claimed)
    assert first.generations == {consumer: 1}
    (second,) = await claims_service.claim(ledger, [ClaimGroup((claim_of({two: {"VCPU": 3}}, consumer, 1),))])
    assert isinstance(second, Claimed)
    assert second.generations == {consumer: 2}
    held = await claims_service.get_consumers(ledger, [consumer])
    assert held[consumer].allocations == {two: {"VCPU": 3}}
    await assert_books_agree(ledger)


async def test_a_claim_with_an_old_generation_changes_nothing(ledger: Ledger) -> None:
    host = await a_provider(ledger, VCPU=4)
    consumer = a_uuid()
    await claims_service.claim(ledger, [ClaimGroup((claim_of({host: {"VCPU": 1}}, consumer),))])
    for generation in (None, 0, 2):
        (answer,) = await claims_service.claim(
            ledger, [ClaimGroup((claim_of({host: {"VCPU": 2}}, consumer, generation),))]
        )
        assert isinstance(answer, Refused)
        assert answer.shortfalls[0].rule is Rule.CONSUMER_GENERATION
        assert answer.shortfalls[0].free == 1
    await assert_books_agree(ledger)


async def test_many_claims_for_one_new_consumer_at_once_give_it_one_claim(ledger: Ledger) -> None:
    host = await a_provider(ledger, VCPU=100)
    consumer = a_uuid()
    other = [a_uuid() for _ in range(8)]
    answers = await asyncio.gather(
        *(
            claims_service.claim(
                ledger,
                [
                    ClaimGroup((claim_of({host: {"VCPU": 1}}, consumer),)),
                    ClaimGroup((claim_of({host: {"VCPU": 1}}, u),)),
                ],
            )
            for u in other
        )
    )
    assert sum(isinstance(answer[0], Claimed) for answer in answers) == 1
    assert all(isinstance(answer[1], Claimed) for answer in answers)
    assert (await claims_service.list_usages(ledger, [host]))[host]["VCPU"][1] == 9
    await assert_books_agree(ledger)


async def test_release_gives_back_everything_but_only_at_the_named_generation(ledger: Ledger) -> None:
    host = await a_provider(ledger, VCPU=4)
    consumer = a_uuid()
    await claims_service.claim(ledger, [ClaimGroup((claim_of({host: {"VCPU": 2}}, consumer),))])
    await claims_service.release(ledger, [consumer], generations={consumer: 7})
    assert (await claims_service.list_usages(ledger, [host]))[host]["VCPU"][1] == 2
    await claims_service.release(ledger, [consumer], generations={consumer: 1})
    await claims_service.release(ledger, [consumer])
    assert (await claims_service.list_usages(ledger, [host]))[host]["VCPU"][1] == 0
    await assert_books_agree(ledger)


async def test_a_change_that_worsens_nothing_is_allowed_on_an_over_capacity_provider(ledger: Ledger) -> None:
    host = await a_provider(ledger, VCPU=8)
    consumer = a_uuid()
    await claims_service.claim(ledger, [ClaimGroup((claim_of({host: {"VCPU": 8}}, consumer),))])
    await claims_service.ensure_providers(
        ledger, [ProviderState(uuid=host, name=f"host-{host}", inventories={"VCPU": Inventory(total=4)})]
    )
    (fewer,) = await claims_service.claim(ledger, [ClaimGroup((claim_of({host: {"VCPU": 6}}, consumer, 1),))])
    assert isinstance(fewer, Claimed)
    (more,) = await claims_service.claim(ledger, [ClaimGroup((claim_of({host: {"VCPU": 7}}, consumer, 2),))])
    assert isinstance(more, Refused)


async def test_traits_that_the_sender_does_not_manage_stay(ledger: Ledger) -> None:
    def state(managed: frozenset[str] | None, *traits: str) -> ProviderState:
        return ProviderState(uuid=uuid, name="one", traits=frozenset(traits), managed_traits=managed)

    async def traits() -> frozenset[str]:
        return (await get_provider(ledger, uuid)).traits

    uuid = a_uuid()
    await claims_service.ensure_providers(ledger, [state(None, "CUSTOM_OPERATORS")])
    managed = frozenset({"COMPUTE_STATUS_DISABLED"})
    await claims_service.ensure_providers(ledger, [state(managed, "COMPUTE_STATUS_DISABLED")])
    assert await traits() == {"CUSTOM_OPERATORS", "COMPUTE_STATUS_DISABLED"}
    await claims_service.ensure_providers(ledger, [state(managed)])
    assert await traits() == {"CUSTOM_OPERATORS"}


async def test_ensuring_a_provider_twice_does_nothing_the_second_time(ledger: Ledger) -> None:
    state = ProviderState(
        uuid=a_uuid(), name="one", inventories={"VCPU": Inventory(total=4)}, traits=frozenset({"CUSTOM_A"}),
        placement_aggregates=frozenset({a_uuid()}),
    )  # fmt: skip

    async def generation() -> int:
        async with ledger.database.connection() as connection:
            return await connection.fetchval("SELECT generation FROM placement.provider")

    await claims_service.ensure_providers(ledger, [state])
    first = await generation()
    await claims_service.ensure_providers(ledger, [state])
    assert await generation() == first


async def test_inventory_in_use_and_a_taken_name_are_refused_whole(ledger: Ledger) -> None:
    host = await a_provider(ledger, VCPU=4)
    await claims_service.claim(ledger, [ClaimGroup((claim_of({host: {"VCPU": 1}}),))])
    with pytest.raises(InventoryInUse, match="VCPU"):
        await claims_service.ensure_providers(ledger, [ProviderState(uuid=host, name="renamed", inventories={})])
    with pytest.raises(ProviderNameTaken):
        await claims_service.ensure_providers(ledger, [ProviderState(uuid=a_uuid(), name=f"host-{host}")])
    assert await claims_service.delete_providers(ledger, [host]) == [host]


async def test_children_follow_their_parents_and_keep_them(ledger: Ledger) -> None:
    parent, child = a_uuid(), a_uuid()
    await claims_service.ensure_providers(
        ledger,
        [ProviderState(uuid=child, name="child", parent_uuid=parent), ProviderState(uuid=parent, name="parent")],
    )
    assert await claims_service.delete_providers(ledger, [parent]) == [parent]
    assert await claims_service.delete_providers(ledger, [child]) == []
    assert await claims_service.delete_providers(ledger, [parent]) == []


async def test_a_new_consumer_that_exists_and_holds_the_last_unit_is_told_that_it_exists(ledger: Ledger) -> None:
    """New consumers are not looked for at first: short of what it holds itself, the group must be looked at again."""
    host = await a_provider(ledger, VCPU=1)
    consumer = a_uuid()
    await claims_service.claim(ledger, [ClaimGroup((claim_of({host: {"VCPU": 1}}, consumer),))])
    (answer,) = await claims_service.claim(ledger, [ClaimGroup((claim_of({host: {"VCPU": 1}}, consumer),))])
    assert isinstance(answer, Refused)
    assert [shortfall.rule for shortfall in answer.shortfalls] == [Rule.CONSUMER_GENERATION]


async def test_a_consumer_that_a_group_released_is_a_new_one_to_the_next_group(ledger: Ledger) -> None:
    """As if the groups came one by one: who was there before leaves nothing, not even a generation."""
    host = await a_provider(ledger, VCPU=4)
    was, was_not = a_uuid(), a_uuid()
    await claims_service.claim(ledger, [ClaimGroup((claim_of({host: {"VCPU": 4}}, was),))])
    groups = [
        ClaimGroup((claim_of({}, was, 1), claim_of({}, was_not))),
        ClaimGroup((claim_of({host: {"VCPU": 3}}, was), claim_of({host: {"VCPU": 1}}, was_not))),
    ]
    answers = await claims_service.claim(ledger, groups)
    assert all(isinstance(answer, Claimed) for answer in answers)
    held = await claims_service.get_consumers(ledger, [was, was_not])
    assert {uuid: state.generation for uuid, state in held.items()} == {was: 1, was_not: 1}
    await assert_books_agree(ledger)


async def test_a_reshape_of_states_moves_inventory_and_claims_or_neither(ledger: Ledger) -> None:
    """As the network service moves a network's addresses to its segment."""
    network, segment = await a_provider(ledger, IPV4_ADDRESS=5), a_uuid()
    held, pending = a_uuid(), a_uuid()
    claims = [claim_of({network: {"IPV4_ADDRESS": 1}}, consumer) for consumer in (held, pending)]
    assert all(
        isinstance(one, Claimed) for one in await claims_service.claim(ledger, [ClaimGroup((c,)) for c in claims])
    )
    states = [
        ProviderState(uuid=segment, name="segment", inventories={"IPV4_ADDRESS": Inventory(total=5, max_unit=5)}),
        ProviderState(uuid=network, name=f"host-{network}", inventories={}),
    ]
    moved = claim_of({segment: {"IPV4_ADDRESS": 1}}, held, 1)
    answer = await reshape_states(ledger, states, [moved])
    assert isinstance(answer, Refused)
    assert {shortfall.rule for shortfall in answer.shortfalls} == {Rule.IN_USE}
    assert (await claims_service.list_usages(ledger, [network, segment]))[network] == {"IPV4_ADDRESS": (5, 2)}
    assert not (await claims_service.list_usages(ledger, [segment])).get(segment)
    await claims_service.release(ledger, [pending])
    stale = claim_of({segment: {"IPV4_ADDRESS": 1}}, held, 7)
    answer = await reshape_states(ledger, states, [stale])
    assert isinstance(answer, Refused)
    assert {shortfall.rule for shortfall in answer.shortfalls} == {Rule.CONSUMER_GENERATION}
    for generation in (1, 2):
        again = claim_of({segment: {"IPV4_ADDRESS": 1}}, held, generation)
        assert isinstance(await reshape_states(ledger, states, [again]), Claimed)
        usages = await claims_service.list_usages(ledger, [network, segment])
        assert usages[segment] == {"IPV4_ADDRESS": (5, 1)}
        assert not usages.get(network)
    await assert_books_agree(ledger)


@pytest.mark.parametrize(
    "settings",
    [
        PlacementSettings(max_allocation_candidates=1),
        PlacementSettings(implied_addresses=True),
        PlacementSettings(allocation_candidates_generation_strategy="depth-first", max_allocation_candidates=2),
    ],
    ids=["max_allocation_candidates", "implied_addresses", "depth-first"],
)
async def test_settings_of_the_api_cut_nothing_off_from_a_query_of_roost_itself(
    database: Database, settings: PlacementSettings
) -> None:
    ledger = Ledger(database, settings=settings)
    await sync_standard_names(ledger)
    near = frozenset({a_uuid()})
    hosts = [
        ProviderState(uuid=a_uuid(), name=f"h{n}", inventories={"VCPU": Inventory(total=9)}, placement_aggregates=near)
        for n in range(3)
    ]
    segment = ProviderState(
        uuid=a_uuid(), name="s", inventories={"IPV4_ADDRESS": Inventory(total=9)},
        placement_aggregates=near, traits=frozenset({SHARING}),
    )  # fmt: skip
    await claims_service.ensure_providers(ledger, [*hosts, segment])
    server = RequestGroup(suffix="", resources={"VCPU": 1}, member_of=(near,))
    nic = RequestGroup(suffix="_0", resources={"IPV4_ADDRESS": 1}, member_of=(near,))
    query = CandidateQuery(groups=(server, nic), limit=3)
    (answer,) = await find_candidates(ledger, [query])
    assert [candidate.allocations for candidate in sorted(answer.candidates, key=lambda one: one.root_uuid)] == [
        {host.uuid: {"VCPU": 1}, segment.uuid: {"IPV4_ADDRESS": 1}} for host in sorted(hosts, key=lambda one: one.uuid)
    ]
    assert len((await match_candidates(ledger, query)).candidates) == settings.limit(3)
