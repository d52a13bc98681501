"""Addresses that an unmodified Nova claims without knowing: which it is offered, which stay where they are."""

import asyncio
import time
from random import Random

import numpy as np
import pytest
import structlog
from hypothesis import given
from msgspec.structs import replace
from tests.blocked import until_blocked
from tests.placement.calls import Api
from tests.placement.nova import Nova, a_segment, clause, publish
from tests.placement.providers import a_uuid
from tests.placement.worlds import RANDOM, host, provider

from roost.placement.model import InventoryRow, LockedLedger, ProviderRow
from roost.placement.rules.implied import (
    count_nics,
    find_short_segments,
    keep_addresses,
    keep_all_addresses,
    with_whole_units,
)
from roost.placement.search.candidates import amounts_of, gather
from roost.placement.search.funnel import explain
from roost.placement.search.implied import (
    add_addresses,
    find_nics,
    find_only_segments,
    imply,
    list_uncounted,
    names_uncounted,
    share_hosts,
)
from roost.placement.search.index import Delta, Index
from roost.placement.search.narrowing import make_plan
from roost.placement.service.claims import ensure_providers
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.settings import PlacementSettings
from roost.platform.database import Database
from roost.platform.request_ids import RequestIds
from roost.platform.request_log import RequestLog
from roost.platform.settings import LogSettings
from roost.seams.neutron import NeutronPort
from roost.seams.placement import (
    IPV4_ADDRESS,
    VCPU,
    Allocations,
    CandidateQuery,
    ClaimGroup,
    ConsumerClaim,
    Inventory,
    ProviderState,
    Refused,
    RequestGroup,
    Requirement,
    Rule,
    Shortfall,
)

CUSTOM_HALF = "CUSTOM_HALF"
WHOLE = frozenset({IPV4_ADDRESS})


@pytest.fixture
async def ledger(database: Database) -> Ledger:
    opened = Ledger(database, settings=PlacementSettings(implied_addresses=True))
    await sync_standard_names(opened)
    return opened


@pytest.fixture
def nova(ledger: Ledger) -> Nova:
    return Nova(Api(ledger))


def a_segment_row(number: int, *aggregates: str, free: int, network: str | None = None) -> ProviderRow:
    """A segment as Neutron makes it: one address at once, no trait."""
    inventory = Inventory(free + 1, 1, 1, 1)
    return provider(
        number, totals={IPV4_ADDRESS: inventory}, placement_aggregates=frozenset(aggregates), network_id=network
    )


def index_of(*providers: ProviderRow) -> Index:
    index = Index(whole_classes=WHOLE)
    index.apply(Delta(providers=providers))
    return index


def query_of(*clauses: str, limit: int = 0) -> CandidateQuery:
    member_of = tuple(frozenset(aggregates) for aggregates in clauses)
    return CandidateQuery(groups=(RequestGroup(suffix="", resources={VCPU: 1}, member_of=member_of),), limit=limit)


def offered(index: Index, query: CandidateQuery, *, hosts_per_address: int = 0) -> dict[str, dict[str, int]]:
    """Host -> the addresses that its candidate takes, by segment."""
    plan = make_plan(index, query)
    nics = find_nics(index, query)
    implied = imply(index, nics, plan.viable, hosts_per_address=hosts_per_address, limit=query.limit)
    gathered = gather(index, plan.__class__(**{**_fields(plan), "viable": implied.viable}), limit=query.limit)
    whole, candidates = add_addresses(index, plan, gathered, implied)
    return {
        index.uuids[match.root]: {
            index.uuids[row]: amounts[IPV4_ADDRESS]
            for row, amounts in amounts_of(whole, match.rows).items()
            if IPV4_ADDRESS in amounts
        }
        for match in candidates.all()
    }


def _fields(plan: object) -> dict[str, object]:
    return {name: getattr(plan, name) for name in plan.__struct_fields__}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        pytest.param(("ab",), {"p1": {"p11": 1}, "p2": {"p12": 1}}, id="one NIC, each host on its segment"),
        pytest.param(("ab", "ab"), {"p2": {"p12": 2}}, id="two NICs on one network take two of one segment"),
        pytest.param(("abc",), {"p1": {"p11": 1}, "p2": {"p12": 1}}, id="hosts of a dry segment are left out"),
        pytest.param(("z",), {"p4": {}}, id="an aggregate of no segment is left alone"),
        pytest.param(("c",), {}, id="all dry"),
        pytest.param(("n",), {"p5": {}}, id="fewer segments than the network has: a port that has its address"),
        pytest.param(("nm",), {"p5": {"p14": 1}, "p6": {"p15": 1}}, id="all segments of a known network"),
        pytest.param(("q",), {"p8": {"p18": 1}}, id="a network's only segment, although it is full: for who moves"),
        pytest.param(("q", "q"), {"p8": {"p18": 2}}, id="with two NICs too"),
        pytest.param(("xy",), {"p7": {"p17": 1}}, id="a host on two segments takes the emptier one"),
        pytest.param(("xy", "xy"), {"p7": {"p17": 2}}, id="twice"),
        pytest.param(("xy",) * 4, {"p7": {"p17": 3, "p16": 1}}, id="and what is left of both"),
        pytest.param(("xy",) * 5, {}, id="and not more"),
    ],
)
def test_each_nic_takes_an_address_of_its_hosts_segment(clauses: tuple[str, ...], expected: object) -> None:
    index = index_of(
        host(1, "a"), host(2, "b"), host(3, "c"), host(4, "z"), host(5, "n"), host(6, "m"), host(7, "x", "y"),
        a_segment_row(11, "a", free=1), a_segment_row(12, "b", free=2), a_segment_row(13, "c", free=0),
        a_segment_row(14, "n", free=1, network="N"), a_segment_row(15, "m", free=1, network="N"),
        a_segment_row(16, "x", free=1), a_segment_row(17, "y", free=3),
        host(8, "q"), a_segment_row(18, "q", free=0, network="Q"),
    )  # fmt: skip
    assert offered(index, query_of(*clauses)) == expected


def test_what_is_known_of_segments_follows_the_index() -> None:
    rows = [host(1, "a"), host(2, "b"), a_segment_row(11, "a", free=1), a_segment_row(12, "b", free=1)]
    index = index_of(*rows)
    assert offered(index, query_of("ab")) == {"p1": {"p11": 1}, "p2": {"p12": 1}}
    index.apply(Delta(providers=[a_segment_row(11, "a", free=1, network="N")]))
    index.apply(Delta(providers=[a_segment_row(12, "b", free=1, network="N")]))
    assert offered(index, query_of("a")) == {"p1": {}}, "the network is known now"
    index.apply(Delta(providers=[host(1, "b")]))
    assert offered(index, query_of("ab")) == {"p1": {"p12": 1}, "p2": {"p12": 1}}, "a host moved"
    index.apply(Delta(providers=[provider(12, placement_aggregates=frozenset({"b"}))]))
    assert offered(index, query_of("b")) == {"p1": {}, "p2": {}}, "an inventory went"
    index.apply(Delta(deleted=[11]))
    assert offered(index, query_of("ab")) == {"p1": {}, "p2": {}}


def test_only_segments_are_those_whose_network_has_no_other() -> None:
    first, second = (a_segment_row(number, "a", free=1, network="N") for number in (11, 12))
    others = [a_segment_row(13, "b", free=1, network="M"), a_segment_row(14, "c", free=1), host(1, "a")]
    index = index_of(first, *others)
    assert find_only_segments(index, ["p11", "p13", "p14", "p1", "p99"]) == {"N": "p11", "M": "p13"}
    index.apply(Delta(providers=[second]))
    assert find_only_segments(index, ["p11"]) == {}


@pytest.mark.parametrize(
    ("free", "hosts", "per_address", "limit", "expected"),
    [
        pytest.param([5, 100], [40, 40], 0, 0, [40, 40], id="no bound"),
        pytest.param([5], [40], 4, 0, [20], id="so many for each address"),
        pytest.param([5, 1000], [40, 20], 4, 0, [1, 20], id="a segment about to be dry, beside plenty"),
        pytest.param([50, 1000], [40, 20], 4, 0, [40, 20], id="more addresses than hosts are no danger"),
        pytest.param([100, 300], [100, 100], 4, 40, [10, 30], id="by free addresses, where the limit binds"),
        pytest.param([1, 1, 1], [9, 9, 9], 4, 2, [1, 1, 1], id="one of each is left"),
        pytest.param([], [], 4, 10, [], id="none"),
    ],
)
def test_hosts_are_shared_out_by_free_addresses(
    free: list[int], hosts: list[int], per_address: int, limit: int, expected: list[int]
) -> None:
    share = share_hosts(np.array(free, np.int64), np.array(hosts, np.int64), hosts_per_address=per_address, limit=limit)
    assert share.tolist() == expected


@given(RANDOM)
def test_every_offer_can_be_claimed_and_no_host_is_forgotten(random: Random) -> None:
    """Compared with asking every host: which segments of each clause it is on, and what is free."""
    aggregates = "abcd"
    hosts = [host(n, *(a for a in aggregates if random.random() < 0.4)) for n in range(1, 9)]
    free = {a: random.randint(0, 3) for a in aggregates}
    index = index_of(*hosts, *(a_segment_row(20 + n, a, free=free[a]) for n, a in enumerate(aggregates)))
    clauses = tuple("".join(random.sample(aggregates, random.randint(1, 3))) for _ in range(random.randint(1, 2)))
    answers = offered(index, query_of(*clauses))
    for row in hosts:
        ways = [[]]
        for one in clauses:
            ways = [[*way, a] for way in ways for a in sorted(row.placement_aggregates.intersection(one))]
        possible = [way for way in ways if all(way.count(a) <= free[a] for a in way)]
        single = all(len(row.placement_aggregates.intersection(one)) <= 1 for one in clauses)
        if row.uuid in answers:
            taken = sorted(
                a for a, n in ((aggregates[int(s[1:]) - 20], n) for s, n in answers[row.uuid].items()) for _ in range(n)
            )
            assert taken in [sorted(way) for way in possible]
        elif single or len(clauses) == 1:
            assert not possible
    bounded = offered(index, query_of(*clauses), hosts_per_address=1)
    assert bounded.keys() <= answers.keys()
    assert bool(bounded) == bool(answers)


def test_a_funnel_ends_with_the_addresses() -> None:
    hosts = (host(number, aggregate) for number, aggregate in ((1, "a"), (2, "b"), (3, "c")))
    index = index_of(*hosts, a_segment_row(11, "a", free=1), a_segment_row(12, "b", free=0))
    query = query_of("ab")
    last, step = explain(index, query, find_nics(index, query)).steps[-2:]
    assert (step.requirement, step.amount) == (Requirement.ADDRESSES, 1)
    assert (last.hosts_left, step.hosts_left) == (2, 1)
    assert step.describe() == "1 IPV4_ADDRESS free on the host's segments of the networks asked for"


# Claims.


def claim(uuid: str, allocations: Allocations) -> ConsumerClaim:
    return ConsumerClaim(
        consumer_uuid=uuid, generation=1, consumer_type=None, project_id="p", user_id="u", allocations=allocations
    )


HOST, OTHER = {"h1": {VCPU: 1}}, {"h2": {VCPU: 1}}
MOVE = claim("s", {**OTHER, "a": {IPV4_ADDRESS: 1}})
NIC = NeutronPort(
    id="p", network_id="n", device_id="s", device_owner="compute:nova", addresses=(("x", "10.0.0.7"),)
)  # fmt: skip


def ips(**amounts: int) -> dict[str, dict[str, int]]:
    return {segment: {IPV4_ADDRESS: amount} for segment, amount in amounts.items()}


@pytest.mark.parametrize(
    ("asked", "held", "expected"),
    [
        pytest.param({"s": {**HOST, **ips(a=1)}}, {}, {"s": {**HOST, **ips(a=1)}}, id="a boot"),
        pytest.param({"s": {}}, {"s": {"a": 1}}, {"s": {}}, id="a release"),
        pytest.param(
            {"s": {}, "m": {**HOST, **ips(a=2)}}, {"s": {"a": 2}}, {"s": ips(a=2), "m": HOST}, id="to a migration"
        ),
        pytest.param({"s": HOST, "m": {}}, {"s": {"a": 1}}, {"s": {**HOST, **ips(a=1)}, "m": {}}, id="back again"),
        pytest.param(
            {"s": {**HOST, **ips(a=1)}, "m": {}}, {"m": {"a": 1}}, {"s": HOST, "m": ips(a=1)},
            id="an import left one with a migration",
        ),
        pytest.param({"s": OTHER}, {"s": {"a": 1}}, {"s": {**OTHER, **ips(a=1)}}, id="without the old host"),
        pytest.param({"s": {**OTHER, **ips(a=1)}}, {"s": {"a": 2}}, {"s": {**OTHER, **ips(a=2)}}, id="fewer"),
        pytest.param({"s": {**HOST, **ips(a=3)}}, {"s": {"a": 1}}, {"s": {**HOST, **ips(a=3)}}, id="more"),
    ],
)  # fmt: skip
def test_addresses_stay_with_their_server(
    asked: dict[str, Allocations], held: dict[str, dict[str, int]], expected: dict[str, Allocations]
) -> None:
    group = ClaimGroup(tuple(claim(uuid, allocations) for uuid, allocations in asked.items()), addresses_stay=True)
    kept = keep_addresses(group, held, {})
    assert {one.consumer_uuid: one.allocations for one in kept.consumers} == expected


def test_a_server_takes_over_what_its_ports_claim() -> None:
    group = ClaimGroup((claim("s", {**HOST, **ips(a=2)}),), addresses_stay=True)
    ports = [claim(name, {}) for name in ("p1", "p2", "p3")]
    held = {"p1": {"b": 1}, "p2": {"a": 1}, "p3": {"a": 2}}
    kept = keep_addresses(group, held, {"s": ports})
    assert [one.consumer_uuid for one in kept.consumers] == ["s", "p2"], "whole claims of the same segment, as it asks"
    assert kept.consumers[1].allocations == {}


def test_nics_that_have_an_address_add_nothing_and_their_ports_keep_what_they_claim() -> None:
    group = ClaimGroup((claim("s", {**OTHER, **ips(a=4, b=1)}),), addresses_stay=True, nics_addressed={"a": 3})
    held = {"s": {"a": 1}, "p": {"a": 1}, "q": {"b": 1}}
    kept = keep_addresses(group, held, {"s": [claim("p", {}), claim("q", {})]})
    assert kept.consumers[0].allocations == {**OTHER, **ips(a=2, b=1)}, "one NIC of four has none yet"
    assert [one.consumer_uuid for one in kept.consumers] == ["s", "q"], "of the segment that was not asked for"


SHORT = Shortfall(rule=Rule.CAPACITY, consumer_uuid="s", provider_uuid="a", resource_class=IPV4_ADDRESS, requested=1)


@pytest.mark.parametrize(
    ("group", "shortfalls", "expected"),
    [
        pytest.param((MOVE,), (SHORT,), {"a"}, id="a move"),
        pytest.param((MOVE,), (SHORT, replace(SHORT, provider_uuid="b")), {"a", "b"}, id="on two networks"),
        pytest.param((replace(MOVE, generation=None),), (SHORT,), set(), id="a boot"),
        pytest.param((MOVE, MOVE), (SHORT,), set(), id="several consumers"),
        pytest.param((MOVE,), (SHORT, replace(SHORT, resource_class=VCPU)), set(), id="short of CPU too"),
        pytest.param((MOVE,), (replace(SHORT, rule=Rule.NO_INVENTORY),), set(), id="no segment any more"),
    ],
)
def test_neutron_is_asked_of_servers_that_move_and_are_short_of_addresses_alone(
    group: tuple[ConsumerClaim, ...], shortfalls: tuple[Shortfall, ...], expected: set[str]
) -> None:
    assert find_short_segments(ClaimGroup(group, addresses_stay=True), Refused(shortfalls)) == expected
    assert find_short_segments(ClaimGroup(group), Refused(shortfalls)) == set()


@pytest.mark.parametrize(
    ("port", "nics"),
    [
        pytest.param(NIC, 2, id="another NIC"),
        pytest.param(replace(NIC, addresses=(("x", "10.0.0.9"), ("x", "10.0.0.8"))), 2, id="two addresses of a NIC"),
        pytest.param(replace(NIC, addresses=()), 1, id="without an address"),
        pytest.param(replace(NIC, addresses=(("x", "2001:db8::9"),)), 1, id="IPv6"),
        pytest.param(replace(NIC, network_id="m"), 1, id="of another network"),
        pytest.param(replace(NIC, device_id="t"), 1, id="of another server"),
        pytest.param(replace(NIC, device_owner="network:dhcp"), 1, id="of no server"),
    ],
)
def test_nics_are_ports_of_the_server_with_an_address_on_the_segment(port: NeutronPort, nics: int) -> None:
    assert count_nics([NIC, port], "s", {"n": "a"}) == {"a": nics}


def test_ports_are_found_among_the_locked() -> None:
    ledger = LockedLedger({"a": 1}, {IPV4_ADDRESS: 7}, {(1, 7): InventoryRow(9, 1, 1, 1, 0)}, {})
    group = ClaimGroup((claim("s", ips(a=1)),))
    assert keep_all_addresses([group], ledger, {"p": "s"}) == [group], "whoever knows of addresses is left alone"
    whole, segments = with_whole_units(ledger)
    assert segments == {1}
    assert whole.inventories[1, 7].max_unit == 9


# The conversation.


async def test_a_boot_claims_an_address_and_the_dry_are_refused_at_once(nova: Nova, ledger: Ledger) -> None:
    small, large = a_segment(2, 3), a_segment(4, 3)
    await publish(ledger, small, large)
    servers = await nova.boot(6, clause(small, large))
    assert len(servers) == 6
    assert (await nova.used(small), await nova.used(large)) == (2, 4)
    assert await nova.boot(1, clause(small, large)) == []
    explained = await nova.api.call("GET", f"/allocation_candidates?resources=VCPU:1&{clause(small, large)}")
    assert explained[1]["allocation_requests"] == []
    assert "1 IPV4_ADDRESS free on the host's segments" in nova.api.headers["x-roost-explain"]
    await nova.delete(servers[0])
    assert await nova.used(small) + await nova.used(large) == 5


async def test_two_nics_on_one_network_are_two_addresses_of_one_segment(nova: Nova, ledger: Ledger) -> None:
    only = a_segment(3, 2)
    await publish(ledger, only)
    (server,) = await nova.boot(1, clause(only), clause(only))
    assert await nova.held(server) == {only.uuid: 2}
    assert await nova.boot(1, clause(only), clause(only)) == []


async def test_the_mappings_name_the_segment_in_the_unsuffixed_group(nova: Nova, ledger: Ledger) -> None:
    only = a_segment(3, 1)
    await publish(ledger, only)
    (request,) = (await nova.candidates(clause(only))).values()
    assert request["mappings"] == {"": [only.hosts[0], only.uuid]}
    assert request["allocations"][only.uuid] == {"resources": {IPV4_ADDRESS: 1}}


@pytest.mark.parametrize(("settings", "most"), [({}, 4), ({"hosts_per_address": 1}, 1)])
async def test_of_a_segment_so_many_hosts_are_offered_for_each_free_address(
    database: Database, settings: dict[str, int], most: int
) -> None:
    ledger = Ledger(database, settings=PlacementSettings(implied_addresses=True, **settings))
    await sync_standard_names(ledger)
    nova, only, wide = Nova(Api(ledger)), a_segment(4, 40), a_segment(1000, 5)
    await publish(ledger, only, wide)
    await nova.boot(1, clause(only))
    assert len(await nova.candidates(clause(only))) == 3 * most
    offered = await nova.candidates(clause(only, wide))
    assert offered.keys() >= {*wide.hosts}
    assert 1 <= len(offered.keys() & {*only.hosts}) <= 3 * most


@pytest.mark.parametrize("policy", ["isolate", "none"])
async def test_an_address_is_taken_whatever_the_group_policy(nova: Nova, ledger: Ledger, policy: str) -> None:
    """The suffixed groups alone are isolated: each on a half of the host, and the address on the segment."""
    only, dry = a_segment(2, 1), a_segment(0, 1)
    await publish(ledger, only, dry)
    halves = [a_uuid() for _ in range(4)]
    states = [
        ProviderState(uuid=half, name=half, parent_uuid=host, inventories={CUSTOM_HALF: Inventory(8)})
        for half, host in zip(halves, (*only.hosts, *only.hosts, *dry.hosts, *dry.hosts), strict=True)
    ]
    await ensure_providers(ledger, states)
    query = f"resources=VCPU:1&resources_A={CUSTOM_HALF}:1&resources_B={CUSTOM_HALF}:1&group_policy={policy}"
    status, body = await nova.api.call("GET", f"/allocation_candidates?{query}&{clause(only, dry)}")
    assert status == 200, body
    offered = [request["mappings"] for request in body["allocation_requests"]]
    assert {frozenset(mappings[""]) for mappings in offered} == {frozenset((only.hosts[0], only.uuid))}
    pairs = {(*mappings["_A"], *mappings["_B"]) for mappings in offered}
    mixed = {(halves[0], halves[1]), (halves[1], halves[0])}
    assert pairs == (mixed if policy == "isolate" else mixed | {(half, half) for half in halves[:2]})
    for request in body["allocation_requests"]:
        assert request["allocations"][only.uuid] == {"resources": {IPV4_ADDRESS: 1}}


async def test_the_log_says_of_a_refused_claim_which_class_of_which_segment(nova: Nova, ledger: Ledger) -> None:
    only = a_segment(1, 1)
    await publish(ledger, only)
    request = (await nova.candidates(clause(only)))[only.hosts[0]]
    assert len(await nova.boot(1, clause(only))) == 1
    nova.api.app = RequestIds(RequestLog(nova.api.app, LogSettings()))
    body = {
        "allocations": request["allocations"], "consumer_generation": None, "project_id": "p", "user_id": "u",
        "consumer_type": "INSTANCE",
    }  # fmt: skip
    with structlog.testing.capture_logs() as lines:
        assert (await nova.api.call("PUT", f"/allocations/{a_uuid()}", body))[0] == 409
    (line,) = [line for line in lines if line["event"] == "request"]
    assert (line["method"], line["status"], line["log_level"]) == ("PUT", 409, "info")
    assert IPV4_ADDRESS in line["reason"]
    assert only.uuid in line["reason"]
    assert only.hosts[0] not in line["reason"], "there is room on the host"


async def test_the_log_says_of_a_search_that_found_nothing_what_left_no_host(nova: Nova, ledger: Ledger) -> None:
    dry = a_segment(0, 1)
    await publish(ledger, dry)
    nova.api.app = RequestIds(RequestLog(nova.api.app, LogSettings()))
    with structlog.testing.capture_logs() as lines:
        assert await nova.boot(1, clause(dry)) == []
    (line,) = [line for line in lines if "/allocation_candidates" in line.get("path", "")]
    assert (line["status"], line["log_level"]) == (200, "info")
    assert "1 IPV4_ADDRESS free on the host's segments" in line["reason"]


async def test_the_log_says_where_the_time_of_a_slow_request_went(
    nova: Nova, ledger: Ledger, database: Database
) -> None:
    only = a_segment(2, 1)
    await publish(ledger, only)
    nova.api.app = RequestIds(RequestLog(nova.api.app, LogSettings(slow_request_s=1e-9)))
    with structlog.testing.capture_logs() as lines:
        async with asyncio.TaskGroup() as tasks:
            async with database.transaction() as tx:
                await tx.execute("SELECT FROM placement.provider FOR UPDATE")
                tasks.create_task(nova.boot(1, clause(only)))
                await until_blocked(database, 1)
                blocked_at_s = time.perf_counter()
                await nova.candidates(clause(only))
                waited_ms = (time.perf_counter() - blocked_at_s) * 1000
    assert len(nova.hosts) == 1
    (claim_line,) = [line for line in lines if line.get("method") == "PUT"]
    parts = [claim_line[name] for name in ("locks_ms", "transaction_ms", "claim_ms", "ms")]
    assert waited_ms <= parts[0]
    assert parts == sorted(parts)
    searches = [line for line in lines if "/allocation_candidates" in line.get("path", "")]
    assert len(searches) == 2
    assert all(0 < line["index_ms"] <= line["ms"] and "claim_ms" not in line for line in searches)


async def test_moves_at_full_occupancy_keep_the_address(nova: Nova, ledger: Ledger, database: Database) -> None:
    full, other = a_segment(1, 3), a_segment(5, 3)
    await publish(ledger, full, other)
    async with database.connection() as connection:  # what Neutron says
        await connection.execute("UPDATE placement.provider SET network_id = $1 WHERE name LIKE 'Neutron%'", a_uuid())
        await connection.execute(
            "INSERT INTO placement.change (reshaped, provider_ids) SELECT true, array_agg(id) FROM placement.provider"
        )
    while True:
        (server,) = await nova.boot(1, clause(full, other))
        if full.uuid in await nova.held(server):
            break
    pinned, before = clause(full), nova.hosts[server]
    migration = await nova.migrate(server, pinned)
    assert migration is not None
    assert await nova.held(migration) == {}
    assert await nova.held(server) == {full.uuid: 1}
    await nova.revert(server, migration)
    assert nova.hosts[server] == before
    migration = await nova.migrate(server, pinned)
    assert migration is not None
    await nova.confirm(migration)
    assert await nova.evacuate(server, pinned) is not None
    assert await nova.held(server) == {full.uuid: 1}
    assert await nova.used(full) == 1


async def test_an_inventory_is_set_although_claims_were_made_meanwhile(nova: Nova, ledger: Ledger) -> None:
    only = a_segment(5, 2)
    await publish(ledger, only)
    path = f"/resource_providers/{only.uuid}/inventories"
    _, read = await nova.api.call("GET", path, version="1.1")
    await nova.boot(3, clause(only))
    inventory = read["inventories"][IPV4_ADDRESS] | {"total": 9}
    body = {"resource_provider_generation": read["resource_provider_generation"], **inventory}
    assert (await nova.api.call("PUT", f"{path}/{IPV4_ADDRESS}", body, version="1.1"))[0] == 200
    assert (await nova.api.call("PUT", f"{path}/{IPV4_ADDRESS}", body, version="1.1"))[0] == 409, "another one's write"


@pytest.mark.parametrize("plenty", [3, 30], ids=["fewer hosts than the limit", "more hosts than the limit"])
async def test_a_large_request_beside_dry_soon_segments_meets_few_refusals(
    nova: Nova, ledger: Ledger, plenty: int
) -> None:
    """300 servers, 210 hosts of segments with five addresses each, that come first wherever all are equal."""
    dry_soon = [a_segment(5, 30) for _ in range(7)]
    others = [a_segment(1000, 30) for _ in range(plenty)]
    await publish(ledger, *dry_soon, *others)
    servers = await nova.boot(300, clause(*dry_soon, *others))
    assert len(servers) == 300
    assert nova.refused < 2 * 300


async def test_without_the_option_nothing_is_implied(database: Database) -> None:
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    nova, only = Nova(Api(ledger)), a_segment(1, 2)
    await publish(ledger, only)
    assert len(await nova.boot(3, clause(only))) == 3
    assert await nova.used(only) == 0


@pytest.mark.parametrize(
    ("clauses", "waits"),
    [(("a",), True), (("b",), False), (("a", "b"), False), (("none",), False)],
    ids=["not counted", "counted", "one of two is counted", "no segment"],
)
def test_a_search_waits_for_networks_of_which_no_segment_was_counted(clauses: tuple[str, ...], waits: bool) -> None:
    index = index_of(
        host(1, "a"), host(2, "b"), a_segment_row(11, "a", free=1), a_segment_row(12, "b", free=1, network="N")
    )
    query = CandidateQuery(
        groups=(RequestGroup(suffix="", resources={VCPU: 1}, member_of=(frozenset(clauses),)),), limit=0
    )
    assert names_uncounted(index, query) is waits
    assert list_uncounted(index, query) == ({a_segment_row(11, "a", free=1).uuid} if "a" in clauses else set())
