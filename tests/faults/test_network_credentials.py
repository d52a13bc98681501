"""A conductor as a process whose network credentials are refused: it starts, builds late, and says so once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from tests.cluster import QUICK, boot, cluster, network_ids, settle, until

from roost.cli.asking.cloud_client import CloudClient
from roost.platform.database import Database

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/27}]}
hosts:
  - {name: r1-h1, vcpus: 64, ram_mb: 32768, disk_gb: 800, physical_networks: [rack1]}
"""
WARNING = "no network credentials: servers are built in the late order"
PROBES = 4
"""Two at the start, two more later."""


class RefusingKeystone:
    """A Keystone that gives nobody a token. asked: how often."""

    def __init__(self) -> None:
        self.asked = 0

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Serve for as long as the block runs; yields its address."""
        runner = web.ServerRunner(web.Server(self._answer))
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _answer(self, _request: web.BaseRequest) -> web.StreamResponse:
        self.asked += 1
        return web.json_response({"error": {"message": "The request requires authentication."}}, status=401)


async def test_a_conductor_that_keystone_refuses_starts_builds_late_and_says_so_once() -> None:
    keystone = RefusingKeystone()
    async with keystone.serve() as keystone_url:
        refused = {
            "ROOST_NETWORK_URL": "http://127.0.0.1:9/network", "ROOST_NETWORK_CREDENTIALS": "warn",
            "ROOST_NETWORK_CREDENTIALS_CHECK_S": "0.2", "OS_AUTH_URL": keystone_url, "OS_USERNAME": "nova",
            "OS_PASSWORD": "wrong", "OS_PROJECT_NAME": "service",
        }  # fmt: skip
        with cluster(QUICK) as made:
            await asyncio.to_thread(made.serve, environment=refused)
            conductor = made.processes[-1]
            await asyncio.to_thread(made.load, CLOUD)
            await asyncio.to_thread(made.agent)
            async with CloudClient.connect(made.url) as client:
                await boot(client, (await network_ids(client))["public"])

                async def is_active() -> bool:
                    return [server["status"] for server in await client.list_servers()] == ["ACTIVE"]

                await until(is_active)

            async def has_probed() -> bool:
                return keystone.asked >= PROBES

            await until(has_probed)
            assert made.log_of(conductor).count(WARNING) == 1
            database = await Database.open(made.dsn, size=1)
            async with database.connection() as connection:
                orders = await connection.fetch("SELECT build_order ->> 'name' FROM compute.server")
            await database.close()
            assert [row[0] for row in orders] == ["late"]
            await settle(made)
