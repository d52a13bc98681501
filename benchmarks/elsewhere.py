"""What the ledger costs where it is a Placement service over HTTP: `python -m benchmarks.elsewhere URL [--token T]`.

It makes hosts and segments of its own there, measures one caller at a time, and removes them. The address may be
upstream's or Roost's; each line has the milliseconds of a call (the median), and the requests that it took.
"""

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from roost.clients.placement import RemotePlacement
from roost.platform.settings import PlacementClientSettings
from roost.seams.placement import (
    IPV4_ADDRESS,
    SHARING,
    CandidateQuery,
    Claimed,
    ClaimGroup,
    ConsumerClaim,
    Inventory,
    ProviderState,
    RequestGroup,
    Resources,
)

SERVER = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10}
GROUPS = 32


class Cost(Struct, frozen=True):
    """What one call took: the median of its rounds."""

    call: str
    milliseconds: float
    requests: int


async def measure(settings: PlacementClientSettings, *, hosts: int, rounds: int) -> list[Cost]:
    """Return the cost of each call over so many hosts, all of which reach one segment."""
    placement = RemotePlacement.connect(settings)
    aggregate = str(uuid.uuid4())
    states = [_host(aggregate) for _ in range(hosts)]
    segment = _segment(aggregate)
    try:
        await placement.ensure_providers([*states, segment])
        return await _measure(placement, [state.uuid for state in states], segment.uuid, aggregate, rounds)
    finally:
        await placement.delete_providers([*(state.uuid for state in states), segment.uuid])
        await placement.close()


async def _measure(
    placement: RemotePlacement, hosts: Sequence[str], segment: str, aggregate: str, rounds: int
) -> list[Cost]:
    http = placement.service.http
    claimed: list[str] = []

    async def timed(call: str, work: Callable[[], Awaitable[None]]) -> Cost:
        seconds, requests = [], 0
        for _ in range(rounds):
            before, began_s = http.requests, time.perf_counter()
            await work()
            seconds.append(time.perf_counter() - began_s)
            requests = http.requests - before
        return Cost(call, statistics.median(seconds) * 1000, requests)

    async def search(resources: Resources, *, finds: bool) -> None:
        (answer,) = await placement.candidates([_query(aggregate, resources)])
        assert bool(answer.candidates) == finds

    async def claim(count: int) -> None:
        groups = [_group(hosts[number % len(hosts)], segment) for number in range(count)]
        answers = await placement.claim(groups)
        assert all(isinstance(answer, Claimed) for answer in answers)
        claimed.extend(claim.consumer_uuid for group in groups for claim in group.consumers)

    async def release(count: int) -> None:
        uuids, claimed[:] = claimed[:count], claimed[count:]
        await placement.release(uuids)

    costs = [
        await timed("search, 128 candidates at most", lambda: search(SERVER, finds=True)),
        await timed("search that finds nothing, with why", lambda: search({**SERVER, "VCPU": 65}, finds=False)),
        await timed("claim of a server and its port", lambda: claim(1)),
        await timed(f"claim of {GROUPS} servers and their ports", lambda: claim(GROUPS)),
        await timed("release of a server and its port", lambda: release(2)),
        await timed(f"release of {GROUPS} servers and their ports", lambda: release(2 * GROUPS)),
    ]
    await release(len(claimed))
    return costs


def _host(aggregate: str) -> ProviderState:
    host = str(uuid.uuid4())
    inventories = {"VCPU": Inventory(64, max_unit=64), "MEMORY_MB": Inventory(262144), "DISK_GB": Inventory(20000)}
    return ProviderState(
        uuid=host, name=f"bench-{host}", inventories=inventories, placement_aggregates=frozenset({aggregate})
    )


def _segment(aggregate: str) -> ProviderState:
    segment = str(uuid.uuid4())
    return ProviderState(
        uuid=segment, name=f"bench-{segment}", inventories={IPV4_ADDRESS: Inventory(65000)},
        traits=frozenset({SHARING}), placement_aggregates=frozenset({aggregate}),
    )  # fmt: skip


def _query(aggregate: str, resources: Resources) -> CandidateQuery:
    member_of = (frozenset({aggregate}),)
    host = RequestGroup(suffix="", resources=resources, member_of=member_of)
    nic = RequestGroup(suffix="_nic0", resources={IPV4_ADDRESS: 1}, member_of=member_of)
    return CandidateQuery(groups=(host, nic), limit=128)


def _group(host: str, segment: str) -> ClaimGroup:
    def consumer(kind: str, at: str, resources: Resources) -> ConsumerClaim:
        return ConsumerClaim(
            consumer_uuid=str(uuid.uuid4()), generation=None, consumer_type=kind, project_id="bench", user_id="bench",
            allocations={at: resources},
        )  # fmt: skip

    return ClaimGroup((consumer("INSTANCE", host, SERVER), consumer("PORT", segment, {IPV4_ADDRESS: 1})))


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elsewhere", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--token", default="", help="X-Auth-Token; `admin` for upstream's noauth2")
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    settings = PlacementClientSettings(url=options.url, token=options.token, timeout_s=60)
    for cost in asyncio.run(measure(settings, hosts=options.hosts, rounds=options.rounds)):
        print(f"{cost.call:45} {cost.milliseconds:9.1f} ms {cost.requests:5} requests")


if __name__ == "__main__":
    main()
