"""Servers, work and guest rows without a conductor, and the agent API on a real socket, for the agent's tests."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import msgspec
from granian.constants import Interfaces
from granian.server.embed import Server
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from roost.compute.api.agent import routes
from roost.compute.model.work import CHANNELS, GUEST_CHANNEL, WORK_CHANNEL
from roost.compute.service import Compute
from roost.compute.service.leases import LeaseRequest, Renewed, renew_leases
from roost.compute.service.nics import ask_for_nics
from roost.platform.database import Database
from roost.platform.env import Env
from roost.platform.errors import RoostError
from roost.platform.mounts import mount
from roost.platform.wakeup import Wakeups
from roost.seams.agent import AgentIdentity
from roost.seams.compute import RequestSpec, ServerPort
from roost.seams.placement import ProviderState
from roost.seams.unknown_guests import HeldAddresses

DEADLINE_S = 20.0
AGENT = AgentIdentity(id="a0000000-0000-0000-0000-00000000000a", label="a test")
"""Who serves the hosts that a test plays itself."""


class Neighbours:
    """Placement and network service as far as a host's registration knows them: they take it and forget it."""

    async def ensure_providers(self, states: Sequence[ProviderState]) -> None:
        """Take it."""

    async def set_hosts(self, physical_networks_by_host: Mapping[str, Sequence[str]], **_cells: object) -> None:
        """Take it."""

    async def hold_addresses(self, _guests_by_host: object, **_as_of: object) -> list[HeldAddresses]:
        """Hold nothing."""
        return []

    async def list_held_addresses(self, _guests: object) -> list[HeldAddresses]:
        """Hold nothing."""
        return []

    async def give_up_ports(self, _server_ids: object) -> None:
        """Hold nothing."""


def compute_of(database: Database) -> Compute:
    """A compute service with next to no neighbours: guests need none of them, hosts only to register."""
    neighbours = cast("Any", Neighbours())
    return Compute(
        database=database, env=Env(), placement=neighbours, network=neighbours, wakeups=Wakeups(database, CHANNELS)
    )


async def take_leases(compute: Compute, hosts: Sequence[str], agent: AgentIdentity) -> Renewed:
    """What the agent holds once it asked for these hosts. Raises its error."""
    (renewed,) = await renew_leases(compute, [LeaseRequest(tuple(hosts), agent)])
    if isinstance(renewed, RoostError):
        raise renewed
    return renewed


@asynccontextmanager
async def serving(compute: Compute, port: int) -> AsyncIterator[str]:
    """The main API's pointer and the agent API on one listener; gives its URL once it answers."""
    url = f"http://127.0.0.1:{port}"

    async def listener(_request: Request) -> Response:
        return JSONResponse({"url": f"{url}/agent/v1"})

    app = Starlette(routes=[Route("/agent/v1", listener), mount("/agent/v1", routes(compute))])
    server = Server(
        app, "127.0.0.1", port, interface=Interfaces.ASGI, log_enabled=False, backlog=1024, backpressure=8192
    )
    serving_task = asyncio.create_task(server.serve())
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            break
        await asyncio.sleep(0.01)
    try:
        yield url
    finally:
        server.stop()
        await serving_task


async def declare_hosts(database: Database, names: Sequence[str]) -> None:
    """Hosts as a cloud file declares them."""
    async with database.transaction() as tx:
        await tx.execute(
            "INSERT INTO compute.host (name, provider_uuid, vcpus, ram_mb, disk_gb, physical_networks, declared)"
            " SELECT name, gen_random_uuid(), 8, 8192, 100, '{}', true FROM unnest($1::text[]) AS name",
            names,
        )


async def order_guests(compute: Compute, hosts: Sequence[str], *, attempt: int = 1) -> list[str]:
    """One server in the launch stage for each of the hosts, in order; gives their ids."""
    server_ids = [str(uuid.uuid4()) for _ in hosts]
    spec = msgspec.json.encode(RequestSpec(vcpus=1, memory_mb=512, disk_gb=1)).decode()
    async with compute.database.transaction() as tx:
        await tx.execute(
            "INSERT INTO compute.server (id, name, project_id, user_id, flavor, spec)"
            " SELECT id, 'a server', 'p', 'u', '{}', $2::jsonb FROM unnest($1::uuid[]) AS id",
            server_ids, spec,
        )  # fmt: skip
        await tx.execute(
            "INSERT INTO compute.work (server_id, stage, attempt, run_at)"
            " SELECT id, 'launch', $2, now() + interval '1 hour' FROM unnest($1::uuid[]) AS id",
            server_ids, attempt,
        )  # fmt: skip
        await tx.execute(
            "INSERT INTO compute.guest (server_id, host, attempt, desired)"
            " SELECT id, host, $3, 'running' FROM unnest($1::uuid[], $2::text[]) AS g (id, host)",
            server_ids, hosts, attempt,
        )  # fmt: skip
    compute.wake(GUEST_CHANNEL)
    return server_ids


async def change_ports(compute: Compute, server_id: str, ports: Sequence[ServerPort]) -> None:
    """The server has these ports from now on, and its guest is asked for."""
    async with compute.database.transaction() as tx:
        told = msgspec.json.encode(ports).decode()
        await tx.execute("UPDATE compute.server SET network_info = $2::jsonb WHERE id = $1", server_id, told)
    await ask_for_nics(compute, [server_id])


async def delete_servers(compute: Compute, server_ids: Sequence[str]) -> None:
    """Want the servers' guests absent, their work in the delete stage waiting for that."""
    async with compute.database.transaction() as tx:
        await tx.execute("UPDATE compute.guest SET desired = 'absent' WHERE server_id = ANY($1::uuid[])", server_ids)
        await tx.execute(
            "UPDATE compute.work SET stage = 'delete', run_at = now() + interval '1 hour'"
            " WHERE server_id = ANY($1::uuid[])",
            server_ids,
        )
    compute.wake(GUEST_CHANNEL)


async def until(compute: Compute, sql: str, *arguments: Any, gives: Any) -> None:
    """Until the query's one value is as said; looks again whenever work moves on."""
    wakeups = compute.wakeups
    assert wakeups is not None
    async with asyncio.timeout(DEADLINE_S):
        while True:
            heard = wakeups.count(WORK_CHANNEL)
            async with compute.database.connection() as connection:
                found = await connection.fetchval(sql, *arguments)
            if found == gives:
                return
            await wakeups.wait(WORK_CHANNEL, 0.1, since=heard)


async def until_true(condition: Callable[[], bool]) -> None:
    """Until the condition holds."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.01)
