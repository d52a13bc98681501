"""Times one question asked again and again, in stretches; a row is the median of its stretches."""

import gc
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.placement.client import Client, HTTPFailure, in_threads
from benchmarks.placement.watch import Meter

LEAST = 3
"""Answers in a stretch, however long they take."""
CONNECTIONS_WARM = 4
"""Both workers are to have their index before the clock starts."""


@dataclass(frozen=True)
class Stretch:
    """One stretch. p50_ms, p99_ms: of the answers; cpu_ms: of the servers for each answer, by process tree."""

    answers: int
    bad: int
    p50_ms: float
    p99_ms: float
    client_ms: float
    cpu_ms: Mapping[str, float]
    other_cpus: float


@dataclass
class Search:
    """What is known of one question to one server. candidates, summaries, bytes: of its answer."""

    candidates: int = 0
    summaries: int = 0
    bytes: int = 0
    stretches: list[Stretch] = field(default_factory=list)

    @property
    def p50_ms(self) -> float:
        """The median of the stretches' medians."""
        return statistics.median(stretch.p50_ms for stretch in self.stretches)

    @property
    def cpu_ms(self) -> float:
        """The servers' CPU for one answer, web and database together."""
        return statistics.median(sum(stretch.cpu_ms.values()) for stretch in self.stretches)

    @property
    def bad(self) -> int:
        """Answers other than 200."""
        return sum(stretch.bad for stretch in self.stretches)

    def part_ms(self, name: str) -> float:
        """The CPU of one process tree for one answer."""
        return statistics.median(stretch.cpu_ms.get(name, 0.0) for stretch in self.stretches)


def warm_up(url: str, path: str) -> Search:
    """Ask on several connections at once, without a clock. Raises HTTPFailure."""
    seen: list[bytes] = []

    def ask(_number: int) -> None:
        with Client(url) as client:
            for _ in range(2):
                status, data = client.request("GET", path)
                if status != 200:
                    raise HTTPFailure(f"GET {path}: {status} {data[:300]!r}")
                seen.append(data)

    in_threads(CONNECTIONS_WARM, ask)
    answer = json.loads(seen[0])
    return Search(len(answer["allocation_requests"]), len(answer["provider_summaries"]), len(seen[0]))


def stretch(url: str, path: str, roots: Mapping[str, int], *, seconds: float, clients: int = 1) -> Stretch:
    """Ask for so long, in a closed loop of so many connections."""
    latencies: list[list[float]] = [[] for _ in range(clients)]
    bad: list[int] = []
    meter = Meter(roots)

    def ask(number: int) -> None:
        mine, clock = latencies[number], time.perf_counter
        with Client(url) as client:
            while clock() < meter.started + seconds or len(mine) < LEAST:
                started = clock()
                status, _ = client.request("GET", path)
                mine.append(clock() - started)
                if status != 200:
                    bad.append(status)

    gc.collect()
    gc.disable()
    try:
        with meter:
            in_threads(clients, ask)
    finally:
        gc.enable()
    ordered = sorted(1000 * latency for each in latencies for latency in each)
    return Stretch(
        answers=len(ordered),
        bad=len(bad),
        p50_ms=quantile(ordered, 50),
        p99_ms=quantile(ordered, 99),
        client_ms=1000 * meter.client_cpu_s / len(ordered),
        cpu_ms=meter.cpu_ms(len(ordered)),
        other_cpus=meter.other_cpus,
    )


def quantile(ordered: Sequence[float], percent: int) -> float:
    """Of an ordered sample, the nearest rank above."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
