"""Clouds that are drawn by a seed, and what becomes of their servers: booted one by one until the first refusal.

A boot is what the conductor does, without its database: the request's queries, the search over the index, the choice,
and the rules of claims.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from msgspec.structs import replace

from roost.placement.model import AllocationKey, InventoryRow, LockedLedger, ProviderRow, Usage
from roost.placement.rules.claims import decide_claims
from roost.placement.search.index import Delta, Index
from roost.placement.search.matching import find_in
from roost.scheduling.filters import narrow
from roost.scheduling.host_aggregates import AggregatesAsked
from roost.scheduling.request import Request, build_queries, build_request
from roost.scheduling.selection import join, select
from roost.scheduling.settings import SchedulingSettings
from roost.seams.compute import FlavorGroup, RequestSpec
from roost.seams.network import NetworkView, Port, Segment
from roost.seams.placement import (
    DISABLED,
    DISK_GB,
    IPV4_ADDRESS,
    IPV6_ADDRESS,
    MEMORY_MB,
    SHARING,
    VCPU,
    Allocations,
    Claimed,
    ClaimGroup,
    ConsumerClaim,
    Inventory,
)

DEFAULTS = SchedulingSettings()
GPU, FAST = "CUSTOM_GPU", "CUSTOM_FAST"


@dataclass
class Cloud:
    """Providers as the ledger has them, networks as scheduling sees them, and one request."""

    providers: dict[str, ProviderRow] = field(default_factory=dict)
    networks: dict[str, NetworkView] = field(default_factory=dict)
    spec: RequestSpec = field(default_factory=lambda: RequestSpec(vcpus=1, memory_mb=512, disk_gb=1))
    nics: tuple[str, ...] = ()
    aggregates: AggregatesAsked = field(default_factory=AggregatesAsked)

    def add(self, uuid: str, **fields: object) -> None:
        number = len(self.providers) + 1
        rest = {"name": uuid, "generation": 0, "parent_id": None, "root_id": number, "traits": frozenset(), **fields}
        self.providers[uuid] = ProviderRow(id=number, uuid=uuid, **rest)  # type: ignore[arg-type]

    def add_host(self, name: str, *reach: str, open: bool = True, ratio: float = 1.0, **amounts: int) -> None:
        """Add a host with these amounts of resource classes, on the segments of these aggregates."""
        self.add(
            name,
            inventories={
                c: Inventory(n, max_unit=max(n, 1), allocation_ratio=ratio if c == VCPU else 1.0)
                for c, n in amounts.items()
            },
            used=dict.fromkeys(amounts, 0),
            traits=frozenset() if open else frozenset({DISABLED}),
            placement_aggregates=frozenset(reach),
        )

    def add_segment(self, uuid: str, *, used: int = 0, **totals: int) -> None:
        """Add the provider of a segment; its aggregate is named like it."""
        self.add(
            uuid,
            inventories={c: Inventory(n, max_unit=max(n, 1)) for c, n in totals.items()},
            used={c: min(used, n) for c, n in totals.items()},
            traits=frozenset({SHARING}),
            placement_aggregates=frozenset({f"a-{uuid}"}),
        )

    def add_network(self, name: str, *segments: tuple[str, tuple[str, ...]], flat: bool = False) -> None:
        parts = tuple(
            Segment(provider_uuid=uuid, name=uuid, placement_aggregate=f"a-{uuid}", classes=classes)
            for uuid, classes in segments
        )
        self.networks[name] = NetworkView(id=name, name=name, routed=True, segments=parts, flat=flat)

    def index(self) -> Index:
        index = Index()
        index.apply(Delta(providers=list(self.providers.values())))
        return index

    def requests(self, **changes: object) -> list[Request]:
        """The alternatives of a server's request, narrowed. changes: of its spec."""
        return narrow(self.request(**changes))

    def request(self, **changes: object) -> Request:
        """What a server asks of hosts, before it is narrowed."""
        ports = [
            Port(
                id=f"p{tag}", tag=str(tag), network_id=nic, project_id="p", mac_address="m", revision=1,
                preserve_on_delete=False, needs_address=True,
                pools=tuple(s.provider_uuid for s in self.networks[nic].segments) if self.networks[nic].flat else (),
            )
            for tag, nic in enumerate(self.nics)
        ]  # fmt: skip
        spec = replace(self.spec, **changes)
        return build_request(spec, ports, self.networks, aggregates=self.aggregates)


def boot_until_refused(index: Index, requests: Sequence[Request], random: Random) -> int:
    """Return how many servers boot, one by one, before the first is refused. The index changes."""
    booted = 0
    while boot(index, requests, random) is not None:
        booted += 1
    return booted


def boot(index: Index, requests: Sequence[Request], random: Random) -> str | None:
    """Boot one server; return its host's UUID, None where it is refused. The index changes."""
    possible = [request for request in requests if request.impossible is None]
    if not possible:
        return None
    start = random.randrange(2**16)
    answer = join([find_in(index, query, start=start) for query in build_queries(possible, servers=1)])
    chosen = select(answer, 1, random, DEFAULTS)
    if not chosen:
        return None
    claim(index, chosen[0].allocations, f"server-{random.random()}")
    return chosen[0].root_uuid


def claim(index: Index, allocations: Allocations, consumer: str) -> None:
    """Claim by the ledger's own rules; what they refuse was no candidate."""
    rows = {uuid: index.row_by_uuid[uuid] for uuid in allocations}
    classes = sorted({name for resources in allocations.values() for name in resources})
    class_ids = {name: number for number, name in enumerate(classes, 1)}
    inventories: dict[AllocationKey, InventoryRow] = {}
    for row in rows.values():
        for name in class_ids.keys() & index.inventories[row].keys():
            inventory, used = index.inventories[row][name], index.used[row][name]
            line = (inventory.capacity, inventory.min_unit, inventory.max_unit, inventory.step_size, used)
            inventories[index.ids[row], class_ids[name]] = InventoryRow(*line)
    wanted = ConsumerClaim(
        consumer_uuid=consumer, generation=None, consumer_type="INSTANCE", project_id="p", user_id="u",
        allocations=allocations,
    )  # fmt: skip
    ledger = LockedLedger({uuid: index.ids[row] for uuid, row in rows.items()}, class_ids, inventories, {})
    (answer,), changes = decide_claims([ClaimGroup((wanted,))], ledger)
    assert isinstance(answer, Claimed), answer
    names = {number: name for name, number in class_ids.items()}
    usages = {index.ids[row]: dict(index.used[row]) for row in rows.values()}
    for (provider_id, class_id), amount in changes.used.items():
        usages[provider_id][names[class_id]] += amount
    index.apply(Delta(usages=[Usage(provider_id, 0, used) for provider_id, used in usages.items()]))


SHAPES = (
    ("rack",), ("rack",), ("pool",), ("rack", "rack"), ("rack", "room"), ("pool", "rack"), ("rack", "same"),
    ("pool", "same"), ("room",), (),
)  # fmt: skip
CROSSING = (("rack", "any"), ("any", "any"), ("room", "any"), ("pool", "any"), ("both",), ("both", "rack"))
"""Of each NIC: its network has a segment for each rack, for each room of some racks, as hosts happen to have them, two
for some hosts, pools for each rack; or it is the network of the NIC before."""


def draw(seed: str, shapes: Sequence[tuple[str, ...]] = SHAPES) -> Cloud:
    """Return a small cloud: flat or routed networks, one NIC or two, aggregates, ratios, extra specs, use."""
    random = Random(seed)
    cloud = Cloud()
    racks = random.randrange(1, 6)
    hosts = [(f"r{rack}-h{number}", rack) for rack in range(racks) for number in range(random.randrange(1, 6))]
    reach: dict[str, list[str]] = {name: [] for name, _ in hosts}
    shapes = random.choice(shapes)
    for number, shape in enumerate(shapes):
        _draw_network(cloud, random, number, shape, hosts, reach, racks)
    _draw_hosts(cloud, random, hosts, reach)
    _draw_request(cloud, random)
    return cloud


def _draw_network(
    cloud: Cloud,
    random: Random,
    number: int,
    shape: str,
    hosts: Sequence[tuple[str, int]],
    reach: dict[str, list[str]],
    racks: int,
) -> None:
    """Draw a NIC's network: a segment for each rack, for all, as each host happens to have, or pools of cells."""
    if shape == "same":
        cloud.nics = (*cloud.nics, cloud.nics[-1])
        return
    name = f"n{number}"
    families = random.choice(((IPV4_ADDRESS,), (IPV4_ADDRESS,), (IPV4_ADDRESS, IPV6_ADDRESS)))
    count = {"room": random.randrange(1, 3), "any": random.randrange(2, 4)}.get(shape, racks)
    segments: list[tuple[str, tuple[str, ...]]] = []
    places = {host: {"room": rack % count, "any": random.randrange(count)}.get(shape, rack) for host, rack in hosts}
    for place in range(count):
        for pool in range(random.randrange(1, 4) if shape == "pool" else 1):
            uuid = f"{name}-s{place}-{pool}"
            classes = families if shape == "pool" or random.random() < 0.8 else (IPV4_ADDRESS,)
            classes = (IPV4_ADDRESS,) if shape == "pool" else classes
            total = random.randrange(0, 24)
            cloud.add_segment(uuid, used=random.randrange(0, 4), **dict.fromkeys(classes, total))
            segments.append((uuid, classes))
            for host, _ in hosts:
                if places[host] == place or (shape == "both" and random.random() < 0.3):
                    reach[host].append(f"a-{uuid}")
    cloud.add_network(name, *segments, flat=shape == "pool")
    cloud.nics = (*cloud.nics, name)


def _draw_hosts(cloud: Cloud, random: Random, hosts: Sequence[tuple[str, int]], reach: dict[str, list[str]]) -> None:
    """Draw the hosts, some closed, in aggregates of operators, with other ratios, with devices below them."""
    cloud.add("shared-disk", inventories={DISK_GB: Inventory(random.randrange(1, 40))}, used={DISK_GB: 0},
              traits=frozenset({SHARING}), placement_aggregates=frozenset({"a-disk"}))  # fmt: skip
    shares = random.random() < 0.2
    for name, rack in hosts:
        groups = {f"zone{rack % 2}"} | ({"a-disk"} if shares else set())
        amounts = {VCPU: random.randrange(1, 17), MEMORY_MB: 512 * random.randrange(1, 16)}
        if not shares:
            amounts[DISK_GB] = random.randrange(1, 30)
        if random.random() < 0.7:
            amounts[GPU] = random.randrange(1, 5)
        cloud.add_host(name, *reach[name], *groups, open=random.random() < 0.85,
                       ratio=random.choice((1.0, 1.0, 1.5, 4.0)), **amounts)  # fmt: skip
        host = cloud.providers[name]
        used = {c: random.randrange(0, max(n // 2, 1)) for c, n in amounts.items()}
        traits = host.traits | ({FAST} if random.random() < 0.8 else set())
        cloud.providers[name] = replace(host, used=used, traits=frozenset(traits))
        for device in range(random.choice((0, 0, 0, 2))):
            cloud.add(f"{name}-dev{device}", parent_id=host.id, root_id=host.id, placement_aggregates=frozenset(),
                      inventories={"CUSTOM_VF": Inventory(random.randrange(1, 5))}, used={"CUSTOM_VF": 0})  # fmt: skip


def _draw_request(cloud: Cloud, random: Random) -> None:
    """Draw a flavor, with or without extra specs, and a zone."""
    groups: list[FlavorGroup] = []
    if random.random() < 0.2:
        groups.append(FlavorGroup(suffix="", resources=((GPU, 1),)))
    elif random.random() < 0.2:
        groups.append(FlavorGroup(suffix="", required=frozenset({FAST})))
    if random.random() < 0.15:
        count = random.randrange(1, 3)
        groups += [FlavorGroup(suffix=str(n), resources=(("CUSTOM_VF", 1),)) for n in range(1, count + 1)]
    cloud.spec = RequestSpec(
        vcpus=random.randrange(1, 4),
        memory_mb=512 * random.randrange(1, 3),
        disk_gb=random.randrange(0, 4),
        flavor_groups=tuple(groups),
        isolated=len(groups) > 1 and random.random() < 0.3,
    )
    if random.random() < 0.2:
        cloud.aggregates = AggregatesAsked(zone="z", zone_aggregates=frozenset({"zone0"}))
