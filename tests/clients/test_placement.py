"""The ledger elsewhere: the same cases as next door; and what its client does when a server lies, stalls or is away."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import msgspec
import pytest
import structlog
import structlog.testing
from aiohttp import web
from benchmarks.elsewhere import measure
from tests.authority import Authority
from tests.placements import ARRANGEMENT, asgi_app, close_placements, open_placement, serving
from tests.ports import free_port

from roost.cli.serving.placement_check import CredentialsRequired, check_placement
from roost.cli.settings import read_settings
from roost.clients.placement import RemotePlacement, find_credentials_fault
from roost.clients.placement_bodies import query_string
from roost.clients.placement_claims import RELEASES_MAX
from roost.clients.placement_http import AccessLog, PlacementClosed, PlacementHttp, PlacementUnavailable
from roost.clients.placement_reads import Elsewhere
from roost.placement.errors import InventoryInUse, ProviderNameTaken, ProviderNotFound, TraitNotFound
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform import http_sessions
from roost.platform.database import Database
from roost.platform.errors import BadRequest
from roost.platform.settings import PlacementClientSettings
from roost.seams.audit import AuditedPlacement
from roost.seams.placement import (
    IPV4_ADDRESS,
    IPV6_ADDRESS,
    SHARING,
    Candidate,
    CandidateQuery,
    Claimed,
    ClaimGroup,
    ConsumerClaim,
    ConsumerState,
    Inventory,
    ProviderState,
    Refused,
    RequestGroup,
    Rule,
    Shortfall,
)


def uuid(number: int) -> str:
    return str(UUID(int=number))


HOST, OTHER, NUMA, SEGMENT, RACK, SPARE = (uuid(number) for number in range(1, 7))
WEB, PORT, MOVE, LATER = (uuid(number) for number in range(101, 105))
NOWHERE = uuid(999)
HOSTS = (
    ProviderState(
        uuid=HOST, name="r1-1",
        inventories={"VCPU": Inventory(4, max_unit=3), "MEMORY_MB": Inventory(1024, step_size=64)},
        traits=frozenset({"HW_CPU_X86_AVX", "CUSTOM_GOLD"}), placement_aggregates=frozenset({RACK}),
    ),
    ProviderState(uuid=OTHER, name="r2-1", inventories={"VCPU": Inventory(2), "MEMORY_MB": Inventory(1024)}),
    ProviderState(
        uuid=SEGMENT, name="Neutron segment id 1", inventories={IPV4_ADDRESS: Inventory(2), IPV6_ADDRESS: Inventory(9)},
        traits=frozenset({SHARING}), placement_aggregates=frozenset({RACK}),
    ),
)  # fmt: skip


def claim_of(
    consumer: str, *, generation: int | None = None, of: str | None = "INSTANCE", **more: Any
) -> ConsumerClaim:
    allocations = {at: more.pop(at) for at in list(more) if at not in ("any_generation",)}
    return ConsumerClaim(
        consumer_uuid=consumer, generation=generation, consumer_type=of, project_id="p", user_id="u",
        allocations=allocations, **more,
    )  # fmt: skip


def group(*claims: ConsumerClaim) -> ClaimGroup:
    return ClaimGroup(claims)


async def _holds(placement: AuditedPlacement, consumer: str) -> Any:
    state = (await placement.get_consumers([consumer])).get(consumer)
    return state and state.allocations


async def a_server_and_its_port_are_claimed_together(placement: AuditedPlacement) -> None:
    both = group(claim_of(WEB, **{HOST: {"VCPU": 2}}), claim_of(PORT, of="PORT", **{SEGMENT: {IPV4_ADDRESS: 1}}))
    assert await placement.claim([both]) == [Claimed({WEB: 1, PORT: 1})]
    assert await placement.get_consumers([WEB, PORT, LATER]) == {
        WEB: ConsumerState(
            consumer_uuid=WEB, generation=1, consumer_type="INSTANCE", project_id="p", user_id="u",
            allocations={HOST: {"VCPU": 2}},
        ),
        PORT: ConsumerState(
            consumer_uuid=PORT, generation=1, consumer_type="PORT", project_id="p", user_id="u",
            allocations={SEGMENT: {IPV4_ADDRESS: 1}},
        ),
    }  # fmt: skip
    assert await placement.list_usages([HOST, SEGMENT, NOWHERE]) == {
        HOST: {"VCPU": (4, 2), "MEMORY_MB": (1024, 0)},
        SEGMENT: {IPV4_ADDRESS: (2, 1), IPV6_ADDRESS: (9, 0)},
    }


async def a_refusal_says_all_that_is_short_and_takes_nothing(placement: AuditedPlacement) -> None:
    await placement.claim([group(claim_of(WEB, **{OTHER: {"VCPU": 2}}))])
    both = group(
        claim_of(LATER, **{OTHER: {"VCPU": 1, "MEMORY_MB": 2000}}),
        claim_of(PORT, of="PORT", **{SEGMENT: {IPV4_ADDRESS: 1}}),
    )
    (refused,) = await placement.claim([both])
    assert isinstance(refused, Refused)
    assert set(refused.shortfalls) == {
        Shortfall(
            rule=Rule.CAPACITY, consumer_uuid=LATER, provider_uuid=OTHER, resource_class=name, requested=n, free=free
        )
        for name, n, free in (("VCPU", 1, 0), ("MEMORY_MB", 2000, 1024))
    }
    assert await placement.get_consumers([LATER, PORT]) == {}


async def a_refusal_undoes_no_other_group(placement: AuditedPlacement) -> None:
    groups = [group(claim_of(uuid(200 + n), **{OTHER: {"VCPU": 1}})) for n in range(5)]
    answers = await placement.claim(groups)
    assert [isinstance(answer, Claimed) for answer in answers] == [True, True, False, False, False]


async def a_group_of_nobody_is_claimed(placement: AuditedPlacement) -> None:
    assert await placement.claim([group()]) == [Claimed({})]
    assert await placement.claim([group(), group()]) == [Claimed({}), Claimed({})]
    assert await placement.claim([group(), ONE]) == [Claimed({}), Claimed({WEB: 1})]
    taking = claim_of(PORT, of="PORT", **{SEGMENT: {IPV4_ADDRESS: 1}})
    assert await placement.reshape([ProviderState(uuid=HOST, name="r1-1")], [taking]) == Claimed({PORT: 1})
    assert await placement.reshape([], []) == Claimed({})


async def each_rule_of_a_claim_is_named(placement: AuditedPlacement) -> None:
    rules = {}
    for name, at, resources in (
        ("max", HOST, {"VCPU": 4}),
        ("step", HOST, {"MEMORY_MB": 65}),
        ("inventory", HOST, {"DISK_GB": 1}),
        ("provider", NOWHERE, {"VCPU": 1}),
    ):
        (answer,) = await placement.claim([group(claim_of(WEB, **{at: resources}))])
        assert isinstance(answer, Refused)
        rules[name] = [(shortfall.rule, shortfall.limit) for shortfall in answer.shortfalls]
    assert rules == {
        "max": [(Rule.MAX_UNIT, 3)],
        "step": [(Rule.STEP_SIZE, 64)],
        "inventory": [(Rule.NO_INVENTORY, 0)],
        "provider": [(Rule.NO_PROVIDER, 0)],
    }


async def a_claim_fits_the_generation_that_was_read(placement: AuditedPlacement) -> None:
    await placement.claim([group(claim_of(WEB, **{HOST: {"VCPU": 1}}))])
    for generation, present in ((None, 1), (7, 1)):
        (refused,) = await placement.claim([group(claim_of(WEB, generation=generation, **{HOST: {"VCPU": 2}}))])
        assert refused == Refused(
            (Shortfall(rule=Rule.CONSUMER_GENERATION, consumer_uuid=WEB, requested=generation or -1, free=present),)
        )
    (refused,) = await placement.claim([group(claim_of(LATER, generation=2, **{HOST: {"VCPU": 1}}))])
    assert isinstance(refused, Refused)
    assert [(s.rule, s.requested, s.free) for s in refused.shortfalls] == [(Rule.CONSUMER_GENERATION, 2, -1)]
    assert await placement.claim([group(claim_of(WEB, generation=1, **{HOST: {"VCPU": 2}}))]) == [Claimed({WEB: 2})]
    anyhow = claim_of(WEB, of=None, any_generation=True, **{HOST: {"VCPU": 3}})
    assert await placement.claim([group(anyhow)]) == [Claimed({WEB: 3})]
    state = (await placement.get_consumers([WEB]))[WEB]
    assert (state.consumer_type, state.allocations) == ("INSTANCE", {HOST: {"VCPU": 3}})


async def a_move_swaps_what_is_full(placement: AuditedPlacement) -> None:
    await placement.claim([group(claim_of(WEB, **{OTHER: {"VCPU": 2}}))])
    swap = group(
        claim_of(WEB, generation=1, **{HOST: {"VCPU": 2}}), claim_of(MOVE, of="MIGRATION", **{OTHER: {"VCPU": 2}})
    )
    assert await placement.claim([swap]) == [Claimed({WEB: 2, MOVE: 1})]
    back = group(claim_of(WEB, generation=2, **{OTHER: {"VCPU": 2}}), claim_of(MOVE, generation=1, of="MIGRATION"))
    assert isinstance((await placement.claim([back]))[0], Claimed)
    assert await placement.list_usages([HOST, OTHER]) == {
        HOST: {"VCPU": (4, 0), "MEMORY_MB": (1024, 0)},
        OTHER: {"VCPU": (2, 2), "MEMORY_MB": (1024, 0)},
    }
    assert await _holds(placement, MOVE) is None


async def what_is_over_its_capacity_already_may_stay_as_it_is(placement: AuditedPlacement) -> None:
    await placement.claim([group(claim_of(WEB, **{OTHER: {"VCPU": 2}}))])
    await placement.ensure_providers([ProviderState(uuid=OTHER, name="r2-1", inventories={"VCPU": Inventory(1)})])
    assert await placement.claim([group(claim_of(WEB, generation=1, **{OTHER: {"VCPU": 2}}))]) == [Claimed({WEB: 2})]
    (refused,) = await placement.claim([group(claim_of(LATER, **{OTHER: {"VCPU": 1}}))])
    assert isinstance(refused, Refused)
    assert [(s.rule, s.free) for s in refused.shortfalls] == [(Rule.CAPACITY, -1)]


async def a_release_looks_at_generations_where_it_is_told(placement: AuditedPlacement) -> None:
    consumers = [uuid(300 + n) for n in range(4)]
    await placement.claim([group(claim_of(one, **{HOST: {"VCPU": 1}})) for one in consumers])
    await placement.release([consumers[0], NOWHERE])
    assert list(await placement.get_consumers(consumers)) == consumers[1:]
    await placement.release(consumers, generations={consumers[1]: 1, consumers[2]: 5})
    assert list(await placement.get_consumers(consumers)) == consumers[2:]
    await placement.release(consumers)
    assert await placement.get_consumers(consumers) == {}


async def providers_become_as_they_are_said_to_be(placement: AuditedPlacement) -> None:
    child = ProviderState(uuid=NUMA, name="numa", parent_uuid=SPARE, inventories={"PCPU": Inventory(4)})
    parent = ProviderState(uuid=SPARE, name="r3-1", inventories={"VCPU": Inventory(8), "CUSTOM_FPGA": Inventory(1)})
    for _ in range(2):  # the second time nothing is to do
        await placement.ensure_providers([child, parent])
    change = ProviderState(
        uuid=SPARE, name="r3-2", inventories={"VCPU": Inventory(6)}, managed_classes=frozenset({"VCPU"}),
        traits=frozenset({"CUSTOM_NEW"}), managed_traits=frozenset({"CUSTOM_NEW", "CUSTOM_OLD"}),
        placement_aggregates=frozenset({RACK}),
    )  # fmt: skip
    await placement.ensure_providers(
        [ProviderState(uuid=SPARE, name="r3-1", traits=frozenset({"CUSTOM_OLD", "HW_CPU_X86_AVX"}))]
    )
    await placement.ensure_providers([change])
    providers = await placement.get_providers([SPARE, NUMA, NOWHERE])
    assert providers == {
        SPARE: ProviderState(
            uuid=SPARE, name="r3-2", inventories={"VCPU": Inventory(6), "CUSTOM_FPGA": Inventory(1)},
            traits=frozenset({"CUSTOM_NEW", "HW_CPU_X86_AVX"}), placement_aggregates=frozenset({RACK}),
        ),
        NUMA: ProviderState(
            uuid=NUMA, name="numa", inventories={"PCPU": Inventory(4)}, traits=frozenset(),
            placement_aggregates=frozenset(),
        ),
    }  # fmt: skip
    assert await placement.delete_providers([SPARE, NOWHERE]) == [SPARE]  # it has a child
    assert await placement.delete_providers([NUMA]) == []


async def what_a_provider_cannot_be_is_an_error(placement: AuditedPlacement) -> None:
    await placement.claim([group(claim_of(WEB, **{HOST: {"VCPU": 1}}))])
    for state, error in (
        (ProviderState(uuid=HOST, name="r1-1", inventories={}), InventoryInUse),
        (ProviderState(uuid=SPARE, name="r1-1"), ProviderNameTaken),
        (ProviderState(uuid=HOST, name="r2-1"), ProviderNameTaken),
        (ProviderState(uuid=SPARE, name="r3", parent_uuid=NOWHERE), ProviderNotFound),
        (ProviderState(uuid=HOST, name="r1-1", traits=frozenset({"HW_NO_SUCH"})), TraitNotFound),
    ):
        with pytest.raises(error):
            await placement.ensure_providers([state])
    assert await placement.delete_providers([HOST, OTHER]) == [HOST]  # it is in use


async def a_reshape_changes_inventories_and_claims_in_one_step(placement: AuditedPlacement) -> None:
    await placement.claim([group(claim_of(PORT, of="PORT", **{SEGMENT: {IPV4_ADDRESS: 1}}))])
    smaller = ProviderState(uuid=SEGMENT, name="Neutron segment id 1", inventories={IPV6_ADDRESS: Inventory(9)})
    assert await placement.reshape([smaller], []) == Refused(
        (Shortfall(rule=Rule.IN_USE, consumer_uuid="", provider_uuid=SEGMENT),)
    )
    too_much = claim_of(PORT, generation=1, of="PORT", **{SEGMENT: {IPV6_ADDRESS: 10}})
    refused = await placement.reshape([smaller], [too_much])
    assert isinstance(refused, Refused)
    assert [(s.rule, s.resource_class, s.free) for s in refused.shortfalls] == [(Rule.CAPACITY, IPV6_ADDRESS, 9)]
    fits = claim_of(PORT, generation=1, of="PORT", **{SEGMENT: {IPV6_ADDRESS: 2}})
    assert await placement.reshape([smaller], [fits]) == Claimed({PORT: 2})
    assert await placement.list_usages([SEGMENT]) == {SEGMENT: {IPV6_ADDRESS: (9, 2)}}


async def a_provider_shrinks_only_to_what_is_in_use_of_it(placement: AuditedPlacement) -> None:
    await placement.claim([group(claim_of(PORT, of="PORT", **{SEGMENT: {IPV4_ADDRESS: 2}}))])
    before = await placement.get_providers([SEGMENT, OTHER])

    def left(*totals: int) -> list[ProviderState]:
        pairs = zip((SEGMENT, NOWHERE), totals, strict=False)
        return [
            ProviderState(uuid=uuid, name=before[SEGMENT].name, inventories={IPV4_ADDRESS: Inventory(total)})
            for uuid, total in pairs
        ]

    gone = ProviderState(uuid=SEGMENT, name=before[SEGMENT].name, inventories={})
    for unfit in (left(1), [gone]):
        assert await placement.fit_providers(unfit) == [SEGMENT]
    assert await placement.get_providers([SEGMENT, OTHER]) == before
    assert await placement.fit_providers(left(2, 0)) == []
    assert await placement.list_usages([SEGMENT, NOWHERE]) == {SEGMENT: {IPV4_ADDRESS: (2, 2)}}
    assert (await placement.get_providers([SEGMENT]))[SEGMENT].traits == before[SEGMENT].traits
    await placement.ensure_providers(left(1))
    assert await placement.fit_providers(left(0)) == [SEGMENT]
    assert await placement.fit_providers([gone]) == [SEGMENT]
    assert await placement.fit_providers(left(1)) == []
    assert await placement.list_usages([SEGMENT]) == {SEGMENT: {IPV4_ADDRESS: (1, 2)}}


async def managed_placement_aggregates_alone_change(placement: AuditedPlacement) -> None:
    mine, others = uuid(401), uuid(402)
    await placement.ensure_providers(
        [ProviderState(uuid=OTHER, name="r2-1", placement_aggregates=frozenset({others, mine}))]
    )
    await placement.set_placement_aggregates(
        {HOST: frozenset({mine}), OTHER: frozenset(), NOWHERE: frozenset({mine})}, managed=frozenset({mine})
    )
    members = await placement.list_aggregate_providers([mine, others, RACK])
    assert {aggregate: set(of) for aggregate, of in members.items()} == {
        mine: {HOST}, others: {OTHER}, RACK: {HOST, SEGMENT},
    }  # fmt: skip


QUERY = CandidateQuery(
    groups=(
        RequestGroup(
            suffix="", resources={"VCPU": 1, "MEMORY_MB": 64}, required=(frozenset({"HW_CPU_X86_AVX"}),),
            forbidden=frozenset({"COMPUTE_STATUS_DISABLED", "CUSTOM_NOBODY_HAS_IT"}), member_of=(frozenset({RACK}),),
        ),
        RequestGroup(suffix="_nic0", resources={IPV4_ADDRESS: 1, IPV6_ADDRESS: 1}, member_of=(frozenset({RACK}),)),
    ),
    limit=10,
)  # fmt: skip


async def a_search_gives_hosts_with_what_they_share(placement: AuditedPlacement) -> None:
    (answer,) = await placement.candidates([QUERY])
    assert answer.candidates == (
        Candidate(
            HOST,
            {"": (HOST,), "_nic0": (SEGMENT,)},
            {HOST: {"VCPU": 1, "MEMORY_MB": 64}, SEGMENT: {IPV4_ADDRESS: 1, IPV6_ADDRESS: 1}},
        ),
    )
    assert answer.summaries[HOST].name == "r1-1"
    assert answer.summaries[SEGMENT].resources[IPV4_ADDRESS] == (2, 0)
    assert answer.funnel is None


async def a_search_that_finds_nothing_says_why(placement: AuditedPlacement) -> None:
    def asking(**changes: Any) -> CandidateQuery:
        return msgspec.structs.replace(
            QUERY, groups=(msgspec.structs.replace(QUERY.groups[0], **changes), QUERY.groups[1])
        )

    queries = [
        asking(resources={"VCPU": 1, "MEMORY_MB": 64 * 100}),
        asking(required=(frozenset({"CUSTOM_NOBODY_HAS_IT"}),)),
        asking(resources={"CUSTOM_UNKNOWN": 1}),
    ]
    answers = await placement.candidates(queries)
    assert [answer.candidates for answer in answers] == [()] * 3
    last = [
        answer.funnel and [(step.describe(), step.hosts_left) for step in answer.funnel.steps] for answer in answers
    ]
    assert last[0] == [
        ("hosts", 2),
        ("inventory of VCPU and MEMORY_MB", 2),
        ("no trait COMPUTE_STATUS_DISABLED", 2),
        ("no trait CUSTOM_NOBODY_HAS_IT", 2),
        ("trait HW_CPU_X86_AVX", 1),
        (f"in placement aggregate {RACK}", 1),
        (f"inventory of {IPV4_ADDRESS} and {IPV6_ADDRESS} (group _nic0)", 1),
        (f"in placement aggregate {RACK} (group _nic0)", 1),
        ("1 VCPU free", 1),
        ("6400 MEMORY_MB free", 0),
        (f"1 {IPV4_ADDRESS} free (group _nic0)", 0),
        (f"1 {IPV6_ADDRESS} free (group _nic0)", 0),
    ]
    assert last[1] is not None
    assert ("trait CUSTOM_NOBODY_HAS_IT", 0) in last[1]
    assert last[2] is not None
    assert last[2][:2] == [("hosts", 2), ("inventory of CUSTOM_UNKNOWN", 0)]


async def audits_read_consumers_and_providers_in_pages(placement: AuditedPlacement) -> None:
    servers, ports = [uuid(500 + n) for n in range(3)], [uuid(600 + n) for n in range(2)]
    await placement.claim(
        [group(claim_of(one, **{HOST: {"VCPU": 1}})) for one in servers]
        + [group(claim_of(one, of="PORT", **{SEGMENT: {IPV4_ADDRESS: 1}})) for one in ports]
    )
    first = await placement.list_consumers("INSTANCE", after="", limit=2)
    assert first + await placement.list_consumers("INSTANCE", after=first[-1], limit=2) == servers
    assert await placement.list_consumers("PORT", after="", limit=2) == ports
    assert await placement.list_consumers("PORT", after=ports[-1], limit=2) == []
    assert await placement.list_named_providers("r", after="", limit=1) == {HOST: "r1-1"}
    assert await placement.list_named_providers("r", after="r1-1", limit=9) == {OTHER: "r2-1"}


CASES: tuple[Callable[[AuditedPlacement], Awaitable[None]], ...] = (
    a_server_and_its_port_are_claimed_together,
    a_refusal_says_all_that_is_short_and_takes_nothing,
    a_refusal_undoes_no_other_group,
    a_group_of_nobody_is_claimed,
    each_rule_of_a_claim_is_named,
    a_claim_fits_the_generation_that_was_read,
    a_move_swaps_what_is_full,
    what_is_over_its_capacity_already_may_stay_as_it_is,
    a_release_looks_at_generations_where_it_is_told,
    providers_become_as_they_are_said_to_be,
    what_a_provider_cannot_be_is_an_error,
    a_reshape_changes_inventories_and_claims_in_one_step,
    a_provider_shrinks_only_to_what_is_in_use_of_it,
    managed_placement_aggregates_alone_change,
    a_search_gives_hosts_with_what_they_share,
    a_search_that_finds_nothing_says_why,
    audits_read_consumers_and_providers_in_pages,
)


@pytest.mark.parametrize("arrangement", sorted({"local", "http", ARRANGEMENT}))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_the_ledger_elsewhere_is_as_the_one_next_door(
    database: Database, case: Callable[[AuditedPlacement], Awaitable[None]], arrangement: Any
) -> None:
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    placement = await open_placement(ledger, arrangement)
    await placement.ensure_providers(HOSTS)
    await case(placement)


async def test_what_a_ledger_elsewhere_costs_in_requests(database: Database) -> None:
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    async with serving(asgi_app(ledger)) as url:
        costs = await measure(PlacementClientSettings(url=url), hosts=6, rounds=2)
    assert {cost.call: cost.requests for cost in costs} == {
        "search, 128 candidates at most": 1,
        "search that finds nothing, with why": 2 + 7,  # after the first one: the list, and what is in use
        "claim of a server and its port": 1,
        "claim of 32 servers and their ports": 1,
        "release of a server and its port": 3,
        "release of 32 servers and their ports": 65,
    }


# A server that lies, stalls or is away.


Answering = Callable[[web.BaseRequest, bytes], Awaitable[web.StreamResponse]]
EMPTY = {"allocations": {}}


@asynccontextmanager
async def scripted(
    *answers: Answering | web.Response, **options: Any
) -> AsyncIterator[tuple[RemotePlacement, list[Any]]]:
    """A Placement that gives these answers in turn, the last one again and again; its client, what it was asked."""
    asked: list[Any] = []
    waits: list[float] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        asked.append((request.method, str(request.rel_url), dict(request.headers), body))
        script = answers[min(len(asked), len(answers)) - 1]
        if isinstance(script, web.Response):
            return web.Response(status=script.status, body=script.body, headers=script.headers)
        return await script(request, body)

    async def no_time(wait_s: float) -> None:
        waits.append(wait_s)

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    tls = options.pop("tls", None)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    if options.pop("keystone", False):
        options |= {"auth_url": url, "username": "roost", "password": "secret"}
    settings = PlacementClientSettings(**{"url": url, "timeout_s": 5.0, **options})
    placement = RemotePlacement(Elsewhere(PlacementHttp(settings, sleep=no_time, random=Random(1))))
    placement.waits = waits  # type: ignore[attr-defined]
    try:
        yield placement, asked
    finally:
        await placement.close()
        await runner.cleanup()


def says(status: int, body: Any = None, **headers: str) -> web.Response:
    return web.Response(
        status=status,
        body=b"" if body is None else msgspec.json.encode(body),
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


def problem(status: int, detail: str, code: str = "placement.undefined_code") -> web.Response:
    return says(status, {"errors": [{"status": status, "detail": detail, "code": code}]})


async def cut(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def stall(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


ONE = group(claim_of(WEB, **{HOST: {"VCPU": 1}}))


async def test_what_a_server_did_not_begin_is_asked_again_later_each_time() -> None:
    async with scripted(says(503, Retry_After="1"), says(429), says(503), says(200, EMPTY)) as (placement, asked):
        assert await placement.get_consumers([WEB]) == {}
        waits = placement.waits  # type: ignore[attr-defined]
    assert len(asked) == 4
    assert 0.5 <= waits[0] <= 1.5  # as the server asks for
    assert 0.1 <= waits[1] <= 0.3
    assert 0.2 <= waits[2] <= 0.6


async def test_a_server_that_stays_away_is_given_up_with_its_reason() -> None:
    async with scripted(says(503, {"errors": [{"detail": "no backend"}]})) as (placement, asked):
        with pytest.raises(PlacementUnavailable, match=r"GET http://.*/allocations/.*: 503: no backend"):
            await placement.get_consumers([WEB])
    assert len(asked) == 5


async def test_a_server_that_is_not_there_is_asked_again_too() -> None:
    async with scripted(says(200, EMPTY)) as (placement, asked):
        placement.service.http.url = f"http://127.0.0.1:{free_port()}"
        with pytest.raises(PlacementUnavailable, match="Connection refused"):
            await placement.claim([ONE])
        assert placement.service.http.requests == 5
    assert asked == []


@pytest.mark.parametrize("outcome", [cut, says(502), says(504), says(500)])
async def test_a_claim_whose_outcome_is_not_known_is_not_made_twice(outcome: Any) -> None:
    async with scripted(outcome, says(204)) as (placement, asked):
        with pytest.raises(PlacementUnavailable):
            await placement.claim([ONE])
    assert [method for method, *_ in asked] == ["POST"]


@pytest.mark.parametrize("outcome", [cut, says(502), says(504), says(500)])
async def test_what_can_be_done_twice_is_asked_again(outcome: Any) -> None:
    async with scripted(outcome, says(200, EMPTY)) as (placement, asked):
        assert await placement.get_consumers([WEB]) == {}
    assert len(asked) == 2


async def test_a_server_that_stalls_is_waited_for_as_long_as_said() -> None:
    async with scripted(stall, timeout_s=1) as (placement, asked):
        with pytest.raises(PlacementUnavailable, match="no answer in time"):
            await placement.get_consumers([WEB])
    assert len(asked) == 1


async def test_no_answer_in_time_is_no_reason_to_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer of an event loop may be a little early: by the clock, here one that stands, some time seems left."""
    monkeypatch.setattr(http_sessions, "time", SimpleNamespace(monotonic=lambda: 0.0))
    async with scripted(stall, timeout_s=0.2) as (placement, asked):
        with pytest.raises(PlacementUnavailable, match="no answer in time"):
            await placement.get_consumers([WEB])
    assert len(asked) == 1


async def test_a_claim_that_is_cancelled_is_over_when_the_cancelling_is() -> None:
    arrived, goes_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        arrived.set()
        await goes_on.wait()
        done.set()
        return says(204)

    async with scripted(slow) as (placement, _):
        claiming = asyncio.create_task(placement.claim([ONE]))  # type: ignore[arg-type]
        await arrived.wait()
        claiming.cancel()
        await asyncio.sleep(0)
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await claiming
        assert done.is_set()


async def test_a_conflict_of_generations_has_the_claim_made_again() -> None:
    conflict = problem(409, "changed", "placement.concurrent_update")
    inventories = says(200, {"inventories": {"VCPU": {"total": 4}}, "resource_provider_generation": 1})
    script = (
        conflict,
        says(200, EMPTY),
        inventories,
        says(200, {"resource_provider_generation": 1, "usages": {"VCPU": 0}}),
        says(204),
    )
    async with scripted(*script) as (placement, asked):
        assert await placement.claim([ONE]) == [Claimed({WEB: 1})]
    assert [method for method, *_ in asked] == ["POST", "GET", "GET", "GET", "POST"]


async def test_a_token_that_is_refused_is_renewed_once() -> None:
    tokens = iter(["first", "second"])

    async def cloud(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        if request.path == "/v3/auth/tokens":
            assert b'"secret"' in body
            return says(201, {}, X_Subject_Token=next(tokens))
        return says(200 if request.headers.get("X-Auth-Token") == "second" else 401, EMPTY)

    async with scripted(cloud, keystone=True) as (placement, asked):
        await asyncio.gather(*(placement.get_consumers([uuid(n)]) for n in range(5)))
        await placement.get_consumers([WEB])
    assert sum(path == "/v3/auth/tokens" for _, path, *_ in asked) == 2


@pytest.mark.parametrize(
    ("answer", "options", "sentence"),
    [
        (says(401), {}, "a credential is missing"),
        (says(401), {"token": "old"}, "the credential is not valid"),
        (says(403), {"token": "reader"}, "it needs the roles admin and service"),
        (says(401), {"keystone": True}, "Keystone at .* refuses Roost's user"),
    ],
)
async def test_who_is_not_let_in_is_told_what_is_missing(answer: Any, options: Any, sentence: str) -> None:
    async with scripted(answer, **options) as (placement, _):
        with pytest.raises(PlacementClosed, match=sentence):
            await placement.get_consumers([WEB])
        fault = await find_credentials_fault(placement)
    assert fault is not None


UNKNOWN, NO_CLAIMS = PlacementClosed("401"), PlacementClosed("403", operation="POST /allocations")


@pytest.mark.parametrize(
    ("notes", "levels"),
    [
        pytest.param(
            [(1, UNKNOWN), (2, UNKNOWN), (2, "GET /usages"), (3, "GET /usages")], ["warning", "info"], id="all"
        ),
        pytest.param([(1, UNKNOWN), (0, "GET /usages")], ["warning"], id="a request under way when it was refused"),
        pytest.param([(1, NO_CLAIMS), (1, "GET /usages"), (2, NO_CLAIMS)], ["warning"], id="a role is missing"),
        pytest.param(
            [(1, NO_CLAIMS), (1, "POST /allocations"), (3, UNKNOWN)], ["warning", "info", "warning"], id="revoked anew"
        ),
        pytest.param([(0, "GET /usages")], [], id="let in"),
    ],
)
def test_a_refusal_and_its_end_are_said_once(notes: list[tuple[int, Any]], levels: list[str]) -> None:
    access_log = AccessLog()
    with structlog.testing.capture_logs() as logs:
        for requests, noted in notes:
            if isinstance(noted, PlacementClosed):
                access_log.note_refusal(noted, requests=requests)
            else:
                access_log.note_answer(noted, requests=requests)
    assert [line["log_level"] for line in logs] == levels


async def test_a_request_that_a_role_does_not_allow_is_named() -> None:
    async with scripted(says(403)) as (placement, _):
        with pytest.raises(PlacementClosed, match="its user may not GET /allocations: it needs") as refused:
            await placement.get_consumers([WEB])
    assert refused.value.operation == "GET /allocations"


@pytest.mark.parametrize("answer", [says(503), cut, stall, says(200, {"resource_providers": []})])
async def test_a_server_that_is_away_is_no_fault_of_credentials(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roost.clients.placement.CHECK_S", 0.3)
    async with scripted(answer) as (placement, _):
        assert await find_credentials_fault(placement) is None


@pytest.mark.parametrize("answer", [says(200, ["lies"]), web.Response(body=b"<html>"), says(302, Location="/")])
async def test_an_answer_that_is_not_placements_is_said_to_be_none(answer: Any) -> None:
    async with scripted(answer) as (placement, _):
        with pytest.raises(PlacementUnavailable, match="not Placement's"):
            await placement.get_consumers([WEB])


async def test_an_older_server_is_asked_as_it_understands() -> None:
    async with scripted(says(406), says(200, EMPTY)) as (placement, asked):
        await placement.get_consumers([WEB])
    assert [headers["OpenStack-API-Version"] for _, _, headers, _ in asked] == ["placement 1.39", "placement 1.38"]
    async with scripted(says(406)) as (placement, _):
        with pytest.raises(BadRequest, match=r"too old: Roost needs its API from 1\.38 on"):
            await placement.get_consumers([WEB])


async def test_the_callers_request_id_goes_along() -> None:
    async with scripted(says(200, EMPTY)) as (placement, asked):
        with structlog.contextvars.bound_contextvars(request_id="req-own", global_request_id="req-callers"):
            await placement.get_consumers([WEB])
        with structlog.contextvars.bound_contextvars(request_id="req-own"):
            await placement.get_consumers([WEB])
    assert [headers["X-Openstack-Request-Id"] for _, _, headers, _ in asked] == ["req-callers", "req-own"]


async def test_releases_are_made_of_at_most_so_many_at_once() -> None:
    uuids = [uuid(n) for n in range(1, 2 * RELEASES_MAX + 2)]
    held = says(200, {"allocations": {HOST: {"resources": {"VCPU": 1}}}, "consumer_generation": 1,
                      "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"})  # fmt: skip

    async def server(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        return says(204) if request.method == "POST" else web.Response(body=held.body)

    async with scripted(server) as (placement, asked):
        await placement.release(uuids)
    sizes = [len(msgspec.json.decode(body)) for method, _, _, body in asked if method == "POST"]
    assert sizes == [RELEASES_MAX, RELEASES_MAX, 1]


def test_every_part_of_a_query_has_its_parameter() -> None:
    groups = (
        RequestGroup(
            suffix="", resources={"VCPU": 2}, required=(frozenset({"A"}), frozenset({"C", "B"})),
            forbidden=frozenset({"D"}), member_of=(frozenset({"y", "x"}),), forbidden_aggregates=frozenset({"z"}),
            in_tree="root",
        ),
        RequestGroup(suffix="_a", resources={}, required=(frozenset({"E"}),)),
    )  # fmt: skip
    query = CandidateQuery(
        groups=groups, group_policy="isolate", limit=3, same_subtree=(frozenset({"_a", "_b"}),),
        root_required=frozenset({"F"}), root_forbidden=frozenset({"G"}),
    )  # fmt: skip
    assert query_string(query) == [
        ("resources", "VCPU:2"), ("required", "A,!D"), ("required", "in:B,C"), ("member_of", "in:x,y"),
        ("member_of", "!in:z"), ("in_tree", "root"), ("required_a", "E"), ("group_policy", "isolate"),
        ("same_subtree", "_a,_b"), ("root_required", "F,!G"), ("limit", "3"),
    ]  # fmt: skip
    with pytest.raises(BadRequest, match="at least one resource of the host"):
        query_string(CandidateQuery(groups=(RequestGroup(suffix="", resources={}),)))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"url": "placement"}, "url 'placement': expected an address"),
        ({"username": "u", "password": "p"}, "auth_url is needed"),
        ({"username": "u", "token": "t", "auth_url": "http://k"}, "expected one of"),
        ({"cafile": "/no/such"}, r"\[placement_client\] cafile /no/such: No such file"),
        ({"cafile": __file__}, "expected certificates in PEM"),
    ],
)
def test_settings_that_cannot_work_are_named(options: Any, sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        PlacementClientSettings(**{"url": "http://p", **options}).check()


async def test_a_search_that_the_service_refuses_finds_nothing() -> None:
    async def server(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        if request.path == "/allocation_candidates":
            return problem(400, "malformed")
        lists = ("resource_providers", "traits", "resource_classes")
        known = {"traits": ["HW_CPU_X86_AVX", "COMPUTE_STATUS_DISABLED", "CUSTOM_NOBODY_HAS_IT"]}
        known["resource_classes"] = [{"name": name} for name in ("VCPU", "MEMORY_MB", IPV4_ADDRESS, IPV6_ADDRESS)]  # type: ignore[misc]
        return says(200, {name: known.get(name, []) for name in lists})

    async with scripted(server) as (placement, _):
        with structlog.testing.capture_logs() as logs:
            (answer,) = await placement.candidates([QUERY])
    assert (answer.candidates, [line["reason"] for line in logs]) == ((), ["malformed"])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"cafile": "ca.pem"}, None),
        ({"insecure": True}, None),
        ({}, "certificate"),
        ({"cafile": "other.pem"}, "cert"),
    ],
    ids=["trusted", "insecure", "unknown", "another"],
)
async def test_a_certificate_is_checked_unless_told_otherwise(
    tmp_path: Path, options: dict[str, Any], reason: str | None
) -> None:
    authority, _other = Authority(tmp_path), Authority(tmp_path, "other")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.sign("placement"))
    if "cafile" in options:
        options = {"cafile": str(tmp_path / options["cafile"])}
    async with scripted(says(200, EMPTY), tls=context, **options) as (placement, _):
        if reason is None:
            assert await placement.get_consumers([WEB]) == {}
        else:
            with pytest.raises(PlacementUnavailable, match=reason):
                await placement.get_consumers([WEB])


@pytest.mark.parametrize("credentials", ["warn", "require"])
async def test_a_start_without_credentials_warns_or_is_refused(
    credentials: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOST_PLACEMENT_CREDENTIALS", credentials)
    services = ("network", "compute", "conductor")
    async with scripted(says(401)) as (placement, _):
        settings = read_settings(None, placement_url=placement.service.http.url)
        if credentials == "require":
            with pytest.raises(CredentialsRequired, match=r"a credential is missing .* give Roost a user or a token"):
                await check_placement(settings, services)
        else:
            with structlog.testing.capture_logs() as logs:
                assert "a credential is missing" in (await check_placement(settings, services) or "")
            assert [line["log_level"] for line in logs] == ["warning"]
        with pytest.raises(BadRequest, match="without placement"):
            await check_placement(settings, ("placement", "network"))
    assert await check_placement(settings, services) is None  # it is merely down


@pytest.fixture(autouse=True)
async def _closed() -> AsyncIterator[None]:
    yield
    await close_placements()
