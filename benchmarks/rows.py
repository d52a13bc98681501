"""The workloads: a row says how large the world is, what is measured in it, and what was promised of that."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What is measured; the text is the heading of a row's figures."""

    BOOT = "first POST to all ACTIVE"
    SHARES = "free shares of segments, highest less lowest"
    ORDER = "POST to ACTIVE, one by one, p50"
    MIGRATE = "first POST to all migrated"
    EVACUATE = "first POST to the last off hosts that died"
    CLAIMS = "claim(groups)"
    INDEX_LOAD = "load the index"
    CANDIDATES = "candidates, in process"
    ANSWER = "query string to answer, in process"
    IMPLIED = "CPU for an answer with implied addresses over one without"
    CAPACITY = "how many fit, exactly, in process"
    CAPACITY_CROSSING = "how many fit where limits cross, in process"
    DEVICES = "six groups on eight devices, in process"
    REFRESH_IDLE = "idle refresh"
    REFRESH_CLAIM = "refresh after one claim"
    BIND = "claim and bind ports, in sets"
    FILL = "last thousand addresses over first thousand"
    PORT_CREATE = "POST ports, eight clients"
    PORT_READDRESS = "PUT ports with another address, eight clients"
    PORT_LIST = "GET ports of one device"
    LISTS = "CPU for a list of servers, ports or providers"
    PUT = "PUT /allocations, eight clients"
    POLL = "CPU for an idle agent's poll"
    POLL_FLEET = "PostgreSQL's time for a poll of one agent for all hosts"
    MIRROR = "sync_placement_aggregates"
    NEUTRON_FIRST = "CPU of a first round with Neutron"
    NEUTRON_IDLE = "CPU of an idle round with Neutron"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One workload.

    hosts, segments: the world; every segment reaches hosts / segments hosts. held: servers that run there before the
    measurement, each with an address, or ports without; of a round with a Neutron, its ports; of an evacuation, the
    hosts that die. amount: what one round does: servers, claim groups, searches, refreshes, ports or requests. batch:
    servers in a request, groups in a claim, ports in a set, or the limit of a search, 0 for none; of capacity the
    addresses of each segment. floor, ceiling: the
    promise for the median of all rounds, in `unit`. small: the smallest of its kind, which the tests run too, for its
    result.
    """

    name: str
    kind: Kind
    hosts: int
    segments: int
    held: int = 0
    amount: int = 1
    batch: int = 1
    unit: str
    floor: float | None = None
    ceiling: float | None = None
    rounds: int = 5
    small: bool = False

    @property
    def promise(self) -> str:
        """The promise as text; empty for none."""
        if self.floor is not None:
            return f">= {self.floor:g}"
        return "" if self.ceiling is None else f"< {self.ceiling:g}"

    def holds(self, measured: float) -> bool:
        """Whether the promise is kept; what nobody promised is."""
        return (self.floor is None or measured >= self.floor) and (self.ceiling is None or measured < self.ceiling)


ROWS = (
    Row(name="boot-small", kind=Kind.BOOT, hosts=20, segments=2, held=20, amount=40, batch=20, unit="servers/s",
        rounds=1, small=True),
    Row(name="boot-1000", kind=Kind.BOOT, hosts=1000, segments=25, amount=1000, batch=50, unit="servers/s", floor=300),
    Row(name="boot-10000", kind=Kind.BOOT, hosts=10000, segments=25, amount=1000, batch=50, unit="servers/s"),
    Row(name="shares-small", kind=Kind.SHARES, hosts=4, segments=2, amount=20, batch=20, unit="points", rounds=1,
        small=True),
    Row(name="shares-200", kind=Kind.SHARES, hosts=60, segments=10, amount=200, batch=200, unit="points", ceiling=20,
        rounds=3),
    Row(name="order-late-small", kind=Kind.ORDER, hosts=4, segments=2, held=2, amount=6, unit="ms", rounds=1,
        small=True),
    Row(name="order-late", kind=Kind.ORDER, hosts=60, segments=3, held=20, amount=200, unit="ms", rounds=3),
    Row(name="order-early-create", kind=Kind.ORDER, hosts=60, segments=3, held=20, amount=200, unit="ms", rounds=3),
    Row(name="order-early", kind=Kind.ORDER, hosts=60, segments=3, held=20, amount=200, unit="ms", rounds=3),
    Row(name="migrate-small", kind=Kind.MIGRATE, hosts=20, segments=2, amount=20, batch=20, unit="servers/s", rounds=1,
        small=True),
    Row(name="migrate-1000", kind=Kind.MIGRATE, hosts=1000, segments=25, amount=1000, batch=50, unit="servers/s",
        floor=200, rounds=3),
    Row(name="evacuate-small", kind=Kind.EVACUATE, hosts=8, segments=2, held=2, amount=16, batch=16, unit="s", rounds=1,
        small=True),
    Row(name="evacuate-800", kind=Kind.EVACUATE, hosts=160, segments=2, held=40, amount=3200, batch=100, unit="s",
        ceiling=10, rounds=3),
    Row(name="claims-small", kind=Kind.CLAIMS, hosts=20, segments=2, held=20, amount=512, batch=256, unit="groups/s",
        rounds=1, small=True),
    Row(name="claims-256", kind=Kind.CLAIMS, hosts=1000, segments=25, amount=10240, batch=256, unit="groups/s",
        floor=8000),
    Row(name="claims-1", kind=Kind.CLAIMS, hosts=1000, segments=25, amount=500, batch=1, unit="groups/s"),
    Row(name="puts-small", kind=Kind.PUT, hosts=20, segments=2, amount=40, unit="claims/s", rounds=1, small=True),
    Row(name="puts-2000", kind=Kind.PUT, hosts=1000, segments=25, amount=2000, unit="claims/s"),
    Row(name="load-small", kind=Kind.INDEX_LOAD, hosts=50, segments=5, held=50, unit="s", rounds=1, small=True),
    Row(name="load-10000", kind=Kind.INDEX_LOAD, hosts=10000, segments=250, held=10000, unit="s", ceiling=2),
    Row(name="candidates-small", kind=Kind.CANDIDATES, hosts=50, segments=5, held=50, amount=20, batch=10, unit="ms",
        rounds=1, small=True),
    Row(name="candidates-10000", kind=Kind.CANDIDATES, hosts=10000, segments=250, held=10000, amount=200, batch=10,
        unit="ms", ceiling=1),
    Row(name="answer-small", kind=Kind.ANSWER, hosts=50, segments=5, held=50, amount=5, batch=10, unit="ms", rounds=1,
        small=True),
    Row(name="answer-10", kind=Kind.ANSWER, hosts=10000, segments=250, held=10000, amount=200, batch=10, unit="ms",
        ceiling=0.6),
    Row(name="answer-1000", kind=Kind.ANSWER, hosts=10000, segments=250, held=10000, amount=50, batch=1000, unit="ms",
        ceiling=3),
    Row(name="answer-all", kind=Kind.ANSWER, hosts=10000, segments=250, held=10000, amount=10, batch=0, unit="ms",
        ceiling=40),
    Row(name="implied-small", kind=Kind.IMPLIED, hosts=50, segments=5, held=50, amount=5, batch=10, unit="times",
        rounds=1, small=True),
    Row(name="implied-1000", kind=Kind.IMPLIED, hosts=10000, segments=250, held=10000, amount=100, batch=1000,
        unit="times", ceiling=1.5),
    Row(name="devices-small", kind=Kind.DEVICES, hosts=2, segments=1, amount=2, batch=50, unit="ms", rounds=1,
        small=True),
    Row(name="devices-1000", kind=Kind.DEVICES, hosts=2, segments=1, amount=10, batch=1000, unit="ms", ceiling=100),
    Row(name="capacity-small", kind=Kind.CAPACITY, hosts=50, segments=5, held=50, batch=20, unit="ms", rounds=1,
        small=True),
    Row(name="capacity-10000", kind=Kind.CAPACITY, hosts=10000, segments=250, held=10000, batch=250, unit="ms",
        ceiling=200),
    Row(name="capacity-crossing-small", kind=Kind.CAPACITY_CROSSING, hosts=50, segments=5, held=50, batch=20,
        unit="ms", rounds=1, small=True),
    Row(name="capacity-crossing-10000", kind=Kind.CAPACITY_CROSSING, hosts=10000, segments=250, held=10000, batch=250,
        unit="ms", ceiling=2000),
    Row(name="idle-small", kind=Kind.REFRESH_IDLE, hosts=50, segments=5, held=50, amount=5, unit="ms", rounds=1,
        small=True),
    Row(name="idle-10000", kind=Kind.REFRESH_IDLE, hosts=10000, segments=250, held=10000, amount=100, unit="ms"),
    Row(name="refresh-small", kind=Kind.REFRESH_CLAIM, hosts=50, segments=5, held=50, amount=5, unit="ms", rounds=1,
        small=True),
    Row(name="refresh-10000", kind=Kind.REFRESH_CLAIM, hosts=10000, segments=250, held=10000, amount=50, unit="ms"),
    Row(name="bind-small", kind=Kind.BIND, hosts=4, segments=4, amount=40, batch=10, unit="ports/s", rounds=1,
        small=True),
    Row(name="bind-250", kind=Kind.BIND, hosts=250, segments=250, amount=10000, batch=250, unit="ports/s", floor=3000),
    Row(name="fill-small", kind=Kind.FILL, hosts=1, segments=1, amount=50, batch=10, unit="times", rounds=1,
        small=True),
    Row(name="fill-65536", kind=Kind.FILL, hosts=1, segments=1, amount=65533, batch=250, unit="times", ceiling=2,
        rounds=3),
    Row(name="ports-small", kind=Kind.PORT_CREATE, hosts=0, segments=1, amount=30, unit="ports/s", rounds=1,
        small=True),
    Row(name="ports-2000", kind=Kind.PORT_CREATE, hosts=0, segments=1, amount=2000, unit="ports/s", floor=300),
    Row(name="readdress-small", kind=Kind.PORT_READDRESS, hosts=0, segments=1, held=30, amount=30, unit="ports/s",
        rounds=1, small=True),
    Row(name="readdress-2000", kind=Kind.PORT_READDRESS, hosts=0, segments=1, held=2000, amount=2000, unit="ports/s"),
    Row(name="device-small", kind=Kind.PORT_LIST, hosts=0, segments=1, held=30, amount=5, unit="ms", rounds=1,
        small=True),
    Row(name="device-10000", kind=Kind.PORT_LIST, hosts=0, segments=1, held=10000, amount=200, unit="ms", ceiling=10,
        rounds=3),
    Row(name="lists-small", kind=Kind.LISTS, hosts=20, segments=2, held=20, amount=2, batch=20, unit="ms", rounds=1,
        small=True),
    Row(name="lists-1000", kind=Kind.LISTS, hosts=1000, segments=25, held=1000, amount=50, batch=50, unit="ms",
        rounds=3),
    Row(name="polls-small", kind=Kind.POLL, hosts=40, segments=1, unit="ms", rounds=1, small=True),
    Row(name="mirror-small", kind=Kind.MIRROR, hosts=20, segments=4, unit="s", rounds=1, small=True),
    Row(name="mirror-10000", kind=Kind.MIRROR, hosts=10000, segments=100, unit="s", ceiling=30, rounds=3),
    Row(name="neutron-small", kind=Kind.NEUTRON_FIRST, hosts=0, segments=5, held=20, unit="s", rounds=1, small=True),
    Row(name="neutron-10000", kind=Kind.NEUTRON_FIRST, hosts=0, segments=250, held=10000, unit="s", rounds=3),
    Row(name="neutron-idle-small", kind=Kind.NEUTRON_IDLE, hosts=0, segments=5, held=20, unit="s", rounds=1,
        small=True),
    Row(name="neutron-idle-10000", kind=Kind.NEUTRON_IDLE, hosts=0, segments=250, held=10000, unit="s", rounds=3),
    Row(name="polls-10000", kind=Kind.POLL, hosts=10000, segments=1, unit="ms", rounds=3),
    Row(name="polls-fleet-small", kind=Kind.POLL_FLEET, hosts=40, segments=1, amount=3, unit="ms", rounds=1,
        small=True),
    Row(name="polls-fleet-10000", kind=Kind.POLL_FLEET, hosts=10000, segments=1, amount=20, unit="ms", ceiling=2,
        rounds=3),
)  # fmt: skip
