"""Roost by itself, held to limits of its own: on a large cloud, and beside it on one of a tenth of the hosts."""

import statistics
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.placement import claims, searches
from benchmarks.placement.cloud import Cloud, queries
from benchmarks.placement.rows import BULK_CLIENTS, BULK_PER_S, GROWTH_HOSTS, SEARCHED, WORKER_MIB, Figure, Searched
from benchmarks.placement.searches import Search
from benchmarks.placement.servers import Server, roost
from benchmarks.placement.side_by_side import Effort, Say, fill, settle
from benchmarks.placement.watch import resident_mib


@dataclass(frozen=True)
class Size:
    """hosts: of the large cloud. bulk_requests, bulk_size: POST /allocations in a round, and consumers in each."""

    hosts: int = 10_000
    bulk_requests: int = 40
    bulk_size: int = 250


@dataclass(frozen=True)
class World:
    """A server with its cloud."""

    server: Server
    cloud: Cloud


def measure(size: Size, effort: Effort, say: Say) -> list[Figure]:
    """Every figure, of servers that are started and stopped here. Raises HTTPFailure, AssertionError."""
    with ExitStack() as held:
        small, large = (
            World(held.enter_context(roost()), Cloud(hosts)) for hosts in (size.hosts // GROWTH_HOSTS, size.hosts)
        )
        fill(small.server, small.cloud.providers(), say)
        loaded = fill(large.server, [*large.cloud.providers(), *large.cloud.device_host()], say)
        settle(effort)
        rate = Figure("load", "providers created over HTTP", loaded.providers / loaded.seconds, "providers/s")
        return [rate, *measure_loaded(large, small, size, effort, say)]


def measure_loaded(large: World, small: World, size: Size, effort: Effort, say: Say) -> list[Figure]:
    """Every figure but the loading's, of servers that have their clouds."""
    figures = _search_all(large, small, effort, say)
    for clients in BULK_CLIENTS:
        figures += _bulk(large, size, effort, say, clients=clients)
    memory = resident_mib(large.server.roots["web"])[0]
    figures.append(Figure("worker", "memory of the larger worker, after all of it", memory, "MiB", ceiling=WORKER_MIB))
    return figures


def _search_all(large: World, small: World, effort: Effort, say: Say) -> list[Figure]:
    """The rounds of all questions in turn; those whose growth is promised on both clouds."""
    found: dict[tuple[str, int], Search] = {}
    for _ in range(effort.rounds):
        for row in SEARCHED:
            for world in (large, small) if row.growth is not None else (large,):
                path = queries(world.cloud)[row.name]
                warm = searches.warm_up(world.server.url, path)
                search = found.setdefault((row.name, world.cloud.hosts), warm)
                one = searches.stretch(world.server.url, path, world.server.roots, seconds=effort.seconds)
                search.stretches.append(one)
                say(f"{row.name} over {world.cloud.hosts:,} hosts: p50 {one.p50_ms:.2f} ms")
    assert not sum(search.bad for search in found.values()), "an answer was not 200"
    figures = []
    for row in SEARCHED:
        figures += _search_figures(row, found[row.name, large.cloud.hosts], found.get((row.name, small.cloud.hosts)))
    return figures


def _search_figures(row: Searched, large: Search, small: Search | None) -> list[Figure]:
    figures = [
        Figure(row.name, f"{row.title}: p50", large.p50_ms, "ms", ceiling=row.p50_ms),
        Figure(row.name, f"{row.title}: server CPU", large.cpu_ms, "ms", ceiling=row.cpu_ms),
    ]
    if row.growth is not None and small is not None:
        growth = large.cpu_ms / small.cpu_ms
        title = f"{row.title}: CPU over that of a tenth of the hosts"
        figures.append(Figure(row.name, title, growth, "times", ceiling=row.growth))
    return figures


def _bulk(world: World, size: Size, effort: Effort, say: Say, *, clients: int) -> list[Figure]:
    rounds = []
    for _ in range(effort.rounds):
        one = claims.bulk(
            world.server.url, world.cloud, world.server.roots, clients=clients, requests=size.bulk_requests,
            size=size.bulk_size,
        )  # fmt: skip
        assert not one.problems, one.problems
        say(f"bulk claims, {clients} clients: {one.per_s:,.0f} consumers/s")
        rounds.append(one)
    name = f"bulk-{clients}"
    title = f"POST /allocations, {size.bulk_size} consumers of 4 resources, clients: {clients}"
    rate = statistics.median(one.per_s for one in rounds)
    cpu_ms = {each: statistics.median(one.cpu_ms[each] for one in rounds) for each in ("web", "db")}
    return [
        Figure(name, title, rate, "consumers/s", floor=BULK_PER_S),
        Figure(name, "web CPU for a request", cpu_ms["web"], "ms"),
        Figure(name, "database CPU for a request", cpu_ms["db"], "ms"),
    ]
