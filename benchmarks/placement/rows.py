"""The rows and what was promised of them: factors ahead of upstream by size of the cloud, and limits in themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, field

RACERS = 8


@dataclass(frozen=True)
class Compared:
    """One row of the table beside upstream; name: of its query in cloud.py too, unless it races claims.

    factors: hosts -> how many times better Roost must be: by CPU of web and database for an answer, claims by rate.
    """

    name: str
    title: str
    factors: Mapping[int, float] = field(default_factory=dict)


CLAIMS = Compared("claims", f"claims placed per second, {RACERS} clients", {1000: 30, 5000: 100})
COMPARED = (
    Compared("flat-1000", "flat, limit 1,000", {1000: 30, 5000: 100}),
    Compared("flat-10", "flat, limit 10", {1000: 80, 5000: 300}),
    Compared("shared-10", "with an address from a sharing provider, limit 10", {1000: 80, 5000: 300}),
    Compared("granular-1000", "with one granular IP group of 8 aggregates, limit 1,000", {1000: 40, 5000: 150}),
    CLAIMS,
    Compared("flat-all", "flat, no limit"),
    Compared("shared-1000", "with an address from a sharing provider, limit 1,000"),
    Compared("traits-1000", "flat, a trait and 8 aggregates, limit 1,000"),
)
"""Those without a promise are measured when they are named."""


@dataclass(frozen=True)
class Searched:
    """A question to Roost alone. p50_ms, cpu_ms: to stay below. growth: of cpu_ms from a tenth of the hosts."""

    name: str
    title: str
    p50_ms: float | None = None
    cpu_ms: float | None = None
    growth: float | None = None


SEARCHED = (
    Searched("flat-10", "flat, limit 10", p50_ms=3, cpu_ms=2, growth=3),
    Searched("shared-10", "with an address from a sharing provider, limit 10", p50_ms=3, cpu_ms=2, growth=3),
    Searched("flat-all", "all hosts, no limit", p50_ms=60),
    Searched("devices-isolate", "8 devices x 6 groups on one host, isolated, limit 1,000", p50_ms=100),
    Searched("devices-none", "8 devices x 6 groups on one host, not isolated, limit 1,000", p50_ms=100),
)
GROWTH_HOSTS = 10
BULK_CLIENTS = (1, 2)
BULK_PER_S = 5000.0
"""Consumers of four resources each, 250 with a POST /allocations."""
WORKER_MIB = 300.0
IMPLIED_TIMES = 1.5


@dataclass(frozen=True)
class Figure:
    """One measured figure of Roost alone. floor, ceiling: what was promised of it, if anything."""

    row: str
    measured: str
    value: float
    unit: str
    floor: float | None = None
    ceiling: float | None = None

    @property
    def promise(self) -> str:
        """As text; empty for none."""
        if self.floor is not None:
            return f">= {self.floor:,g}"
        return "" if self.ceiling is None else f"< {self.ceiling:,g}"

    @property
    def kept(self) -> bool:
        """Whether the promise is kept; what nobody promised is."""
        return (self.floor is None or self.value >= self.floor) and (self.ceiling is None or self.value < self.ceiling)
