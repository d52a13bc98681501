"""The workloads: a row says how large the world is, what is measured, and the floor that was promised."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One workload. floor, ceiling: the promise, in `unit`; the smallest row of each kind is run by the tests too."""

    name: str
    kind: str
    hosts: int
    segments: int
    amount: int
    batch: int
    unit: str
    floor: float | None = None
    ceiling: float | None = None
    rounds: int = 3

    def holds(self, measured: float) -> bool:
        """Whether the promise is kept."""
        return (self.floor is None or measured >= self.floor) and (self.ceiling is None or measured <= self.ceiling)


ROWS = (
    Row("boot-small", "boot", hosts=20, segments=2, amount=40, batch=20, unit="servers/s", rounds=1),
    Row("boot-1000", "boot", hosts=1000, segments=25, amount=1000, batch=50, unit="servers/s", floor=300),
    Row("claims-small", "claims", hosts=20, segments=2, amount=512, batch=256, unit="groups/s", rounds=1),
    Row("claims-256", "claims", hosts=1000, segments=25, amount=10240, batch=256, unit="groups/s", floor=8000),
    Row("load-small", "index-load", hosts=50, segments=5, amount=1, batch=1, unit="s", rounds=1),
    Row("load-10000", "index-load", hosts=10000, segments=250, amount=1, batch=1, unit="s", ceiling=2.0),
    Row("candidates-small", "candidates", hosts=50, segments=5, amount=20, batch=10, unit="ms", rounds=1),
    Row("candidates-10000", "candidates", hosts=10000, segments=250, amount=200, batch=10, unit="ms", ceiling=1.0),
)
"""amount: servers, groups or queries; batch: servers in a request, groups in a claim, or the limit of a query."""
