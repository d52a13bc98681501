"""Hosts that were cabled otherwise while their servers are elsewhere, with real agents: no server loses its address."""

import asyncio
from typing import Any

from tests.cluster import Cluster, boot, cluster, network_ids, settle, until
from tests.faults.moving import act, all_are, servers_by_id
from tests.launching import run_manage

from roost.cli.asking.cloud_client import CloudClient
from roost.platform.database import Database
from roost.platform.errors import RoostError

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/29}]}
"""
SOURCE, DESTINATION = "r1-h1", "r1-h2"
ASKED = "10.1.0.5"


async def take_address(client: CloudClient, network: str) -> Any:
    """Make a port that asks for the address of the server's own; return its addresses, or the refusal."""
    body = {"network_id": network, "fixed_ips": [{"ip_address": ASKED}]}
    try:
        return (await client.call("POST", "/network/v2.0/ports", {"port": body}))["port"]["fixed_ips"]
    except RoostError as error:
        return str(error)


async def agent(made: Cluster, host: str, physical_network: str, *options: str) -> Any:
    """Start the host's agent with the state that it has; return once it has reported that physical network."""
    words = (f"--host={host}", f"--physical-network={physical_network}", *options)
    process = made.agent(*words, state=f"agent-{host}")
    database = await Database.open(made.dsn, size=1)

    async def has_reported() -> bool:
        async with database.connection() as connection:
            reported = await connection.fetchval("SELECT physical_networks FROM network.host WHERE name = $1", host)
        return bool(reported == [physical_network])

    try:
        await until(has_reported, what=f"{host} does not report {physical_network}")
    finally:
        await database.close()
    return process


async def test_a_server_that_goes_back_to_a_recabled_host_keeps_its_address() -> None:
    """A migration that fails, and one that is reverted, while the source's agent says P1 where it said rack1."""
    with cluster() as made:
        made.serve()
        made.load(CLOUD)
        source = await agent(made, SOURCE, "rack1")
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["public"]
            body = {"network_id": network, "fixed_ips": [{"ip_address": ASKED}]}
            port = (await client.call("POST", "/network/v2.0/ports", {"port": body}))["port"]["id"]
            server_id = await boot(client, [{"port": port}])
            await all_are(client, "ACTIVE")
            before = (await servers_by_id(client))[server_id]
            destination = await agent(made, DESTINATION, "rack1", "--fake-delay=4", "--fake-fail=1")

            async def is_launching() -> bool:
                return any(line["host"] == DESTINATION for line in made.launches())

            await act(client, server_id, "migrate")
            await until(is_launching, what="the destination is not asked for the guest")
            made.stop(source)
            source = await agent(made, SOURCE, "P1")
            await all_are(client, "ACTIVE")
            after = (await servers_by_id(client))[server_id]
            assert after["OS-EXT-SRV-ATTR:host"] == SOURCE
            assert after["addresses"] == before["addresses"]
            assert f"IP address {ASKED} already allocated" in await take_address(client, network)
            audit = run_manage("audit", "--data-dir", str(made.data_dir))
            assert "host r1-h1 does not reach" in audit.stdout

            made.stop(source)
            made.stop(destination)
            source = await agent(made, SOURCE, "rack1")
            await agent(made, DESTINATION, "rack1")
            await act(client, server_id, "migrate")
            await all_are(client, "VERIFY_RESIZE")
            made.stop(source)
            await agent(made, SOURCE, "P1")
            refusal = await asyncio.gather(act(client, server_id, "revertResize"), return_exceptions=True)
            assert f"The port with address {ASKED} holds the server to segment rack1" in str(refusal[0])
            await all_are(client, "VERIFY_RESIZE")
            await act(client, server_id, "confirmResize")
            await all_are(client, "ACTIVE")
            after = (await servers_by_id(client))[server_id]
            assert (after["OS-EXT-SRV-ATTR:host"], after["addresses"]) == (DESTINATION, before["addresses"])
            await settle(made)
