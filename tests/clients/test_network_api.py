"""Agents' own way to the Network API: ports made, bound and given back over a real socket, tokens, and outages."""

import asyncio
import os
import subprocess
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import web
from granian.constants import Interfaces
from granian.server.embed import Server
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tests.agent.cloud import until_true
from tests.cluster import ROOST
from tests.invariants import assert_books_agree
from tests.network.cloud import PROJECT, Cloud
from tests.network.conftest import MemberCompute
from tests.ports import free_port

from roost.agent.drivers import LaunchFailed
from roost.agent.old_agents import AgentPorts
from roost.cli.network_access import (
    CredentialsMissing,
    conductor_network_api,
    network_api,
    require_credentials,
)
from roost.clients.local_network import LocalNetwork
from roost.clients.local_placement import LocalPlacement
from roost.clients.network_api import NetworkApi
from roost.clients.old_agents import AgentNetworkApi
from roost.conductor.credentials import CredentialsWatch
from roost.network.api import routes
from roost.network.model.networks import Network
from roost.network.model.ports import Port, PortFilter, PortRequest
from roost.network.service import Networks
from roost.network.service.ports import create_port, list_ports
from roost.network.settings import NetworkSettings
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.database import Database
from roost.platform.env import Env
from roost.platform.errors import BadRequest
from roost.platform.mounts import mount
from roost.seams.agent import GuestOrder, NetworkAway, NetworkRefused
from roost.seams.compute import ServerPort, ServerState
from roost.seams.old_agents import PortWanted

SERVER = "5e000000-0000-4000-8000-000000000001"
PORT_ID = str(uuid.uuid5(uuid.UUID(SERVER), "0"))
TOKEN = "a-token"


class Listener:
    """The Network API on a port of its own. token: who asks must show it; None lets in everybody."""

    def __init__(self, networks: Networks) -> None:
        self.networks = networks
        self.token: str | None = None
        self.port = free_port()
        self.asked: list[str] = []
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/network"

    async def start(self) -> None:
        async def guard(request: Request, call_next: Any) -> Response:
            self.asked.append(request.method)
            if self.token is not None and request.headers.get("x-auth-token") != self.token:
                return JSONResponse({"error": {"message": "The request you have made requires authentication."}}, 401)
            answer: Response = await call_next(request)
            return answer

        app = Starlette(
            routes=[mount("/network", routes(self.networks))], middleware=[Middleware(BaseHTTPMiddleware, guard)]
        )
        self._server = Server(app, "127.0.0.1", self.port, interface=Interfaces.ASGI, log_enabled=False)
        self._serving = asyncio.create_task(self._server.serve())
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        if self._server and self._serving:
            self._server.stop()  # type: ignore[no-untyped-call]
            await self._serving


@pytest.fixture
async def cloud(database: Database) -> Cloud:
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    compute = MemberCompute()
    compute.existing.add(SERVER)
    networks = Networks(database=database, env=Env(), placement=LocalPlacement(ledger), compute=compute)
    return Cloud(networks, LocalNetwork(networks), compute)


@pytest.fixture
async def network(cloud: Cloud) -> Network:
    made = await cloud.network()
    segment = await cloud.segment(made, "rack1")
    await cloud.subnet(made, "10.1.0.0/29", segment)
    await LocalNetwork(cloud.networks).set_hosts({"r1-h1": ["rack1"], "r1-h2": ["rack1"], "r2-h1": ["rack2"]})
    return made


@pytest.fixture
async def listener(cloud: Cloud) -> AsyncIterator[Listener]:
    made = Listener(cloud.networks)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def api(listener: Listener) -> AsyncIterator[NetworkApi]:
    made = NetworkApi(listener.url)
    yield made
    await made.close()


def wanted(network: Network, **more: Any) -> PortWanted:
    values = {"server_id": SERVER, "project_id": PROJECT, "host": "r1-h1", "tag": "0", "network_id": network.id}
    return PortWanted(**values | more)


def order_of(*ports: ServerPort, desired: Any = "running") -> GuestOrder:
    return GuestOrder(
        server_id=SERVER, host="r1-h1", attempt=1, desired=desired, project_id=PROJECT, ports=tuple(ports)
    )


def nic(network: Network, **more: Any) -> ServerPort:
    values: dict[str, Any] = {
        "port_id": PORT_ID, "tag": "0", "network_id": network.id, "network_name": "net", "mac_address": "",
        "addresses": (), "preserve_on_delete": False, "binding": "none",
    }  # fmt: skip
    return ServerPort(**values | more)


async def ports_of(cloud: Cloud) -> dict[str, Port]:
    return {port.id: port for port in await list_ports(cloud.networks, PortFilter())}


async def test_a_port_that_is_asked_for_twice_is_made_once_with_the_id_of_its_nic(
    cloud: Cloud, network: Network, api: NetworkApi
) -> None:
    first = await AgentNetworkApi(api).take_port(wanted(network))
    again = await asyncio.gather(*(AgentNetworkApi(api).take_port(wanted(network)) for _ in range(4)))
    assert {answer.id for answer in again} == {first.id} == {PORT_ID}
    (port,) = (await ports_of(cloud)).values()
    assert (port.host, port.made_for, port.device_id, len(port.addresses)) == ("r1-h1", SERVER, SERVER, 1)
    assert first.addresses == tuple(item.address for item in port.addresses)


async def test_no_port_is_made_for_a_server_that_is_gone(cloud: Cloud, network: Network, api: NetworkApi) -> None:
    compute = cloud.networks.compute
    assert isinstance(compute, MemberCompute)
    compute.existing.clear()
    with pytest.raises(NetworkRefused, match="no port is made for it"):
        await AgentNetworkApi(api).take_port(wanted(network))
    answers = iter([{SERVER: ServerState(claiming=True, unfinished=True)}, {}])

    async def going(_server_ids: Sequence[str]) -> dict[str, ServerState]:
        return next(answers)

    compute.get_server_states = going  # type: ignore[method-assign]
    with pytest.raises(NetworkRefused, match="no port is made for it"):
        await AgentNetworkApi(api).take_port(wanted(network))
    assert await ports_of(cloud) == {}
    await assert_books_agree(cloud.networks.database)


async def test_a_host_that_reaches_no_segment_is_refused_and_nothing_is_claimed(
    cloud: Cloud, network: Network, api: NetworkApi
) -> None:
    with pytest.raises(NetworkRefused, match="r2-h1"):
        await AgentNetworkApi(api).take_port(wanted(network, host="r2-h1"))
    assert all(port.host is None and not port.addresses for port in (await ports_of(cloud)).values())
    taken = await AgentNetworkApi(api).take_port(wanted(network))
    assert len(taken.addresses) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"binding:profile": {"roost_nic": 1}, "binding:host_id": "r1-h1", "device_id": SERVER}, "tag of a NIC"),
        ({"binding:profile": {"roost_nic": "0"}, "device_id": SERVER}, "binding:host_id"),
        ({"binding:profile": {"roost_nic": "0"}, "binding:host_id": "r1-h1", "device_id": "web"}, "device_id"),
        ({"binding:profile": {"roost_nic": "0"}, "binding:host_id": "r1-h1"}, "device_id"),
    ],
)
async def test_what_an_agent_says_wrong_is_named(
    network: Network, api: NetworkApi, body: dict[str, Any], says: str
) -> None:
    with pytest.raises(NetworkRefused, match=says) as refused:
        await api.call("POST", "/ports", {"port": {"network_id": network.id, **body}})
    assert refused.value.status == 400


async def test_a_port_is_bound_only_as_it_was_when_the_order_was_made(
    cloud: Cloud, network: Network, api: NetworkApi
) -> None:
    taken = await AgentNetworkApi(api).take_port(wanted(network))
    revision = (await ports_of(cloud))[taken.id].revision
    moved = await AgentNetworkApi(api).take_port(wanted(network, port_id=taken.id, host="r1-h2", revision=revision))
    assert moved.addresses == taken.addresses
    with pytest.raises(NetworkRefused, match="revision"):
        await AgentNetworkApi(api).take_port(wanted(network, port_id=taken.id, host="r1-h1", revision=revision))
    assert (await ports_of(cloud))[taken.id].host == "r1-h2"


async def test_agents_take_what_is_missing_and_leave_what_is_bound(
    cloud: Cloud, network: Network, api: NetworkApi, listener: Listener
) -> None:
    users = await create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    own = nic(network, tag="1", port_id=users.id, preserve_on_delete=True, binding="unbound", revision=users.revision)
    ports = AgentPorts(AgentNetworkApi(api), service_version=1)
    taken = await ports.take(order_of(nic(network), own))
    assert [(port.port_id, port.binding, len(port.addresses)) for port in taken.ports] == [
        (PORT_ID, "bound", 1),
        (users.id, "bound", 1),
    ]
    listener.asked.clear()
    assert await ports.take(taken) == taken
    assert listener.asked == []


@pytest.mark.parametrize(("version", "left"), [(1, {"users"}), (2, {"users", "made"}), (3, {"users", "made"})])
async def test_only_agents_of_version_1_delete_ports_and_never_a_users(
    cloud: Cloud, network: Network, api: NetworkApi, version: int, left: set[str]
) -> None:
    users = await create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    own = nic(network, tag="1", port_id=users.id, preserve_on_delete=True, binding="unbound", revision=users.revision)
    ports = AgentPorts(AgentNetworkApi(api), service_version=version)
    taken = await ports.take(order_of(nic(network), own))
    async with cloud.networks.database.connection() as connection:  # the build has come to its end
        await connection.execute("UPDATE network.port SET reserved_from = NULL")
    await ports.give_back(order_of(*taken.ports, desired="absent"))
    names = {users.id: "users", PORT_ID: "made"}
    now = await ports_of(cloud)
    assert {names[port_id] for port_id in now} == left
    assert (now[users.id].device_id == "") == (version == 1)
    await ports.give_back(order_of(*taken.ports, desired="absent"))  # what is gone is gone


async def test_an_agent_without_credentials_says_so(network: Network) -> None:
    with pytest.raises(LaunchFailed, match="the agent of r1-h1 has no network credentials"):
        await AgentPorts(None, service_version=3).take(order_of(nic(network)))


async def test_a_launch_waits_for_a_network_service_that_is_away(
    cloud: Cloud, network: Network, listener: Listener, api: NetworkApi
) -> None:
    await listener.stop()
    taking = asyncio.create_task(AgentPorts(AgentNetworkApi(api), service_version=1).take(order_of(nic(network))))
    with pytest.raises(NetworkAway):
        await api.check()
    assert not taking.done()
    await listener.start()
    taken = await asyncio.wait_for(taking, 20)
    assert taken.ports[0].binding == "bound"


async def test_a_call_under_way_ends_before_a_launch_is_given_up(
    cloud: Cloud, network: Network, listener: Listener, api: NetworkApi
) -> None:
    taking = asyncio.create_task(AgentPorts(AgentNetworkApi(api), service_version=1).take(order_of(nic(network))))
    await until_true(lambda: bool(listener.asked))
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert (await ports_of(cloud))[PORT_ID].host == "r1-h1"


async def test_a_token_that_is_replaced_is_read_anew(network: Network, listener: Listener, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    listener.token = TOKEN
    api = network_api(listener.url, file, {}, timeout_s=5)
    try:
        await api.check()
        listener.token = "another"
        with pytest.raises(NetworkRefused, match=r"is refused \(401\)") as refused:
            await api.check()
        assert refused.value.is_credentials
        file.write_text("another\n")
        await api.check()
        file.unlink()
        listener.token = TOKEN
        with pytest.raises(NetworkRefused, match="No such file"):
            await api.check()
    finally:
        await api.close()


@pytest.mark.parametrize(
    ("credentials", "token", "path", "says"),
    [
        pytest.param("require", None, "", None, id="nobody asks for any"),
        pytest.param("require", TOKEN, "", 'credentials = "require", and the conductor has none for', id="missing"),
        pytest.param("warn", TOKEN, "", None, id="it is said, and no more"),
        pytest.param("require", TOKEN, "/elsewhere", None, id="what is no Network API says nothing of credentials"),
    ],
)
async def test_a_conductor_does_not_start_without_what_it_must_have(
    listener: Listener, credentials: Any, token: str | None, path: str, says: str | None
) -> None:
    listener.token = None if path else token
    settings = NetworkSettings(url=listener.url + path, credentials=credentials)
    if says is None:
        await require_credentials(settings, {})
        return
    with pytest.raises(CredentialsMissing, match=says):
        await require_credentials(settings, {})


@asynccontextmanager
async def answering(what: int | str) -> AsyncIterator[str]:
    """A service that answers everything with a status, that stalls, or that is closed; yields its address."""

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        if what == "stalls":
            await asyncio.Event().wait()
        return web.json_response({}, status=int(what))

    if what == "closed":
        yield f"http://127.0.0.1:{free_port()}"
        return
    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("whose", ["network", "keystone"])
@pytest.mark.parametrize("what", ["closed", "stalls", 408, 429, 500, 502, 503, 504])
async def test_a_service_that_is_down_stops_no_start(
    whose: str, what: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it mistaken for missing credentials, by the conductor that then runs."""
    monkeypatch.setattr("roost.cli.network_access.CHECK_TIMEOUT_S", 0.2)
    async with answering(what) as url:
        settings = NetworkSettings(url=url, credentials="require")
        environment = {
            "OS_AUTH_URL": url, "OS_USERNAME": "nova", "OS_PASSWORD": "secret", "OS_PROJECT_NAME": "service",
        } if whose == "keystone" else {}  # fmt: skip
        with structlog.testing.capture_logs() as logs:
            await require_credentials(settings, environment)
        assert [line["event"] for line in logs] == ["network credentials are tried later"]
        api = conductor_network_api(settings, environment)
        assert api is not None
        try:
            assert (await CredentialsWatch(api.check).look()).usable
        finally:
            await api.close()


def test_half_of_keystones_variables_are_named() -> None:
    with pytest.raises(BadRequest, match="OS_AUTH_URL is set, and OS_PASSWORD is not"):
        network_api("http://127.0.0.1:1", None, {"OS_AUTH_URL": "http://k", "OS_USERNAME": "nova"}, timeout_s=1)


async def test_serve_says_which_credentials_are_missing_and_starts_nothing(listener: Listener, tmp_path: Path) -> None:
    listener.token = TOKEN
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
        "ROOST_NETWORK_URL": listener.url,
        "ROOST_NETWORK_CREDENTIALS": "require",
    }
    command = [*ROOST, "serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False, timeout=60, env=environment
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert '[network] credentials = "require", and the conductor has none for' in done.stderr
    assert "Set [network] token_file, or OS_AUTH_URL and what belongs to it" in done.stderr
    assert not (tmp_path / "data").exists()
