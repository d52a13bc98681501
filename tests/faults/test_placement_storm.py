"""Everything that writes to the ledger at once, on the same few providers: no write is lost, and nothing locks up.

ROOST_LEDGER_STORM_S makes the storm longer (60 is the real thing), ROOST_STORM_SEED gives it other choices.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from tests.cluster import Cluster
from tests.faults.conftest import LedgerServers
from tests.invariants import ALWAYS, NOTE_OVERCLAIMS
from tests.placement_client import Answer, PlacementClient, a_uuid, claim

from roost.placement.errors import ProviderNotFound
from roost.placement.service import claims as claims_service
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.database import Database
from roost.platform.errors import BadRequest, Conflict
from roost.seams.placement import ClaimGroup, ConsumerClaim, Inventory, ProviderState

STORM_S = float(os.environ.get("ROOST_LEDGER_STORM_S", "10"))
SEED = int(os.environ.get("ROOST_STORM_SEED", "1"))
PATIENCE_S = 100
"""How long a busy machine is waited for, beyond the time of the storm."""
CLIENTS = 16
STANDARD = ("VCPU", "MEMORY_MB", "IPV4_ADDRESS")
CUSTOM = ("CUSTOM_STORM_A", "CUSTOM_STORM_B", "CUSTOM_STORM_C")
TRAITS = ("CUSTOM_STORM_T", "CUSTOM_STORM_U", "HW_CPU_X86_AVX", "MISC_SHARES_VIA_AGGREGATE")
ALLOWED = {200, 201, 204, 400, 404, 409}

NOTE_GENERATIONS = """
CREATE FUNCTION audit.generation() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.generation < OLD.generation THEN
        INSERT INTO audit.broken VALUES ('a generation went back', OLD.id, OLD.generation, NEW.generation);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER audit BEFORE UPDATE ON placement.provider FOR EACH ROW EXECUTE FUNCTION audit.generation();
"""
WRITES = {
    "claim", "claim many", "move", "release", "inventories", "inventory", "add inventory", "drop inventory",
    "aggregates", "traits", "re-parent", "reshape", "create", "delete",
}  # fmt: skip
OVER_CAPACITY = "an inventory is over its capacity"
"""Of what always holds, what does not where a capacity may shrink below its use."""


async def test_a_storm_of_every_kind_of_write_loses_none_and_locks_nothing_up(
    ledger_cluster: Cluster, ledger_servers: LedgerServers, ledger_database: Database
) -> None:
    async with ledger_database.connection() as connection:
        await connection.execute(NOTE_OVERCLAIMS + NOTE_GENERATIONS)
    try:
        async with (
            PlacementClient.connect(ledger_servers.one) as one,
            PlacementClient.connect(ledger_servers.other) as other,
        ):
            storm = Storm((one, other), ledger_database)
            await storm.prepare()
            await storm.blow()
            log = (ledger_cluster.data_dir / "postgres" / "server.log").read_text()
            assert storm.broken == [], (storm.broken[:10], log[-6000:])
            assert storm.unwritten() == set(), "nobody succeeded with these"
            await storm.check()
        async with ledger_database.connection() as connection:
            assert await connection.fetch("SELECT * FROM audit.broken") == []
    finally:
        async with ledger_database.connection() as connection:
            await connection.execute("DROP SCHEMA audit CASCADE")
        await clear_up(ledger_database)


async def clear_up(database: Database) -> None:
    """Leave nothing over its capacity to the tests that come after this one on the same database."""
    ledger = Ledger(database)
    async with database.connection() as connection:
        consumers = [row[0] for row in await connection.fetch("SELECT uuid FROM placement.consumer")]
        providers = [row[0] for row in await connection.fetch("SELECT uuid FROM placement.provider")]
    await claims_service.release(ledger, consumers)
    while len(left := await claims_service.delete_providers(ledger, providers)) < len(providers):
        providers = left  # parents go when their children are gone
    assert providers == []


class Storm:
    """Clients with their own consumers and everybody's providers, each request to one worker or the other."""

    def __init__(self, clients: tuple[PlacementClient, PlacementClient], database: Database) -> None:
        self.clients = clients
        self.ledger = Ledger(database)
        self.lasting: list[str] = []
        self.passing = [a_uuid() for _ in range(4)]
        self.shared = [a_uuid() for _ in range(4)]
        self.accepted: Counter[tuple[str, int]] = Counter()
        self.answered: Counter[tuple[str, int]] = Counter()
        self.broken: list[Any] = []
        self.owners: list[Client] = []
        self.over_at = 0.0

    async def prepare(self) -> None:
        """The providers that stay, and everybody who is about to use them."""
        await sync_standard_names(self.ledger)
        for name in ("tree a", "tree b", "tree c", "segment"):
            self.lasting.append(await self.clients[0].provider(f"storm {name}", **dict.fromkeys(STANDARD, 60)))
        for parent in self.lasting[:2]:
            self.lasting.append(await self.clients[0].provider(f"storm child of {parent}", parent, VCPU=30))
        self.owners = [Client(self, Random(SEED * 1000 + number)) for number in range(CLIENTS)]

    async def blow(self) -> None:
        """For STORM_S, and on a busy machine until each kind of write has succeeded once."""
        self.over_at = time.monotonic() + STORM_S
        async with asyncio.TaskGroup() as group:
            for owner in self.owners:
                group.create_task(owner.work())
            group.create_task(self._look())
            group.create_task(self._ensure())

    def goes_on(self) -> bool:
        """Whether it is not over yet."""
        left_s = self.over_at - time.monotonic()
        return left_s > 0 or (left_s > -PATIENCE_S and not self.broken and self.unwritten() != set())

    def unwritten(self) -> set[str]:
        """The kinds of write that have not succeeded yet."""
        return WRITES - {what for what, status in self.answered if status < 300}

    async def call(
        self, client: PlacementClient, what: str, method: str, path: str, body: Any = None, **more: Any
    ) -> Answer:
        """One request, whose answer must be one that the API foresees."""
        answer = await client.call(method, path, body, **more)
        self.answered[what, answer.status] += 1
        if answer.status not in ALLOWED:
            self.broken.append((what, method, path, body, answer.status, answer.body))
        return answer

    def note(self, provider: str, generation: int) -> None:
        """A write that said "based on this generation" was accepted: nobody else may have been, from the same one."""
        self.accepted[provider, generation] += 1
        if provider in self.lasting and self.accepted[provider, generation] > 1:
            self.broken.append(("two writes from one generation", provider, generation))

    async def _look(self) -> None:
        """Generations as one client sees them, asking the one worker and then the other: they only grow."""
        seen: dict[str, int] = {}
        while self.goes_on():
            for number, provider in enumerate(self.lasting * 2):
                client = self.clients[number % 2]
                answer = await self.call(client, "look", "GET", f"/resource_providers/{provider}")
                generation = answer.body["generation"]
                if generation < seen.get(provider, 0):
                    self.broken.append(("a generation went back", provider, seen[provider], generation))
                seen[provider] = generation

    async def _ensure(self) -> None:
        """What Roost's own services do, in a process of their own: many providers at once, many groups at once."""
        random = Random(SEED)
        while self.goes_on():
            states = [self._state(random, uuid) for uuid in random.sample(self.passing, 3)]
            groups = [
                ClaimGroup((_plain_claim(random.choice(self.shared), random.choice(self.lasting)),)) for _ in range(4)
            ]
            try:
                await asyncio.gather(
                    claims_service.ensure_providers(self.ledger, states),
                    claims_service.claim(self.ledger, groups),
                    claims_service.delete_providers(self.ledger, random.sample(self.passing, 2)),
                    claims_service.release(self.ledger, random.sample(self.shared, 2)),
                    claims_service.set_placement_aggregates(
                        self.ledger,
                        {uuid: frozenset(random.sample(self.shared, 1)) for uuid in random.sample(self.lasting, 2)},
                        managed=frozenset(self.shared),
                    ),
                )
            except (Conflict, BadRequest, ProviderNotFound):
                pass
            except Exception as error:
                self.broken.append(("services", repr(error)))

    def _state(self, random: Random, uuid: str) -> ProviderState:
        return ProviderState(
            uuid=uuid,
            name=f"storm passing {random.randrange(8)}",
            parent_uuid=random.choice([None, *self.lasting]),
            inventories={
                name: Inventory(total=random.randrange(1, 30)) for name in random.sample([*CUSTOM, "VCPU"], 2)
            },
            traits=frozenset(random.sample(TRAITS, 2)),
        )

    async def check(self) -> None:
        """After the storm: the database, both indexes and every client's own books agree; nobody ever locked up."""
        problems = []
        async with self.ledger.database.transaction(snapshot=True) as tx:
            for what, query in ALWAYS.items():
                rows = [] if what == OVER_CAPACITY else await tx.fetch(query)
                problems += [f"{what}: {dict(row)}" for row in rows[:5]]
        assert not problems, "\n".join(problems)
        async with self.ledger.database.connection() as connection:
            deadlocks = await connection.fetchval(
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            )
        assert deadlocks == 0
        for client in self.clients:
            for owner in self.owners:
                for consumer, (generation, held) in owner.consumers.items():
                    found = await client.do("GET", f"/allocations/{consumer}")
                    kept = {uuid: line["resources"] for uuid, line in found["allocations"].items()}
                    assert (kept, found.get("consumer_generation")) == (held, generation), consumer
        first, second = [await client.everything() for client in self.clients]
        assert first == second


def _plain_claim(consumer: str, provider: str) -> ConsumerClaim:
    return ConsumerClaim(
        consumer_uuid=consumer, generation=None, any_generation=True, consumer_type="INSTANCE", project_id="p",
        user_id="u", allocations={provider: {"VCPU": 1}},
    )  # fmt: skip


class Client:
    """One client: what it was told that its consumers hold is what they hold, for nobody else writes them.

    consumers: UUID -> (generation, None for nothing held; provider -> resources).
    """

    def __init__(self, storm: Storm, random: Random) -> None:
        self.storm, self.random = storm, random
        self.consumers: dict[str, tuple[int | None, dict[str, dict[str, int]]]] = {}

    async def work(self) -> None:
        """Do one thing after another."""
        own: list[Callable[[], Awaitable[None]]] = [self.take, self.take_many, self.move, self.release, self.release]
        shapes = [
            self.set_inventories, self.set_inventory, self.add_inventory, self.drop_inventory, self.set_aggregates,
            self.set_traits, self.reparent, self.reshape, self.create, self.delete, self.names, self.take_shared,
        ]  # fmt: skip
        while self.storm.goes_on():
            await self.random.choice(own if self.random.random() < 0.5 else shapes)()

    async def call(self, what: str, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        """To one of the workers."""
        return await self.storm.call(self.random.choice(self.storm.clients), what, method, path, body, **more)

    def any_provider(self) -> str:
        """One that stays, or one that comes and goes."""
        return self.random.choice(self.storm.lasting * 2 + self.storm.passing)

    def wish(self) -> dict[str, dict[str, int]]:
        """Some units of some providers that stay."""
        chosen = self.random.sample(self.storm.lasting, self.random.randrange(1, 4))
        return {uuid: {"VCPU": self.random.randrange(1, 4)} for uuid in chosen}

    # Claims.

    async def take(self) -> None:
        known = list(self.consumers)
        consumer = self.random.choice(known) if known and self.random.random() < 0.5 else a_uuid()
        generation, _ = self.consumers.get(consumer, (None, {}))
        wish = self.wish()
        answer = await self.call("claim", "PUT", f"/allocations/{consumer}", claim(wish, generation))
        if answer.status == 204:
            self.consumers[consumer] = ((generation or 0) + 1, wish)

    async def take_many(self) -> None:
        known = self.random.sample(list(self.consumers), min(2, len(self.consumers)))
        wishes = {consumer: self.wish() for consumer in (*known, a_uuid())}
        await self._post("claim many", wishes)

    async def move(self) -> None:
        """As a migration does: another consumer holds what one held, which gets something else or nothing."""
        holders = [consumer for consumer, (_, held) in self.consumers.items() if held]
        if holders:
            source = self.random.choice(holders)
            wishes = {a_uuid(): self.consumers[source][1], source: self.random.choice([{}, self.wish()])}
            await self._post("move", wishes)

    async def _post(self, what: str, wishes: dict[str, dict[str, dict[str, int]]]) -> None:
        generations = {consumer: self.consumers.get(consumer, (None, {}))[0] for consumer in wishes}
        body = {consumer: claim(wish, generations[consumer]) for consumer, wish in wishes.items()}
        answer = await self.call(what, "POST", "/allocations", body)
        if answer.status == 204:
            for consumer, wish in wishes.items():
                self.consumers[consumer] = ((generations[consumer] or 0) + 1 if wish else None, wish)

    async def release(self) -> None:
        if self.consumers:
            consumer = self.random.choice(list(self.consumers))
            answer = await self.call("release", "DELETE", f"/allocations/{consumer}")
            if (answer.status == 204) != bool(self.consumers[consumer][1]):
                self.storm.broken.append(("release", consumer, answer.status, self.consumers[consumer]))
            self.consumers[consumer] = (None, {})

    async def take_shared(self) -> None:
        """Consumers that everybody writes, with whatever there is of whatever provider."""
        consumer = self.random.choice(self.storm.shared)
        if self.random.random() < 0.3:
            await self.call("release shared", "DELETE", f"/allocations/{consumer}")
            return
        seen = (await self.call("look", "GET", f"/allocations/{consumer}")).body
        wish = {self.any_provider(): {self.random.choice([*CUSTOM, *STANDARD]): 1} for _ in range(3)}
        body = claim(wish, seen.get("consumer_generation"))
        await self.call("claim shared", "PUT", f"/allocations/{consumer}", body)

    # What providers have.

    async def seen(self, provider: str) -> tuple[int, dict[str, Any]] | None:
        """Its generation and inventories; sometimes not the latest, as a slow client has them."""
        answer = await self.call("look", "GET", f"/resource_providers/{provider}/inventories")
        if answer.status != 200:
            return None
        return answer.body["resource_provider_generation"], answer.body["inventories"]

    def inventory(self) -> dict[str, Any]:
        """Of any size, also below what is in use."""
        return {"total": self.random.choice([20, 100, 300]), "reserved": self.random.randrange(3), "max_unit": 300}

    def wanted(self) -> dict[str, Any]:
        """Inventories, mostly with what is in use."""
        names = {"VCPU", *self.random.sample([*STANDARD, *CUSTOM], self.random.randrange(4))}
        return {name: self.inventory() for name in names}

    async def set_inventories(self) -> None:
        provider = self.any_provider()
        if seen := await self.seen(provider):
            body = {"resource_provider_generation": seen[0], "inventories": self.wanted()}
            answer = await self.call("inventories", "PUT", f"/resource_providers/{provider}/inventories", body)
            if answer.status == 200:
                self.storm.note(provider, seen[0])

    async def set_inventory(self) -> None:
        provider = self.any_provider()
        if (seen := await self.seen(provider)) and seen[1]:
            name = self.random.choice(list(seen[1]))
            body = {"resource_provider_generation": seen[0], **self.inventory()}
            path = f"/resource_providers/{provider}/inventories/{name}"
            answer = await self.call("inventory", "PUT", path, body)
            if answer.status == 200:
                self.storm.note(provider, seen[0])

    async def add_inventory(self) -> None:
        body = {"resource_class": self.random.choice([*STANDARD, *CUSTOM]), **self.inventory()}
        await self.call("add inventory", "POST", f"/resource_providers/{self.any_provider()}/inventories", body)

    async def drop_inventory(self) -> None:
        path = f"/resource_providers/{self.any_provider()}/inventories"
        if self.random.random() < 0.8:
            path += f"/{self.random.choice([*STANDARD[1:], *CUSTOM])}"
        await self.call("drop inventory", "DELETE", path)

    async def set_aggregates(self) -> None:
        provider = self.any_provider()
        aggregates = self.random.sample(self.storm.shared, 2)
        if self.random.random() < 0.3:
            path = f"/resource_providers/{provider}/aggregates"
            await self.call("aggregates", "PUT", path, aggregates, version="1.18")
        elif seen := await self.seen(provider):
            body = {"resource_provider_generation": seen[0], "aggregates": aggregates}
            answer = await self.call("aggregates", "PUT", f"/resource_providers/{provider}/aggregates", body)
            if answer.status == 200:
                self.storm.note(provider, seen[0])

    async def set_traits(self) -> None:
        provider = self.any_provider()
        if seen := await self.seen(provider):
            traits = self.random.sample(TRAITS, self.random.randrange(3))
            body = {"resource_provider_generation": seen[0], "traits": traits}
            answer = await self.call("traits", "PUT", f"/resource_providers/{provider}/traits", body)
            # The traits that it has already are no write, and raise no generation.
            if answer.status == 200 and answer.body["resource_provider_generation"] > seen[0]:
                self.storm.note(provider, seen[0])

    async def reparent(self) -> None:
        provider = self.any_provider()
        found = await self.call("look", "GET", f"/resource_providers/{provider}")
        if found.status == 200:
            parent = self.random.choice([None, self.any_provider(), self.any_provider()])
            name = found.body["name"]
            if self.random.random() < 0.3:
                name = f"storm passing {self.random.randrange(8)}"
            body = {"name": name, "parent_provider_uuid": parent}
            await self.call("re-parent", "PUT", f"/resource_providers/{provider}", body)

    async def reshape(self) -> None:
        """Other inventories for some providers, and other holdings for some of the client's own consumers."""
        shapes = {}
        for provider in {self.any_provider() for _ in range(2)}:
            if seen := await self.seen(provider):
                kept = seen[1] if self.random.random() < 0.7 else {}  # what is in use may not go
                inventories = {**kept, **self.wanted()}
                shapes[provider] = {"resource_provider_generation": seen[0], "inventories": inventories}
        chosen = self.random.sample(list(self.consumers), min(2, len(self.consumers)))
        wishes = {consumer: self.wish() for consumer in (*chosen, a_uuid())}
        generations = {consumer: self.consumers.get(consumer, (None, {}))[0] for consumer in wishes}
        allocations = {consumer: claim(wish, generations[consumer]) for consumer, wish in wishes.items()}
        answer = await self.call("reshape", "POST", "/reshaper", {"inventories": shapes, "allocations": allocations})
        if answer.status == 204:
            for provider, shape in shapes.items():
                self.storm.note(provider, shape["resource_provider_generation"])
            for consumer, wish in wishes.items():
                self.consumers[consumer] = ((generations[consumer] or 0) + 1, wish)

    async def create(self) -> None:
        body = {"uuid": self.random.choice(self.storm.passing), "name": f"storm passing {self.random.randrange(8)}"}
        if self.random.random() < 0.7:
            body["parent_provider_uuid"] = self.random.choice(self.storm.lasting + self.storm.passing)
        await self.call("create", "POST", "/resource_providers", body)

    async def delete(self) -> None:
        await self.call("delete", "DELETE", f"/resource_providers/{self.random.choice(self.storm.passing)}")

    async def names(self) -> None:
        """Custom names come, go and change."""
        name = self.random.choice(CUSTOM)
        match self.random.randrange(5):
            case 0:
                await self.call("make class", "PUT", f"/resource_classes/{name}")
            case 1:
                await self.call("delete class", "DELETE", f"/resource_classes/{name}")
            case 2:
                other = {"name": self.random.choice(CUSTOM)}
                await self.call("rename class", "PUT", f"/resource_classes/{name}", other, version="1.2")
            case 3:
                await self.call("make trait", "PUT", f"/traits/{self.random.choice(TRAITS[:2])}")
            case _:
                await self.call("delete trait", "DELETE", f"/traits/{self.random.choice(TRAITS[:2])}")
