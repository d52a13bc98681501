"""`sync_placement_aggregates` over HTTP at a real upstream Placement, by hand.

`python -m benchmarks.mirror_upstream --upstream-venv DIR`: upstream's openstack-placement runs from its package, as in
`make bench-placement`; it knows the hosts' providers and none of their aggregates. Says how long a run took and how
many requests it made for each host that differed.
"""

import asyncio
import time
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.ledger import private_database
from benchmarks.mirror import MAKE_MEMBERS, make_aggregates
from benchmarks.placement.client import Client, for_each
from benchmarks.placement.servers import roost, upstream
from roost.clients.local_network import LocalNetwork
from roost.clients.placement import RemotePlacement
from roost.clients.placement_http import PlacementHttp
from roost.compute.service import Compute
from roost.compute.service.aggregate_sync import sync_aggregates
from roost.compute.service.hosts import provider_uuid_of
from roost.platform.env import Env
from roost.platform.settings import PlacementClientSettings

MAKE_HOSTS = """
INSERT INTO compute.host (name, provider_uuid, vcpus, ram_mb, disk_gb, physical_networks)
SELECT name, uuid, 4, 4096, 40, '{}' FROM unnest($1::text[], $2::uuid[]) AS new (name, uuid)"""

NO_NETWORK: LocalNetwork = None  # type: ignore[assignment]
"""A run asks nothing of the network service."""


class Requests:
    """Counts what is asked of Placement."""

    def __init__(self) -> None:
        self.count = 0
        real = PlacementHttp.ask

        async def counted(http: PlacementHttp, *arguments: object, **more: object) -> object:
            self.count += 1
            return await real(http, *arguments, **more)  # type: ignore[arg-type]

        PlacementHttp.ask = counted  # type: ignore[assignment,method-assign]


async def measure(url: str, hosts: int, aggregates: int) -> None:
    """Make the world, run twice, and print."""
    names = [f"h{number}" for number in range(hosts)]
    uuids = [provider_uuid_of(name) for name in names]
    placement = RemotePlacement.connect(PlacementClientSettings(url=url, token="admin", timeout_s=60))
    async with private_database() as database:
        async with database.transaction() as tx:
            await tx.execute(MAKE_HOSTS, names, uuids)
            await make_aggregates(tx, aggregates)
            await tx.execute(MAKE_MEMBERS, aggregates)
        compute = Compute(database, Env(), placement, network=NO_NETWORK)
        requests = Requests()
        started = time.perf_counter()
        report = await sync_aggregates(compute)
        seconds = time.perf_counter() - started
        assert (int(report.status), len(report.changes)) == (0, hosts), (report.failure, report.problems[:3])
        print(f"{hosts} hosts in {aggregates} aggregates: {seconds:.1f} s, {requests.count} requests,")
        print(f"{(requests.count - 2 * aggregates) / hosts:.2f} for each host beside two for each aggregate")
        again = await sync_aggregates(compute, prune=True)
        assert (int(again.status), again.changes) == (0, ()), "a second run writes nothing"
    await placement.close()


def main(
    upstream_venv: Annotated[Path, typer.Option(help="A virtual environment with openstack-placement and uwsgi.")],
    hosts: int = 10_000,
    aggregates: int = 100,
) -> None:
    """Measure one run over HTTP at upstream's Placement."""

    def make_provider(client: Client, number: int) -> None:
        name = f"h{number}"
        client.json("POST", "/resource_providers", {"uuid": provider_uuid_of(name), "name": name})

    with roost() as ours, upstream(upstream_venv, postgres_like=ours) as theirs:
        for_each(theirs.url, hosts, make_provider, clients=4)
        asyncio.run(measure(theirs.url, hosts, aggregates))


if __name__ == "__main__":
    typer.run(main)
