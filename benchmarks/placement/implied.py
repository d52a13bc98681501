"""What addresses that are implied cost: Nova's question to two servers on one database, one of which implies them."""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.placement import searches
from benchmarks.placement.cloud import Cloud, queries
from benchmarks.placement.rows import IMPLIED_TIMES, Figure
from benchmarks.placement.servers import Server, roost
from benchmarks.placement.side_by_side import Effort, Say, fill, settle

ROUNDS_MIN = 20
"""Pairs of stretches: the ratio is close to its promise."""
STRETCH_S = 1.0
ROW = "implied-1000"


@contextmanager
def both() -> Iterator[tuple[Server, Server]]:
    """Two servers of one worker on one database, the second of which implies addresses."""
    with roost(workers=1) as plain, roost(workers=1, database_of=plain, implied_addresses=True) as implying:
        yield plain, implying


def measure(hosts: int, effort: Effort, say: Say) -> list[Figure]:
    """The ratio of their processor time for an answer, of servers that are started and stopped here."""
    with both() as (plain, implying):
        cloud = Cloud(hosts)
        fill(plain, cloud.providers(), say)
        settle(effort)
        return [compare(plain, implying, cloud, max(effort.rounds, ROUNDS_MIN), say)]


def compare(plain: Server, implying: Server, cloud: Cloud, rounds: int, say: Say) -> Figure:
    """Ask both in turn; of each the web's CPU for an answer counts, the database's is the same. Raises HTTPFailure."""
    path = queries(cloud)[ROW]
    warm = [searches.warm_up(server.url, path) for server in (plain, implying)]
    assert [search.candidates for search in warm] == [min(cloud.hosts, 1000)] * 2
    assert warm[0].bytes < warm[1].bytes, "no address is in the answer"
    cpu_ms: dict[str, list[float]] = {plain.url: [], implying.url: []}
    for turn in range(rounds):
        for server in (plain, implying) if turn % 2 == 0 else (implying, plain):
            one = searches.stretch(server.url, path, server.roots, seconds=STRETCH_S)
            assert not one.bad, "an answer was not 200"
            cpu_ms[server.url].append(one.cpu_ms["web"])
    without, with_ = (statistics.median(cpu_ms[server.url]) for server in (plain, implying))
    say(f"{ROW}: {without:.2f} ms without, {with_:.2f} ms with implied addresses, medians of {rounds}")
    title = "a server on a network of all segments, limit 1,000: web CPU with implied addresses over that without"
    return Figure(ROW, title, with_ / without, "times", ceiling=IMPLIED_TIMES)
