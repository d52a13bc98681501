"""How long it takes to say how many more servers of a flavor fit, on the index of a row's ledger, in process."""

import time
from collections.abc import Sequence
from random import Random

from msgspec.structs import replace

from roost.placement.search.index import Delta, Index
from roost.scheduling.host_aggregates import NOTHING_ASKED
from roost.scheduling.settings import SchedulingSettings
from roost.seams.compute import RequestSpec
from roost.seams.network import NetworkView, Segment
from roost.seams.placement import IPV4_ADDRESS, Inventory
from roost.seeing.rules.capacity import find_capacity
from roost.seeing.rules.changes import read_row
from roost.seeing.rules.questions import build_question

SPEC = RequestSpec(vcpus=1, memory_mb=512, disk_gb=10)


def measure_capacity(index: Index, segments: Sequence[str], *, addresses: int, crossing: bool) -> float:
    """Return milliseconds for one look. addresses: of each segment. crossing: on a second network, whose segments cross
    those of the first, so that servers are placed one after the other until no more fits.
    """
    index = index.copy()
    rows = [index.row_by_uuid[uuid] for uuid in segments]
    networks = [_network("first", index, rows, addresses)]
    if crossing:
        networks.append(_network("second", index, _add_crossing(index, rows), addresses))
    question = build_question("flavor", SPEC, networks, NOTHING_ASKED, SchedulingSettings())
    hosts = sorted(index.names[row] for row in index.trees().hosts.nonzero()[0].tolist())
    zones = {f"zone{n}": hosts[n::3] for n in range(3)}
    started = time.perf_counter()
    capacity = find_capacity(index, question.requests, Random(1), SchedulingSettings(), zones=zones)
    seconds = time.perf_counter() - started
    assert capacity.exact is not crossing
    assert 0 < capacity.least <= capacity.most <= addresses * len(segments)
    return seconds * 1000


def _network(name: str, index: Index, rows: Sequence[int], addresses: int) -> NetworkView:
    """Return a network of these segments, which get so many addresses each beyond those in use."""
    parts = []
    for row in rows:
        provider = read_row(index, row)
        total = addresses + provider.used[IPV4_ADDRESS]
        index.apply(Delta(providers=[replace(provider, inventories={IPV4_ADDRESS: Inventory(total, max_unit=total)})]))
        (aggregate,) = provider.placement_aggregates
        uuid = provider.uuid
        parts.append(Segment(provider_uuid=uuid, name=uuid, placement_aggregate=aggregate, classes=(IPV4_ADDRESS,)))
    return NetworkView(id=name, name=name, routed=True, segments=tuple(parts))


def _add_crossing(index: Index, rows: Sequence[int]) -> list[int]:
    """Add as many segments, on each of which hosts of many of the first ones are; return their rows."""
    first = max(index.row_by_id) + 1
    new = [
        replace(
            read_row(index, row),
            id=first + number,
            root_id=first + number,
            uuid=f"crossing-{number}",
            name=f"crossing-{number}",
            used={IPV4_ADDRESS: 0},
            placement_aggregates=frozenset({f"crossing-{number}"}),
        )
        for number, row in enumerate(rows)
    ]
    hosts = [read_row(index, row) for row in index.trees().hosts.nonzero()[0].tolist()]
    moved = [
        replace(host, placement_aggregates=host.placement_aggregates | {f"crossing-{number * 7 // 5 % len(rows)}"})
        for number, host in enumerate(hosts)
    ]
    index.apply(Delta(providers=[*new, *moved]))
    return [index.row_by_uuid[provider.uuid] for provider in new]
