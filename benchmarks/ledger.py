"""A ledger of a row's size on a private PostgreSQL of its own, with fsync on, and what is measured of it in process."""

import asyncio
import itertools
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from benchmarks.capacity import measure_capacity
from benchmarks.costs import PRELOADED, Meter, Stretch, prepare
from benchmarks.disk import temporary_directory
from benchmarks.machine import Measured, get_server
from benchmarks.rows import Kind, Row
from roost.cli.serving.roles import SCHEMAS
from roost.placement.search.answers import encode
from roost.placement.search.candidates import gather
from roost.placement.search.index import Index
from roost.placement.search.matching import find_in, match
from roost.placement.search.narrowing import make_plan
from roost.placement.search.query import decode_pairs, parse_candidates, read_candidates
from roost.placement.service import claims as claims_service
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.service.refresh import IndexRefresher
from roost.placement.settings import PlacementSettings
from roost.platform.database import Database
from roost.platform.migrate import upgrade
from roost.platform.postgres import PrivatePostgres
from roost.seams.placement import (
    SHARING,
    CandidateQuery,
    Claimed,
    ClaimGroup,
    ConsumerClaim,
    Inventory,
    ProviderState,
    RequestGroup,
)

HOST = {
    "VCPU": Inventory(total=64, allocation_ratio=16.0),
    "MEMORY_MB": Inventory(total=2**20, reserved=512),
    "DISK_GB": Inventory(total=20000),
}
ADDRESSES = {"IPV4_ADDRESS": Inventory(total=65000, max_unit=65000)}
SERVER = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10}
VERSION = (1, 39)
SEGMENTS_ASKED = 8
"""A search asks for an address from one of this many segments."""


@dataclass(frozen=True)
class World:
    """A ledger with a row's providers. hosts, segments, aggregates: UUIDs; host n is in aggregate n % segments."""

    row: Row
    ledger: Ledger
    hosts: Sequence[str]
    segments: Sequence[str]
    aggregates: Sequence[str]
    numbers: Iterator[int]
    stretches: list[Stretch]

    def groups(self, count: int) -> list[ClaimGroup]:
        """Claims of a server's three resources on the next host, and of its port's address on that host's segment."""
        made = []
        for number in itertools.islice(self.numbers, count):
            host, segment = number % len(self.hosts), number % len(self.hosts) % len(self.segments)
            server = _consumer("INSTANCE", {self.hosts[host]: SERVER})
            made.append(ClaimGroup((server, _consumer("PORT", {self.segments[segment]: {"IPV4_ADDRESS": 1}}))))
        return made

    async def claim(self, groups: Sequence[ClaimGroup]) -> None:
        """Claim them, all of them."""
        answers = await claims_service.claim(self.ledger, groups)
        assert len(answers) == len(groups)
        assert all(isinstance(answer, Claimed) for answer in answers)


def measure(row: Row) -> Measured:
    """Measure the row's figure once a round."""
    return asyncio.run(_measure(row))


async def _measure(row: Row) -> Measured:
    measurement = MEASUREMENTS[row.kind]
    async with _world(row) as world:
        async with world.ledger.database.connection() as connection:
            server = await get_server(connection)
        return Measured([await measurement(world) for _ in range(row.rounds)], world.stretches, server)


async def claims(world: World) -> float:
    """Groups per second; what was claimed is given back after the clock has stopped."""
    groups = world.groups(world.row.amount)
    async with meter_of(world.ledger.database).stretch(len(groups), "group") as stretch:
        for start in range(0, len(groups), world.row.batch):
            await world.claim(groups[start : start + world.row.batch])
    world.stretches.append(stretch)
    uuids = [claim.consumer_uuid for group in groups for claim in group.consumers]
    await claims_service.release(world.ledger, uuids)
    return len(groups) / stretch.seconds


async def index_load(world: World) -> float:
    """Seconds until a new process has its index."""
    started = time.perf_counter()
    index = await IndexRefresher(world.ledger.database).fresh()
    seconds = time.perf_counter() - started
    assert len(index) == world.row.hosts + world.row.segments
    return seconds


async def candidates(world: World) -> float:
    """Milliseconds for a search of a server with an address from one of eight segments."""
    index = await world.ledger.index.fresh()
    row = world.row
    queries = [
        CandidateQuery(groups=(RequestGroup(suffix="", resources=SERVER), _nic(world, n)), limit=row.batch)
        for n in range(row.amount)
    ]
    started = time.perf_counter()
    found = [find_in(index, query, start=n) for n, query in enumerate(queries)]
    seconds = time.perf_counter() - started
    assert all(len(one.candidates) == min(row.batch, row.hosts) for one in found)
    return seconds * 1000 / row.amount


async def answer(world: World) -> float:
    """Milliseconds from a query string, for a server on any host with room, to the body of its answer."""
    index = await world.ledger.index.fresh()
    limit = f"&limit={world.row.batch}" if world.row.batch else ""
    wanted = ",".join(f"{name}:{amount}" for name, amount in SERVER.items())
    return _answer(index, f"resources={wanted}{limit}", world.row, world.row.batch or world.row.hosts)


async def implied(world: World) -> float:
    """How many times the processor time of an answer it takes with an address of the host's segment in it.

    The query is what Nova asks for a server on a network of all segments.
    """
    index = await world.ledger.index.fresh()
    row, settings = world.row, PlacementSettings(implied_addresses=True)
    wanted = ",".join(f"{name}:{amount}" for name, amount in SERVER.items())
    text = f"resources={wanted}&member_of=in:{','.join(world.aggregates)}&limit={row.batch}"
    seconds = []
    for how in (PlacementSettings(), settings):
        started = time.process_time()
        for number in range(row.amount):
            matches = match(index, read_candidates(text.encode(), VERSION), how, start=number)
            body = encode(matches.index, matches.plan, matches.candidates, VERSION)
        seconds.append(time.process_time() - started)
        assert body.count(b'"mappings"') == row.batch
    assert body.count(b'{"IPV4_ADDRESS":1}') == row.batch
    return seconds[1] / seconds[0]


async def devices(world: World) -> float:
    """Milliseconds for six groups that are alike, each on one of eight devices of one host that are alike as well."""
    made = [
        ProviderState(
            uuid=_uuid(), name=f"device{n}", parent_uuid=world.hosts[0], inventories={"PGPU": Inventory(total=1)}
        )
        for n in range(8)
    ]
    await claims_service.ensure_providers(world.ledger, made)
    index = await world.ledger.index.fresh()
    groups = "".join(f"&resources{n}=PGPU:1" for n in range(1, 7))
    query = f"resources=VCPU:1{groups}&group_policy=isolate&limit={world.row.batch}"
    try:
        return _answer(index, query, world.row, world.row.batch)
    finally:
        await claims_service.delete_providers(world.ledger, [state.uuid for state in made])


def _answer(index: Index, query_string: str, row: Row, count: int) -> float:
    started = time.perf_counter()
    for _ in range(row.amount):
        query = parse_candidates(decode_pairs(query_string.encode()), VERSION)
        plan = make_plan(index, query)
        found = gather(index, plan, limit=query.limit)
        body = encode(index, plan, found, VERSION)
    seconds = time.perf_counter() - started
    assert body.count(b'"mappings"') == count
    return seconds * 1000 / row.amount


async def capacity(world: World) -> float:
    """Milliseconds to say how many servers fit on all segments, and in each of three zones."""
    index = await world.ledger.index.fresh()
    return measure_capacity(index, world.segments, addresses=world.row.batch, crossing=False)


async def capacity_crossing(world: World) -> float:
    """The same with a second NIC, on segments that cross the first ones."""
    index = await world.ledger.index.fresh()
    return measure_capacity(index, world.segments, addresses=world.row.batch, crossing=True)


async def refresh_idle(world: World) -> float:
    """Milliseconds of a refresh when nothing has changed."""
    await world.ledger.index.fresh()
    started = time.perf_counter()
    for _ in range(world.row.amount):
        await world.ledger.index.fresh()
    return (time.perf_counter() - started) * 1000 / world.row.amount


async def refresh_claim(world: World) -> float:
    """Milliseconds of a refresh after one claim on one host and one segment."""
    index = await world.ledger.index.fresh()
    seconds = 0.0
    for _ in range(world.row.amount):
        group = world.groups(1)[0]
        host = next(iter(group.consumers[0].allocations))
        await world.claim([group])
        row = index.row_by_uuid[host]
        used = index.used[row]["VCPU"]
        started = time.perf_counter()
        index = await world.ledger.index.fresh()
        seconds += time.perf_counter() - started
        assert index.used[row]["VCPU"] == used + 1
    return seconds * 1000 / world.row.amount


MEASUREMENTS: dict[Kind, Callable[[World], Awaitable[float]]] = {
    Kind.CLAIMS: claims,
    Kind.INDEX_LOAD: index_load,
    Kind.CANDIDATES: candidates,
    Kind.ANSWER: answer,
    Kind.IMPLIED: implied,
    Kind.CAPACITY: capacity,
    Kind.CAPACITY_CROSSING: capacity_crossing,
    Kind.DEVICES: devices,
    Kind.REFRESH_IDLE: refresh_idle,
    Kind.REFRESH_CLAIM: refresh_claim,
}


@asynccontextmanager
async def _world(row: Row) -> AsyncIterator[World]:
    async with private_database() as database:
        yield await _filled(row, Ledger(database))


@asynccontextmanager
async def private_database() -> AsyncIterator[Database]:
    """An empty database with every schema, on a PostgreSQL of its own that goes when the block ends.

    `ROOST_PG_TEMPLATE` names what its data directory begins as a copy of, as for `roost serve`.
    """
    template = os.environ.get("ROOST_PG_TEMPLATE")
    with temporary_directory() as directory:
        postgres = PrivatePostgres(directory, template=Path(template) if template else None, settings=PRELOADED)
        postgres.start()
        try:
            await prepare(postgres.socket_dir)
            await asyncio.to_thread(upgrade, postgres.dsn, SCHEMAS)  # migrations run a loop of their own
            database = await Database.open(postgres.dsn)
            try:
                yield database
            finally:
                await database.close()
        finally:
            postgres.stop()


def meter_of(database: Database) -> Meter:
    """Return what measures this process on a private database."""
    socket_dir = parse_qs(urlsplit(database.dsn).query)["host"][0]
    return Meter(Path(socket_dir), lambda: {os.getpid(): "benchmark"})


async def _filled(row: Row, ledger: Ledger) -> World:
    await sync_standard_names(ledger)
    hosts, segments = [_uuid() for _ in range(row.hosts)], [_uuid() for _ in range(row.segments)]
    aggregates = [_uuid() for _ in range(row.segments)]
    states = [
        ProviderState(
            uuid=host, name=f"host{n}", inventories=HOST, traits=frozenset({"HW_CPU_X86_AVX2"}),
            placement_aggregates=frozenset({aggregates[n % row.segments]}),
        )
        for n, host in enumerate(hosts)
    ]  # fmt: skip
    states += [
        ProviderState(
            uuid=segment, name=f"segment{n}", inventories=ADDRESSES, traits=frozenset({SHARING}),
            placement_aggregates=frozenset({aggregates[n]}),
        )
        for n, segment in enumerate(segments)
    ]  # fmt: skip
    await claims_service.ensure_providers(ledger, states)
    world = World(row, ledger, hosts, segments, aggregates, itertools.count(), [])
    await world.claim(world.groups(row.held))
    return world


def _nic(world: World, number: int) -> RequestGroup:
    size = min(SEGMENTS_ASKED, len(world.aggregates))
    chosen = frozenset(world.aggregates[(number + k) % len(world.aggregates)] for k in range(size))
    return RequestGroup(suffix="_nic0", resources={"IPV4_ADDRESS": 1}, member_of=(chosen,))


def _consumer(consumer_type: str, allocations: dict[str, dict[str, int]]) -> ConsumerClaim:
    return ConsumerClaim(
        consumer_uuid=_uuid(), generation=None, consumer_type=consumer_type, project_id="p", user_id="u",
        allocations=allocations,
    )  # fmt: skip


def _uuid() -> str:
    return str(uuid.uuid4())
