"""An agent of version 1 is killed and started again: on delete it still knows which ports are Roost's."""

import json
import signal
from typing import Any

from tests.cluster import REQUEST_LINE, Cluster, boot, cluster, network_ids, settle, until

from roost.cli.asking.cloud_client import CloudClient

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/28}]}
hosts:
  - {name: only, vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}
"""


async def test_an_old_agent_that_was_killed_deletes_what_was_made_and_detaches_a_users_port() -> None:
    with cluster() as made:
        made.serve(environment={"ROOST_COMPUTE_SERVICE_VERSION_MIN": "1"})
        made.load(CLOUD)
        agent = made.agent("--service-version=1", state="agent-old")
        async with CloudClient.connect(made.url) as client:
            network_id = (await network_ids(client))["public"]
            body = {"port": {"network_id": network_id, "name": "mine"}}
            users_port = (await client.call("POST", "/network/v2.0/ports", body))["port"]["id"]
            server_ids = [await boot(client, [{"port": users_port}]), await boot(client, network_id)]

            async def active() -> bool:
                return [server["status"] for server in await client.list_servers()] == ["ACTIVE"] * 2

            await until(active, what=f"not both are ACTIVE\n{made.logs()}")
            await settle(made)
            ports = await client.list_all("/network/v2.0/ports", "ports")
            (port_made,) = (port["id"] for port in ports if port["id"] != users_port)
            made.stop(agent, signal.SIGKILL)
            made.agent("--service-version=1", state="agent-old")
            for server_id in server_ids:
                await client.call("DELETE", f"/compute/v2.1/servers/{server_id}")
            await settle(made)
            (port,) = await client.list_all("/network/v2.0/ports", "ports")
            assert (port["id"], port["device_id"], port["binding:host_id"]) == (users_port, "", "")
        # Conductors call the network service without HTTP, and this client deletes no port: these are the agent's.
        assert port_requests(made) >= {("DELETE", port_made, 204), ("PUT", users_port, 200)}
        assert ("DELETE", users_port) not in {(method, port_id) for method, port_id, _ in port_requests(made)}
        assert len(made.launches()) == 2


def port_requests(made: Cluster) -> set[tuple[Any, str, Any]]:
    """What was asked of single ports over HTTP: method, port and status."""
    logs = [log.read_text().splitlines() for log in made.directory.glob("serve-*.log")]
    lines = [json.loads(line) for log in logs for line in log if REQUEST_LINE in line]
    return {
        (line["method"], line["path"].rpartition("/")[2], line["status"])
        for line in lines
        if line["path"].startswith("/network/v2.0/ports/")
    }
