"""SIGKILL at every named crash point: every accepted server comes to its end, and nothing is leaked."""

from collections.abc import Iterator

import pytest
from tests.cluster import Cluster, boot, cluster, network_ids, settle, until

from roost.cli.cloud_client import CloudClient, CloudRefused
from roost.platform.crash import CRASH_POINTS
from roost.platform.database import Database

# One host in each rack: after a failed launch there, a server has to leave its segment.
CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 101,
         subnets: [{cidr: 203.0.113.0/29}]}
      - {name: rack2, physical_network: rack2, network_type: vlan, segmentation_id: 102,
         subnets: [{cidr: 203.0.113.16/28}]}
  - name: backend
    physical_network: backend
    subnets: [{cidr: 10.0.0.0/24}]
hosts:
  - {name: 'r1-h1', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1, backend]}
  - {name: 'r2-h1', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack2, backend]}
"""
ADDRESSES = 5 + 13
DUE = "SELECT count(*) FROM network.publication WHERE wanted > published"

CONDUCTOR = [
    p for p in CRASH_POINTS if p.split(".")[0] in ("create_ports", "place", "bind", "launch", "fail", "delete")
]
RETRY = [point for point in CRASH_POINTS if point.startswith("retry.")]
AGENT = [point for point in CRASH_POINTS if point.startswith("agent.")]
PORT = [point for point in CRASH_POINTS if point.startswith("port.")]
AT_DELETE = ("port.after-unassign", "port.before-tell", "port.after-tell")
PUBLISH = [point for point in CRASH_POINTS if point.startswith("publish.")]
RECONCILE = [point for point in CRASH_POINTS if point.startswith("reconcile.")]


@pytest.fixture(scope="module")
def services() -> Iterator[Cluster]:
    """Everything but a conductor: each test brings one, which it lets crash."""
    with cluster() as made:
        made.serve("placement", "network", "compute")
        made.load(CLOUD)
        yield made


async def crashed(made: Cluster, point: str) -> None:
    """The point was really come by: a supervisor says which child was killed."""

    async def said() -> bool:
        return "SIGKILL" in made.logs() or "-9" in made.logs()

    await until(said, what=f"nothing came by {point}: {made.logs()}")


async def statuses(client: CloudClient) -> list[str]:
    return sorted(server["status"] for server in await client.list_servers())


async def delete_all(made: Cluster, client: CloudClient) -> None:
    for server in await client.list_servers():
        await client.call("DELETE", f"/compute/v2.1/servers/{server['id']}")
    await settle(made)
    assert await statuses(client) == []


@pytest.mark.parametrize("point", CONDUCTOR)
async def test_a_conductor_killed_there_leaks_nothing(services: Cluster, point: str) -> None:
    services.agent()
    agent = services.processes[-1]
    services.serve("conductor", environment={"ROOST_CRASH_AT": point})
    conductor = services.processes[-1]
    try:
        async with CloudClient.connect(services.url) as client:
            network = (await network_ids(client))["public"]
            await boot(client, network, count=ADDRESSES)
            await settle(services)
            assert await statuses(client) == ["ACTIVE"] * ADDRESSES
            await boot(client, network, name="one-too-many")
            await settle(services)
            assert (await statuses(client)).count("ERROR") == 1
            await delete_all(services, client)
            await crashed(services, point)
    finally:
        services.stop(conductor)
        services.stop(agent)


@pytest.mark.parametrize("point", RETRY)
async def test_a_conductor_killed_while_a_server_leaves_its_segment_leaks_nothing(
    services: Cluster, point: str
) -> None:
    services.agent("--fake-fail=1")
    agent = services.processes[-1]
    services.serve("conductor", environment={"ROOST_CRASH_AT": point})
    conductor = services.processes[-1]
    try:
        async with CloudClient.connect(services.url) as client:
            networks = await network_ids(client)
            await boot(client, [{"uuid": networks["public"]}, {"uuid": networks["backend"]}])
            await settle(services)
            assert await statuses(client) == ["ACTIVE"]
            await crashed(services, point)
            await delete_all(services, client)
    finally:
        services.stop(conductor)
        services.stop(agent)


@pytest.mark.parametrize("point", AGENT)
async def test_an_agent_killed_there_goes_on_where_it_was(services: Cluster, point: str) -> None:
    services.agent(environment={"ROOST_CRASH_AT": point}, state="agent-killed")
    agent = services.processes[-1]
    services.serve("conductor")
    conductor = services.processes[-1]
    try:
        async with CloudClient.connect(services.url) as client:
            network = (await network_ids(client))["public"]
            await boot(client, network, count=4)
            assert agent.wait(30) == -9
            services.agent(state="agent-killed")
            await settle(services)
            assert await statuses(client) == ["ACTIVE"] * 4
            assert len({launch["server_id"] for launch in services.launches()}) >= 4
            await delete_all(services, client)
    finally:
        services.stop(conductor)
        services.stop(services.processes[-1])


@pytest.mark.parametrize("point", PORT)
async def test_an_api_worker_killed_while_a_port_gets_or_loses_its_address_leaks_nothing(point: str) -> None:
    with cluster() as made:
        made.serve(environment={"ROOST_CRASH_AT": point})
        made.load(CLOUD)
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["backend"]
            for number in range(3):
                # The device may be a server: then compute is told of the delete.
                body = {"network_id": network, "device_id": f"5c3a6f0e-0000-4000-8000-00000000000{number}"}
                await attempt(client, "POST", "/network/v2.0/ports", {"port": body})
            await crashed(made, point) if point not in AT_DELETE else None
            for port in await listed(client, "ports"):
                await attempt(client, "DELETE", f"/network/v2.0/ports/{port['id']}")
            await crashed(made, point)
            await up(made)
            await settle(made)
            for port in await listed(client, "ports"):
                await client.call("DELETE", f"/network/v2.0/ports/{port['id']}")
            await until(lambda: nothing_claimed(client), what="claims are left")
            await settle(made)


@pytest.mark.parametrize("point", PUBLISH)
async def test_an_api_worker_killed_while_it_publishes_a_segment_is_healed(point: str) -> None:
    with cluster() as made:
        made.serve(environment={"ROOST_CRASH_AT": f"{point}:2"})
        (made.directory / "cloud.yaml").write_text(CLOUD)
        made.spawn("load", str(made.directory / "cloud.yaml"), "--api", made.url).wait(60)
        await crashed(made, point)
        await up(made)
        made.load(CLOUD)
        # Nobody was told that the subnet is there: its addresses are capacity once the dead worker's lease has run out.
        await until(lambda: nothing_due(made), what="a segment is still to be published")
        made.agent()
        async with CloudClient.connect(made.url) as client:
            await boot(client, (await network_ids(client))["public"], count=ADDRESSES)
            await settle(made)
            assert await statuses(client) == ["ACTIVE"] * ADDRESSES


@pytest.mark.parametrize("point", RECONCILE)
async def test_a_reconciler_killed_there_returns_what_nobody_may_hold(services: Cluster, point: str) -> None:
    stray = "5c3a6f0e-0000-4000-8000-000000000001"
    async with CloudClient.connect(services.url) as client:
        hosts = await client.call("GET", "/placement/resource_providers?name=r1-h1")
        host = hosts["resource_providers"][0]["uuid"]
        claim = {"allocations": {host: {"resources": {"VCPU": 1}}}, "consumer_type": "INSTANCE"}
        who = {"project_id": "p", "user_id": "u", "consumer_generation": None}
        await client.call("PUT", f"/placement/allocations/{stray}", {**claim, **who})
        services.serve("conductor", environment={"ROOST_CRASH_AT": point})
        conductor = services.processes[-1]
        try:
            await crashed(services, point)

            async def returned() -> bool:
                return not (await client.call("GET", f"/placement/allocations/{stray}"))["allocations"]

            await until(returned)
            await settle(services)
        finally:
            services.stop(conductor)


async def attempt(client: CloudClient, method: str, path: str, body: object = None) -> None:
    """A request that may be cut off by the crash."""
    try:
        await client.call(method, path, body)
    except CloudRefused as error:
        if error.status not in (0, 404, 409, 503):
            raise


async def listed(client: CloudClient, kind: str) -> list[dict[str, object]]:
    await up_client(client)
    return await client.list_all(f"/network/v2.0/{kind}", kind)


async def up_client(client: CloudClient) -> None:
    async def answers() -> bool:
        try:
            await client.call("GET", "/network/v2.0/networks")
        except CloudRefused:
            return False
        return True

    await until(answers)


async def up(made: Cluster) -> None:
    async with CloudClient.connect(made.url) as client:
        await up_client(client)


async def nothing_due(made: Cluster) -> bool:
    """The ledger knows all that was committed."""
    database = await Database.open(made.dsn, size=1)
    try:
        async with database.connection() as connection:
            return not await connection.fetchval(DUE)
    finally:
        await database.close()


async def nothing_claimed(client: CloudClient) -> bool:
    network = (await network_ids(client))["backend"]
    usages = await client.call("GET", f"/placement/resource_providers/{network}/usages")
    return usages["usages"] == {"IPV4_ADDRESS": 0}
