"""What happens to a cloud whose processes are killed at crash points: the same for networks of all kinds."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager

from tests.cluster import Cluster, Process, boot, cluster, network_ids, settle, until

from roost.cli.asking.cloud_client import CloudClient, CloudRefused
from roost.cli.serving.crash_points import CRASH_POINTS
from roost.platform.database import Database

DUE = "SELECT count(*) FROM network.publication WHERE wanted > published"
STRAY = "5c3a6f0e-0000-4000-8000-000000000001"


def points(*stages: str) -> list[str]:
    """The crash points of these stages."""
    return [point for point in CRASH_POINTS if point.split(".")[0] in stages]


RETRY, PUBLISH, RECONCILE = points("retry"), points("publish"), points("reconcile")
MOVES = points("copy", "stop", "settle", "confirm", "restore", "offload")
"""Tried in test_moves.py, by servers with a port and an address of a pool; only those that move come by."""
CHANGE = "agent.after-change"
"""Tried in test_moves.py, and in tests/clients/test_server_actions.py on a server that is there."""
AGENT = [point for point in points("agent") if point != CHANGE]


@contextmanager
def without_conductor(cloud: str) -> Iterator[Cluster]:
    """Everything but a conductor: each test brings one, which it lets crash."""
    with cluster() as made:
        made.serve("placement", "network", "compute")
        made.load(cloud)
        yield made


@asynccontextmanager
async def crashing(made: Cluster, point: str, *agent_options: str) -> AsyncIterator[CloudClient]:
    """Agents, and a conductor that is killed at the point and started again; it ends with this.

    So do agents with options; one without serves the next test too.
    """
    if agent_options:
        stop_agents(made)
    if agent_options or not agents(made):
        made.agent(*agent_options)
    made.serve("conductor", environment={"ROOST_CRASH_AT": point})
    conductor = made.processes[-1]
    try:
        async with CloudClient.connect(made.url) as client:
            yield client
    finally:
        made.stop(conductor)
        if agent_options:
            stop_agents(made)


def agents(made: Cluster) -> list[Process]:
    """The agents that are there."""
    return [process for process in made.processes if "agent" in process.args]


def stop_agents(made: Cluster) -> None:
    """End them, so that another one can have their hosts."""
    for agent in agents(made):
        made.stop(agent)


async def fill_and_empty(made: Cluster, point: str, networks: Sequence[str], *, count: int) -> None:
    """`count` servers on the networks get all addresses of the first, one more gets none, all are deleted."""
    async with crashing(made, point) as client:
        ids = await network_ids(client)
        await boot(client, [{"uuid": ids[name]} for name in networks], count=count)
        await settle(made)
        assert await statuses(client) == ["ACTIVE"] * count
        await boot(client, ids[networks[0]], name="one-too-many")
        await settle(made)
        assert (await statuses(client)).count("ERROR") == 1
        await delete_all(made, client)
        await crashed(made, point)


async def fail_and_move(made: Cluster, point: str, networks: Sequence[str]) -> None:
    """The first launch of a server fails, so that it leaves its host and what it has there."""
    async with crashing(made, point, "--fake-fail=1") as client:
        ids = await network_ids(client)
        await boot(client, [{"uuid": ids[name]} for name in networks])
        await settle(made)
        assert await statuses(client) == ["ACTIVE"]
        await crashed(made, point)
        await delete_all(made, client)


async def kill_agent(made: Cluster, point: str, network: str) -> None:
    """The agent is killed while it makes servers, and goes on where it was."""
    stop_agents(made)
    made.agent(environment={"ROOST_CRASH_AT": point}, state=f"agent-{point}")
    agent = made.processes[-1]
    made.serve("conductor")
    conductor = made.processes[-1]
    try:
        async with CloudClient.connect(made.url) as client:
            await boot(client, (await network_ids(client))[network], count=4)
            assert agent.wait(30) == -9
            made.stop(agent)
            made.agent(state=f"agent-{point}")
            await settle(made)
            assert await statuses(client) == ["ACTIVE"] * 4
            assert len({launch["server_id"] for launch in made.launches()}) >= 4
            await delete_all(made, client)
    finally:
        made.stop(conductor)
        stop_agents(made)


async def kill_publisher(cloud: str, point: str, network: str, *, count: int) -> None:
    """An API worker is killed while it tells the ledger of a subnet; all addresses of the network can be had."""
    with cluster() as made:
        made.serve(environment={"ROOST_CRASH_AT": f"{point}:2"})
        (made.directory / "cloud.yaml").write_text(cloud)
        made.spawn("load", str(made.directory / "cloud.yaml"), "--api", made.url).wait(60)
        await crashed(made, point)
        await up(made)
        made.load(cloud)
        # Nobody was told that the subnet is there: its addresses are capacity once the dead worker's lease has run out.
        await until(lambda: nothing_due(made), what="a segment is still to be published")
        made.agent()
        async with CloudClient.connect(made.url) as client:
            await boot(client, (await network_ids(client))[network], count=count)
            await settle(made)
            assert await statuses(client) == ["ACTIVE"] * count


async def kill_reconciler(made: Cluster, point: str, claimed: Mapping[str, Mapping[str, int]]) -> None:
    """What a server that does not exist has claimed is returned. claimed: provider's name -> resources."""
    async with CloudClient.connect(made.url) as client:
        found = await client.call("GET", "/placement/resource_providers")
        uuids = {provider["name"]: provider["uuid"] for provider in found["resource_providers"]}
        allocations = {uuids[name]: {"resources": resources} for name, resources in claimed.items()}
        who = {"consumer_type": "INSTANCE", "project_id": "p", "user_id": "u", "consumer_generation": None}
        await client.call("PUT", f"/placement/allocations/{STRAY}", {"allocations": allocations, **who})
        made.serve("conductor", environment={"ROOST_CRASH_AT": point})
        conductor = made.processes[-1]
        try:
            await crashed(made, point)

            async def returned() -> bool:
                return not (await client.call("GET", f"/placement/allocations/{STRAY}"))["allocations"]

            await until(returned)
            await settle(made)
        finally:
            made.stop(conductor)


async def crashed(made: Cluster, point: str) -> None:
    """The point was really come by: a supervisor says that a child was killed."""

    async def said() -> bool:
        return made.said('"status":-9')

    await until(said, what=f"nothing came by {point}: {made.logs()}")


async def statuses(client: CloudClient) -> list[str]:
    return sorted(server["status"] for server in await client.list_servers())


async def delete_all(made: Cluster, client: CloudClient) -> None:
    for server in await client.list_servers():
        await client.call("DELETE", f"/compute/v2.1/servers/{server['id']}")
    await settle(made)
    assert await statuses(client) == []


async def up(made: Cluster) -> None:
    async with CloudClient.connect(made.url) as client:
        await up_client(client)


async def up_client(client: CloudClient) -> None:
    async def answers() -> bool:
        try:
            await client.call("GET", "/network/v2.0/networks")
        except CloudRefused:
            return False
        return True

    await until(answers)


async def nothing_due(made: Cluster) -> bool:
    """The ledger knows all that was committed."""
    database = await Database.open(made.dsn, size=1)
    try:
        async with database.connection() as connection:
            return not await connection.fetchval(DUE)
    finally:
        await database.close()
