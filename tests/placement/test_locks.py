"""Writers that could wait for each other in a circle, or see half of what another does: they take locks in one order.

PostgreSQL would end such a circle after a second, and the client be told that the database is away.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import msgspec
import pytest
from tests.blocked import until_blocked
from tests.invariants import ALWAYS

from roost.placement.errors import ProviderNotFound
from roost.placement.service import claims as claims_service
from roost.placement.service import names as names_service
from roost.placement.service import providers as providers_service
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.database import Database
from roost.platform.errors import BadRequest, Conflict, DatabaseUnavailable, LockTimeout, NotFound
from roost.seams.placement import ClaimGroup, ConsumerClaim, Inventory, ProviderState

ROUNDS = 12
FORESEEN = (Conflict, BadRequest, NotFound)

Write = Callable[[], Awaitable[object]]


@pytest.fixture
async def ledger(database: Database) -> Ledger:
    made = Ledger(database)
    await sync_standard_names(made)
    return made


def uuid_of(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def claim_on(consumer: int, *providers: str, name: str = "VCPU") -> ClaimGroup:
    return ClaimGroup(
        (
            ConsumerClaim(
                consumer_uuid=uuid_of(10_000 + consumer), generation=None, any_generation=True, consumer_type=None,
                project_id="p", user_id="u", allocations={provider: {name: 1} for provider in providers},
            ),
        )
    )  # fmt: skip


async def at_once(*writes: Write) -> None:
    """All of them at the same time, again and again; each is done or refused for a reason of its own."""
    for _ in range(ROUNDS):
        answers = await asyncio.gather(*(write() for write in writes), return_exceptions=True)
        wrong = [answer for answer in answers if isinstance(answer, Exception) and not isinstance(answer, FORESEEN)]
        assert not wrong, wrong


async def assert_trees_are_whole(ledger: Ledger) -> None:
    async with ledger.database.connection() as connection:
        assert await connection.fetch(ALWAYS["the root of a provider is not the top of its tree"]) == []


async def test_batches_of_new_providers_with_each_others_names(ledger: Ledger) -> None:
    numbers = iter(range(0, 40_000, 400))

    async def make(*names: str) -> None:
        """Many between the two names: the batches meet in the middle."""
        start = next(numbers)
        middle = [ProviderState(uuid=uuid_of(start + n), name=f"{start} {n}") for n in range(1, 399)]
        first, last = [
            ProviderState(uuid=uuid_of(start + n), name=name) for n, name in zip((0, 399), names, strict=True)
        ]
        try:
            await claims_service.ensure_providers(ledger, [first, *middle, last])
        finally:
            await claims_service.delete_providers(ledger, [uuid_of(start + n) for n in range(400)])

    await at_once(lambda: make("a", "b"), lambda: make("b", "a"))


async def test_one_new_provider_and_a_batch_with_its_uuid_its_name_and_its_parent(ledger: Ledger) -> None:
    parent = uuid_of(0)
    await claims_service.ensure_providers(ledger, [ProviderState(uuid=parent, name="parent")])
    batch = [ProviderState(uuid=uuid_of(n), name=f"child {10 - n}", parent_uuid=parent) for n in range(1, 10)]
    batch.append(ProviderState(uuid=parent, name="parent", inventories={"VCPU": Inventory(total=8)}))
    await at_once(
        lambda: claims_service.ensure_providers(ledger, batch),
        *(
            lambda n=n: providers_service.create_provider(
                ledger, uuid=uuid_of(n), name=f"child {n}", parent_uuid=parent
            )
            for n in (9, 5, 1)
        ),
        lambda: claims_service.claim(ledger, [claim_on(1, parent)]),
        lambda: claims_service.delete_providers(ledger, [uuid_of(n) for n in range(1, 10)]),
    )
    await assert_trees_are_whole(ledger)


async def test_providers_that_exchange_their_names(ledger: Ledger) -> None:
    await claims_service.ensure_providers(
        ledger, [ProviderState(uuid=uuid_of(number), name=name) for number, name in enumerate("ab")]
    )

    def rename(number: int, name: str) -> Write:
        return lambda: providers_service.update_provider(
            ledger, uuid_of(number), name=name, parent=None, may_reparent=True
        )

    await at_once(rename(0, "b"), rename(1, "a"), rename(0, "a"), rename(1, "b"))


async def test_resource_classes_that_exchange_their_names_while_others_use_them(ledger: Ledger) -> None:
    names = ["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"]
    hosts = [uuid_of(number) for number in range(2)]
    await claims_service.ensure_providers(
        ledger,
        [
            ProviderState(uuid=host, name=host, inventories={name: Inventory(total=90) for name in names})
            for host in hosts
        ],
    )

    def rename(name: str, new_name: str) -> Write:
        return lambda: names_service.rename_resource_class(ledger, name, new_name)

    def set_some(host: str, *chosen: str) -> Write:
        inventories = {name: Inventory(total=90) for name in chosen}
        return lambda: providers_service.set_inventories(ledger, host, inventories, generation=0)

    def ensure(host: str, *chosen: str) -> Write:
        state = ProviderState(uuid=host, name=host, inventories={name: Inventory(total=80) for name in chosen})
        return lambda: claims_service.ensure_providers(ledger, [state])

    await at_once(
        rename("CUSTOM_A", "CUSTOM_X"), rename("CUSTOM_X", "CUSTOM_A"), rename("CUSTOM_B", "CUSTOM_A"),
        rename("CUSTOM_A", "CUSTOM_B"), set_some(hosts[0], "CUSTOM_C"), ensure(hosts[1], "CUSTOM_X", "CUSTOM_A"),
        ensure(hosts[0], "CUSTOM_A", "CUSTOM_X"),
        lambda: providers_service.delete_inventory(ledger, hosts[1], "CUSTOM_A"),
        lambda: claims_service.claim(ledger, [claim_on(1, *hosts, name="CUSTOM_B")]),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
async def test_trees_that_move_below_each_other_while_they_grow_and_are_claimed(ledger: Ledger, seed: int) -> None:
    random = Random(seed)
    inventories = {"VCPU": Inventory(total=10_000)}
    providers = [uuid_of(number) for number in range(9)]
    parents = [None] * 3 + providers[:3] * 2
    states = [
        ProviderState(uuid=uuid, name=uuid, inventories=inventories, parent_uuid=parent)
        for uuid, parent in zip(providers, parents, strict=True)
    ]
    await claims_service.ensure_providers(ledger, states)
    numbers = iter(range(100, 10_000))

    async def move() -> None:
        uuid, parent = random.sample([*providers, None], 2)
        if uuid is not None:
            await providers_service.update_provider(ledger, uuid, name=uuid, parent=(parent,), may_reparent=True)

    async def create() -> None:
        uuid = uuid_of(next(numbers))
        await providers_service.create_provider(ledger, uuid=uuid, name=uuid, parent_uuid=random.choice(providers))

    async def ensure() -> None:
        uuid = uuid_of(next(numbers))
        parent = random.choice(providers)
        await claims_service.ensure_providers(ledger, [ProviderState(uuid=uuid, name=uuid, parent_uuid=parent)])

    async def claim() -> None:
        await claims_service.claim(ledger, [claim_on(random.randrange(5), *random.sample(providers, 5))])

    await at_once(move, move, move, create, ensure, claim, claim, claim)
    await assert_trees_are_whole(ledger)


async def test_a_parent_that_nobody_has_is_refused(ledger: Ledger) -> None:
    with pytest.raises(ProviderNotFound, match=uuid_of(7)):
        await claims_service.ensure_providers(
            ledger, [ProviderState(uuid=uuid_of(1), name="orphan", parent_uuid=uuid_of(7))]
        )


async def test_a_claim_that_another_statement_blocks_is_told_to_come_back_and_not_that_it_failed(dsn: str) -> None:
    """A deadlock with somebody who keeps no order, as an operator in psql, is no answer of 500."""
    database = await Database.open(dsn, lease_s=0.1)  # 5 s are waited for a lock
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    hosts = [uuid_of(number) for number in range(2)]
    await claims_service.ensure_providers(
        ledger, [ProviderState(uuid=host, name=host, inventories={"VCPU": Inventory(total=9)}) for host in hosts]
    )
    async with database.connection() as operator:
        await operator.execute("SET deadlock_timeout = '60s'")  # the other one finds it
        await operator.execute("SET idle_in_transaction_session_timeout = 0")
        await operator.execute("BEGIN")
        await operator.execute(f"SELECT FROM placement.provider WHERE uuid = '{hosts[1]}' FOR UPDATE")
        claiming = asyncio.create_task(claims_service.claim(ledger, [claim_on(1, *hosts)]))
        await until_blocked(database, 1)
        await operator.execute(f"SELECT FROM placement.provider WHERE uuid = '{hosts[0]}' FOR UPDATE")
        with pytest.raises(LockTimeout):
            await claiming
        await operator.execute("ROLLBACK")
    await claims_service.claim(ledger, [claim_on(1, *hosts)])
    await database.close()


async def test_old_consumers_with_new_ones_and_all_of_them_as_new(ledger: Ledger) -> None:
    """Who inserts what is there already waits for its updater; the updater must not wait in turn for a new one."""
    await claims_service.ensure_providers(
        ledger,
        [ProviderState(uuid=uuid_of(n), name=str(n), inventories={"VCPU": Inventory(total=10**6)}) for n in (1, 2)],
    )
    new, old = range(300), range(400, 700)

    async def claim(provider: int, *, look: bool, after: int) -> None:
        consumers = [claim_on(n, uuid_of(provider)).consumers[0] for n in (*new, *old)]
        group = ClaimGroup(tuple(msgspec.structs.replace(one, any_generation=look) for one in consumers))
        async with ledger.database.transaction() as tx:
            for _ in range(after):
                await tx.execute("SELECT 1")
            await claims_service._claim(ledger, tx, [group], look=look)

    for after in range(0, 60, 2):  # the second begins a little later each time
        await claims_service.release(ledger, [uuid_of(10_000 + n) for n in new])
        await claims_service.claim(ledger, [claim_on(n, uuid_of(1)) for n in old])
        both = claim(1, look=True, after=0), claim(2, look=False, after=after)
        answers = await asyncio.gather(*both, return_exceptions=True)
        assert not [one for one in answers if isinstance(one, DatabaseUnavailable)], answers
