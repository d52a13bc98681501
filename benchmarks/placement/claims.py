"""Places instances, one by one in a race of clients or many with one request, and proves what was placed."""

import json
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from benchmarks.placement.client import Client, HTTPFailure, Numbers, for_each, in_threads
from benchmarks.placement.cloud import ADDRESS, FLAVOR, Cloud, queries
from benchmarks.placement.searches import quantile, warm_up
from benchmarks.placement.watch import Meter

PROJECT, USER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
CHECKING_CLIENTS = 8
PATIENCE = 50
PROBLEMS_SHOWN = 20
CONSUMERS_CHECKED_MAX = 1000
"""One by one; the usage of every provider and the project's total are checked besides."""
PLACED_BY_A_REQUEST = 250

Allocations = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Provider -> "resources" -> resource class -> amount, as a candidate says it."""


@dataclass
class Race:
    """What a race placed. conflicts: refused claims by their code. problems: what does not hold afterwards."""

    placed: dict[str, Allocations] = field(default_factory=dict)
    seconds: float = 0.0
    get_p50_ms: float = 0.0
    put_p50_ms: float = 0.0
    conflicts: dict[str, int] = field(default_factory=dict)
    cpu_ms: Mapping[str, float] = field(default_factory=dict)
    client_ms: float = 0.0
    other_cpus: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def per_s(self) -> float:
        """Instances placed in a second."""
        return len(self.placed) / self.seconds


def race(
    url: str, cloud: Cloud, roots: Mapping[str, int], *, clients: int, instances: int, seconds: float, seed: int = 1
) -> Race:
    """Ask for ten candidates, claim a random one of them, ask again when refused: until all are placed or time is up.

    What was placed is checked and given back after the clock has stopped. Raises HTTPFailure.
    """
    path = queries(cloud)["shared-10"]
    before = usages(url, cloud)
    warm_up(url, path)
    run, meter, numbers, lock = Race(), Meter(roots), Numbers(instances), threading.Lock()
    gets: list[float] = []
    puts: list[float] = []

    def place(client: Client, chance: random.Random, consumer: str) -> None:
        clock = time.perf_counter
        while clock() < meter.started + seconds:
            asked = clock()
            offers = client.json("GET", path)["allocation_requests"]
            gets.append(clock() - asked)
            if not offers:
                return
            allocations = chance.choice(offers)["allocations"]
            asked = clock()
            status, data = client.request("PUT", f"/allocations/{consumer}", claim_body(allocations))
            puts.append(clock() - asked)
            if status == 204:
                run.placed[consumer] = allocations
                return
            if status != 409 and status < 500:
                raise HTTPFailure(f"PUT /allocations: {status} {data[:300]!r}")
            code = "server_error" if status >= 500 else json.loads(data)["errors"][0].get("code", "conflict")
            with lock:
                run.conflicts[code] = run.conflicts.get(code, 0) + 1

    def work(number: int) -> None:
        chance = random.Random(f"{seed}/{number}")
        with Client(url) as client:
            while time.perf_counter() < meter.started + seconds and (taken := numbers.take()) is not None:
                place(client, chance, cloud.uuid(f"raced-{seed}", taken))

    with meter:
        in_threads(clients, work)
    run.seconds, run.other_cpus = meter.seconds, meter.other_cpus
    run.cpu_ms, run.client_ms = meter.cpu_ms(len(run.placed)), 1000 * meter.client_cpu_s / max(1, len(run.placed))
    run.get_p50_ms, run.put_p50_ms = (1000 * quantile(sorted(times), 50) for times in (gets, puts))
    run.problems = check(url, cloud, before, run.placed)
    release(url, list(run.placed))
    return run


@dataclass(frozen=True)
class Bulk:
    """What requests of many consumers took; per_s: consumers, cpu_ms: of the servers for each request, by tree."""

    consumers: int
    per_s: float
    p50_ms: float
    cpu_ms: Mapping[str, float]
    client_ms: float
    other_cpus: float
    problems: Sequence[str]


def bulk(
    url: str, cloud: Cloud, roots: Mapping[str, int], *, clients: int, requests: int, size: int = PLACED_BY_A_REQUEST
) -> Bulk:
    """Place requests * size consumers of four resources, `size` with a request; the bodies are made beforehand."""
    wanted = [_bulk_claims(cloud, number, size) for number in range(requests)]
    bodies = [msgspec.json.encode({uuid: claim_body(held) for uuid, held in claims.items()}) for claims in wanted]
    before = usages(url, cloud)
    times: list[float] = []

    def send(client: Client, number: int) -> None:
        asked = time.perf_counter()
        status, data = client.request("POST", "/allocations", bodies[number])
        times.append(time.perf_counter() - asked)
        if status != 204:
            raise HTTPFailure(f"POST /allocations: {status} {data[:300]!r}")

    meter = Meter(roots)
    with meter:
        for_each(url, requests, send, clients=clients)
    placed = {uuid: held for claims in wanted for uuid, held in claims.items()}
    problems = check(url, cloud, before, placed)
    release(url, list(placed))
    return Bulk(
        consumers=len(placed),
        per_s=len(placed) / meter.seconds,
        p50_ms=1000 * quantile(sorted(times), 50),
        cpu_ms=meter.cpu_ms(requests),
        client_ms=1000 * meter.client_cpu_s / requests,
        other_cpus=meter.other_cpus,
        problems=problems,
    )


def _bulk_claims(cloud: Cloud, number: int, size: int) -> dict[str, Allocations]:
    """Spread over all hosts and segments, so that none is hot."""
    claims: dict[str, Allocations] = {}
    for index in range(number * size, (number + 1) * size):
        host, segment = cloud.host(index % cloud.hosts), cloud.segment(index % cloud.hosts % cloud.segments)
        claims[cloud.uuid("bulk", index)] = {host.uuid: {"resources": FLAVOR}, segment.uuid: {"resources": ADDRESS}}
    return claims


def claim_body(allocations: Allocations, *, generation: int | None = None) -> dict[str, Any]:
    """All that one consumer is to hold, at 1.38 and later."""
    return {
        "allocations": allocations, "project_id": PROJECT, "user_id": USER, "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    }  # fmt: skip


def release(url: str, consumers: Sequence[str]) -> None:
    """Give all back, many with a request: each is at its first generation."""
    batches = [consumers[n : n + PLACED_BY_A_REQUEST] for n in range(0, len(consumers), PLACED_BY_A_REQUEST)]

    def send(client: Client, number: int) -> None:
        body = {uuid: claim_body({}, generation=1) for uuid in batches[number]}
        for _ in range(PATIENCE):
            status, data = client.request("POST", "/allocations", body)
            if status == 204:
                return
        raise HTTPFailure(f"POST /allocations: {status} {data[:300]!r}")

    for_each(url, len(batches), send, clients=1)


def usages(url: str, cloud: Cloud) -> dict[str, dict[str, int]]:
    """Provider -> resource class -> used, of every provider, from the ledger itself."""
    uuids, found = list(cloud.homes()), {}

    def ask(client: Client, number: int) -> None:
        found[uuids[number]] = client.json("GET", f"/resource_providers/{uuids[number]}/usages")["usages"]

    for_each(url, len(uuids), ask, clients=CHECKING_CLIENTS)
    return found


def check(
    url: str, cloud: Cloud, before: Mapping[str, Mapping[str, int]], placed: Mapping[str, Allocations]
) -> list[str]:
    """What does not hold: nobody above capacity, use = sum of what was placed, each consumer has what it claimed."""
    problems: list[str] = []
    expected = {uuid: dict(used) for uuid, used in before.items()}
    homes, capacities = cloud.homes(), cloud.capacities()
    for consumer, allocations in placed.items():
        if len({homes.get(provider) for provider in allocations}) != 1:
            problems.append(f"{consumer}: its address and its host are of different segments")
        for provider, held in allocations.items():
            for name, amount in held["resources"].items():
                expected[provider][name] = expected[provider].get(name, 0) + amount
    for provider, used in usages(url, cloud).items():
        if used != expected[provider]:
            problems.append(f"{provider}: {used} is used, {expected[provider]} was placed")
        if any(amount > capacities[provider][name] for name, amount in used.items()):
            problems.append(f"{provider}: {used} is above its capacity {capacities[provider]}")
    consumers = list(placed)[:: -(-len(placed) // CONSUMERS_CHECKED_MAX) or 1]

    def ask(client: Client, number: int) -> None:
        held = client.json("GET", f"/allocations/{consumers[number]}")["allocations"]
        wanted = placed[consumers[number]]
        if {uuid: one["resources"] for uuid, one in held.items()} != {u: o["resources"] for u, o in wanted.items()}:
            problems.append(f"{consumers[number]}: it holds {held}, it claimed {wanted}")

    for_each(url, len(consumers), ask, clients=CHECKING_CLIENTS)
    with Client(url) as client:
        # Of all types together: grouped by type, upstream answers 500 on PostgreSQL.
        total = client.json("GET", f"/usages?consumer_type=all&project_id={PROJECT}")["usages"].get("all", {})
    wanted = {name: amount * len(placed) for name, amount in (FLAVOR | ADDRESS).items()}
    if placed and total != wanted | {"consumer_count": len(placed)}:
        problems.append(f"the project uses {total}, {len(placed)} were placed")
    return problems[:PROBLEMS_SHOWN]
