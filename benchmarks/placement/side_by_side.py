"""The same cloud and the same work on two servers that are up together, stretch by stretch in turn.

Every stretch is measured on one and at once on the other, and the order changes from round to round: whatever else
the machine does falls on both.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.placement import claims, searches
from benchmarks.placement.cloud import SEGMENT, Cloud, Provider, queries
from benchmarks.placement.loading import Loaded, load
from benchmarks.placement.rows import CLAIMS, RACERS, Compared
from benchmarks.placement.servers import Server

LOADING_CLIENTS = 8
SETTLE_S = 12.0
"""After a load: autovacuum makes statistics, which a database has that has been in use for some time."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Effort:
    """How long one measures. claim_s: of a race, or until half of all addresses are taken."""

    rounds: int = 3
    seconds: float = 3.0
    claim_s: float = 10.0
    settle_s: float = SETTLE_S


@dataclass(frozen=True)
class Measured:
    """One row on one server: medians of the rounds. CPU is for each answer, or each instance placed; per_s: of these.

    p50_ms: of an answer, or of a PUT of a claim. other_cpus: cores that were busy with neither server nor client.
    """

    p50_ms: float
    cpu_ms: float
    web_cpu_ms: float
    db_cpu_ms: float
    client_cpu_ms: float
    other_cpus: float
    per_s: float | None = None
    candidates: int | None = None
    problems: Sequence[str] = field(default_factory=tuple)


FIGURES = ("p50_ms", "cpu_ms", "web_cpu_ms", "db_cpu_ms", "client_cpu_ms", "other_cpus", "per_s")


@dataclass(frozen=True)
class Pair:
    """A row on both servers."""

    row: Compared
    hosts: int
    upstream: Measured
    roost: Measured

    @property
    def factor(self) -> float:
        """How many times better Roost is: claims by rate, questions by CPU."""
        if self.upstream.per_s is not None and self.roost.per_s is not None:
            return self.roost.per_s / self.upstream.per_s
        return self.upstream.cpu_ms / self.roost.cpu_ms

    @property
    def required(self) -> float | None:
        """The factor that was promised; only the sizes of the promise have one."""
        return self.row.factors.get(self.hosts)

    @property
    def kept(self) -> bool:
        """Whether Roost is far enough ahead, and whether all answers were right on both."""
        return (self.required is None or self.factor >= self.required) and not self.problems

    @property
    def problems(self) -> list[str]:
        """What was not right."""
        said = [f"{name}: {text}" for name in ("upstream", "roost") for text in getattr(self, name).problems]
        if self.upstream.candidates != self.roost.candidates:
            said.append(f"upstream has {self.upstream.candidates} candidates, Roost {self.roost.candidates}")
        return said


def compare(
    upstream: Server, roost: Server, cloud: Cloud, rows: Sequence[Compared], effort: Effort, say: Say
) -> list[Pair]:
    """Measure the rows on both, which have the cloud loaded."""
    sides = (upstream, roost)
    taken: dict[tuple[str, str], list[Measured]] = {}
    for turn in range(effort.rounds):
        for row in rows:
            for side in sides if turn % 2 == 0 else reversed(sides):
                measured = _claims(side, cloud, effort, turn) if row is CLAIMS else _search(side, cloud, row, effort)
                taken.setdefault((row.name, side.name), []).append(measured)
                rate = "" if measured.per_s is None else f", {measured.per_s:.1f} placed/s"
                say(f"{row.name} {side.name}: p50 {measured.p50_ms:.2f} ms, CPU {measured.cpu_ms:.2f} ms{rate}")
    return [Pair(row, cloud.hosts, *(_median(taken[row.name, side.name]) for side in sides)) for row in rows]


def fill(server: Server, providers: Sequence[Provider], say: Say) -> Loaded:
    """Load a cloud's providers."""
    loaded = load(server.url, providers, clients=LOADING_CLIENTS)
    say(f"{server.name}: {loaded.providers:,} providers loaded in {loaded.seconds:.1f} s, {loaded.failures} failures")
    return loaded


def settle(effort: Effort) -> None:
    """Leave the databases alone for a while."""
    time.sleep(effort.settle_s)


def _search(server: Server, cloud: Cloud, row: Compared, effort: Effort) -> Measured:
    path = queries(cloud)[row.name]
    search = searches.warm_up(server.url, path)
    one = searches.stretch(server.url, path, server.roots, seconds=effort.seconds)
    problems = (f"{one.bad} answers other than 200",) if one.bad else ()
    return Measured(
        p50_ms=one.p50_ms, cpu_ms=sum(one.cpu_ms.values()), web_cpu_ms=one.cpu_ms["web"], db_cpu_ms=one.cpu_ms["db"],
        client_cpu_ms=one.client_ms, other_cpus=one.other_cpus, candidates=search.candidates, problems=problems,
    )  # fmt: skip


def _claims(server: Server, cloud: Cloud, effort: Effort, turn: int) -> Measured:
    addresses = int(SEGMENT["IPV4_ADDRESS"]["total"]) * cloud.segments
    race = claims.race(
        server.url, cloud, server.roots, clients=RACERS, instances=addresses // 2, seconds=effort.claim_s, seed=turn
    )
    return Measured(
        p50_ms=race.put_p50_ms, cpu_ms=sum(race.cpu_ms.values()), web_cpu_ms=race.cpu_ms["web"],
        db_cpu_ms=race.cpu_ms["db"], client_cpu_ms=race.client_ms, other_cpus=race.other_cpus, per_s=race.per_s,
        problems=race.problems,
    )  # fmt: skip


def _median(rounds: Sequence[Measured]) -> Measured:
    """Each figure's median by itself; problems of any round are problems."""
    figures = {name: [getattr(one, name) for one in rounds] for name in FIGURES}
    medians = {name: statistics.median(values) for name, values in figures.items() if values[0] is not None}
    return Measured(
        **medians, candidates=rounds[-1].candidates, problems=[text for one in rounds for text in one.problems]
    )
