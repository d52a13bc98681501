"""`explain` and `capacity` as callers of the API meet them, of a whole Roost in one process: what is said, boots."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from tests.conductor.world import BY, World
from tests.platform.asgi import Answer, ask

from roost.clients.local_placement import LocalPlacement
from roost.compute.service.events import EVENTS
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.compute.service.hosts import disable_host
from roost.compute.service.servers import delete_server, get_server
from roost.network.model.networks import Network
from roost.platform.database import Database
from roost.platform.events import DRAIN, Event, Subject
from roost.platform.mounts import mount
from roost.seeing.api import routes
from roost.seeing.service.context import Seeing
from roost.seeing.service.events import EventSource


class Asked:
    """Who asks a world's operator's side."""

    def __init__(self, world: World) -> None:
        conductor, placement = world.conductor, world.compute.placement
        assert isinstance(placement, LocalPlacement)
        self.world = world
        events = (EventSource(EVENTS, world.database),)
        services = (world.compute, world.networks, conductor.env)
        self.seeing = Seeing(*services, conductor.scheduling, placement.service, events)
        self.app = Starlette(routes=[mount("/roost", routes(self.seeing))])

    async def get(self, path: str) -> Answer:
        return await ask(self.app, f"/roost/v1/{path}")

    async def post(self, path: str, body: dict[str, Any]) -> Answer:
        return await ask(self.app, f"/roost/v1/{path}", method="POST", body=msgspec.json.encode(body))

    async def booted(self, network: Network, count: int) -> int:
        """Boot servers; how many became ACTIVE."""
        servers = await self.world.boot(network.id, count=count)
        await self.world.run()
        statuses = await self.world.statuses()
        return sum(statuses[server] == "ACTIVE" for server in servers)


@pytest.fixture
async def asked(database: Database) -> Asked:
    world = await World.make(database, arrangement="local")
    await world.hosts("r1-h1", "r1-h2", reach=["rack1"], vcpus=4)
    await world.hosts("r2-h1", reach=["rack2"], vcpus=4)
    return Asked(world)


async def test_as_many_boot_as_capacity_says(asked: Asked) -> None:
    network = await asked.world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/26")
    answer = (await asked.get(f"capacity?flavor=small&network={network.id}")).body["servers"]
    assert (answer["exact"], answer["least"], answer["most"]) == (True, 9, 9)
    assert {s["segment"]: (s["on_hosts"], s["by_addresses"], s["fits"]) for s in answer["segments"]} == {
        "rack1": (8, 5, 5), "rack2": (4, 61, 4),
    }  # fmt: skip
    assert [(zone["name"], zone["most"]) for zone in answer["zones"]] == [("nova", 9)]
    assert await asked.booted(network, 9) == 9
    answer = (await asked.get(f"capacity?flavor=small&network={network.id}")).body["servers"]
    assert (answer["least"], answer["most"]) == (0, 0)
    assert await asked.booted(network, 1) == 0


async def test_explain_names_what_is_lacking_and_the_refusal_is_found_by_its_request(asked: Asked) -> None:
    network = await asked.world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/26")
    await disable_host(asked.world.compute, "r1-h2", reason="broken fan")
    assert await asked.booted(network, 8) == 8
    answer = (await asked.post("explain", {"flavor": "small", "networks": [network.id], "count": 1})).body
    assert (answer["fits"], answer["served"]) == (False, 0)
    lacks = ["; ".join(f"{lack['place']}: {lack['words']}" for lack in near["lacks"]) for near in answer["nearest"]]
    assert "r2-h1: 1 VCPU" in lacks
    assert "r1-h2: disabled (broken fan)" in lacks
    assert answer["remedies"][0]["words"] == "enable host r1-h2"
    (server,) = await asked.world.boot(network.id)
    async with asked.world.database.connection() as connection:
        await connection.execute("UPDATE compute.server SET request_id = 'req-refused' WHERE id = $1", server)
    await asked.world.run()
    fault = (await get_server(asked.world.compute, server)).fault
    assert fault is not None
    assert answer["message"] == fault.message
    await delete_server(asked.world.compute, server, by=BY)
    await asked.world.run()
    by = Subject(request_id="req-refused")
    many = [Event(kind=DRAIN, action="over", host=f"h{number}", subjects=(by,)) for number in range(100)]
    async with asked.world.database.transaction() as tx:
        await EVENTS.write(tx, many)
    answer = (await asked.get("explain?request=req-refused")).body
    assert [(refusal["server_id"], refusal["message"]) for refusal in answer["refusals"]] == [(server, fault.message)]
    assert answer["refusals"][0]["funnel"][0] == {"requirement": "considered", "hosts": 3}


async def test_servers_like_one_that_is_there_are_asked_for_what_it_has(asked: Asked) -> None:
    network = await asked.world.routed(rack1="10.1.0.0/29")
    (server,) = await asked.world.boot(network.id)
    await asked.world.run()
    answer = (await asked.get(f"explain?like={server}&count=40")).body
    assert (answer["count"], answer["served"]) == (40, 4)
    assert answer["segments"] == [{"network": "net", "segment": "rack1", "addresses": 4}]
    answer = (await asked.get(f"explain?like={server}&host=r2-h1")).body
    assert "does not reach" in answer["message"]


async def test_a_cloud_that_would_be_has_what_the_change_brings(asked: Asked) -> None:
    network = await asked.world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/26")
    body: dict[str, Any] = {"flavor": "small", "networks": [network.id]}
    more = {"segments": [{"network": network.id, "segment": "rack1", "addresses": 2}]}
    assert (await asked.post("capacity", body | {"what_if": more})).body["servers"]["most"] == 7 + 4
    more = {"hosts": [{"names": ["r2-h2", "r2-h3"], "like": "r2-h1", "vcpus": 1}]}
    assert (await asked.post("capacity", body | {"what_if": more})).body["servers"]["most"] == 5 + 6
    assert await asked.booted(network, 6) == 6
    answer = (await asked.post("capacity", body | {"what_if": {"drained": ["r1-h1"]}})).body
    servers = [await get_server(asked.world.compute, server_id) for server_id in await asked.world.statuses()]
    counts = Counter(server.host for server in servers)
    fitting = min(counts["r1-h1"], 4 - counts["r1-h2"])
    assert answer["drained"]["hosts"] == ["r1-h1"]
    assert answer["drained"]["servers_moved"] == fitting
    assert len(answer["drained"]["servers_staying"]) == counts["r1-h1"] - fitting
    rack2 = {"drained_segments": [{"network": network.id, "segment": "rack2"}]}
    answer = (await asked.post("capacity", {"what_if": rack2})).body
    assert answer["drained"]["hosts"] == ["r2-h1"]
    assert len(answer["drained"]["servers_staying"]) == counts["r2-h1"]
    assert answer["cloud"]["total"]["open"] == 2


async def test_the_table_of_the_cloud_tells_what_is_stranded(asked: Asked) -> None:
    network = await asked.world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/26")
    assert await asked.booted(network, 9) == 9
    cloud = (await asked.get("capacity")).body["cloud"]
    lines = {line["segment"]: line for line in cloud["segments"]}
    assert (lines["rack1"]["addresses_free"], lines["rack1"]["vcpus_stranded"]) == (0, 3)
    assert (lines["rack2"]["addresses_free"], lines["rack2"]["addresses_stranded"]) == (57, 57)
    assert (cloud["total"]["hosts"], cloud["total"]["vcpus"], cloud["total"]["vcpus_free"]) == (3, 12, 3)


WRONG = (
    ("explain?flavor=none", 400, "Flavor none could not be found. There are: small."),
    ("explain", 400, "expected a flavor, or a server to be like"),
    ("explain?flavor=small&network=none", 404, "Network none could not be found."),
    ("explain?flavor=small&host=none", 404, "Compute host none could not be found."),
    ("explain?flavor=small&zone=none", 400, "none"),
    ("explain?flavor=small&count=0", 400, "count: expected"),
    ("explain?flavor=small&count=many", 400, "count: expected a whole number"),
    ("explain?flavor=%00", 400, "flavor: expected"),
    ("explain?flavour=small", 400, "unknown field `flavour`"),
    ("explain?flavor=small&flavor=small", 400, "flavor: expected once"),
    ("explain?request=req-none", 404, "No refusal of request req-none is kept."),
    ("explain?request=req-none&count=2", 400, "nothing else is asked"),
    ("capacity?like=none", 404, "Instance none could not be found."),
)


async def test_what_is_asked_wrongly_is_told(asked: Asked) -> None:
    for path, status, words in WRONG:
        answer = await asked.get(path)
        assert (answer.status, answer.body["status"]) == (status, status), answer
        assert words in answer.body["detail"]
    flavor = FlavorRequest(name="gpu", vcpus=1, ram_mb=1, disk_gb=1, extra_specs={"resources:CUSTOM_GPU": "1"})
    await create_flavor(asked.world.compute, flavor)
    answer = (await asked.get("explain?flavor=gpu")).body
    assert answer["message"] == "No host has any CUSTOM_GPU, which flavor gpu asks for."


async def test_with_the_ledger_elsewhere_it_is_said() -> None:
    nothing: Any = None
    seeing = Seeing(nothing, nothing, nothing)
    app = Starlette(routes=[mount("/roost", routes(seeing))])
    answer = await ask(app, "/roost/v1/explain?flavor=small")
    assert (answer.status, answer.body["title"]) == (409, "Conflict")
    assert "what would fit is not tried here" in answer.body["detail"]
