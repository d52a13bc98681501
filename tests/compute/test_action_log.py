"""What the log says of a build, over the API: its order and the reason of that, and why it failed."""

from typing import Any

import pytest
from tests.conductor.world import World

from roost.compute.service import Compute
from roost.platform.database import Database

V = "2.96"
REASONS = {
    1: "late: place -> launch, since 1 live host has an agent of a service version below 2",
    2: "early-create: create_ports -> place -> launch, since 1 live host has an agent of a service version below 3",
    3: "early: create_ports -> place -> bind -> launch, since every live agent understands it and the conductor has"
    " network credentials",
}
"""The order of a build, by the service version of the oldest agent."""


@pytest.fixture
async def world(database: Database) -> World:
    return await World.make(database)


@pytest.fixture
def compute(world: World) -> Compute:
    """The compute service that `call` asks."""
    return world.compute


async def boot(call: Any, network_id: str) -> str:
    body = {"server": {"name": "web", "flavorRef": "small", "networks": [{"uuid": network_id}], "imageRef": "i"}}
    answer = await call("POST", "/v2.1/servers", body, version=V)
    assert answer.status == 202, answer.body
    return str(answer.body["server"]["id"])


async def creation(call: Any, server_id: str) -> dict[str, Any]:
    """What the log has of the server's creation, in its list too."""
    path = f"/v2.1/servers/{server_id}/os-instance-actions"
    (listed,) = (await call("GET", path, version=V)).body["instanceActions"]
    action = (await call("GET", f"{path}/{listed['request_id']}", version=V)).body["instanceAction"]
    assert action["message"] == listed["message"]
    return dict(action)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_build_says_its_order_with_the_reason_of_when_it_was_chosen(
    call: Any, world: World, version: int
) -> None:
    await world.hosts("r1-h1", "r1-h2", reach=["rack1"])
    await world.set_version("r1-h1", version)
    network = await world.routed(rack1="10.1.0.0/28")
    server_id = await boot(call, network.id)
    await world.conduct()
    for version_later in (3, 1):
        await world.set_version("r1-h1", version_later)
        order, build = (await creation(call, server_id))["events"]
        assert (order["event"], order["result"], order["details"]) == (
            "conductor_choose_order", "Success", REASONS[version],
        )  # fmt: skip
        assert (build["result"], build["details"]) == (None, None)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_failed_build_says_why_and_not_in_which_order(call: Any, world: World, version: int) -> None:
    await world.hosts("r1-h1", reach=["rack1"])
    await world.set_version("r1-h1", version)
    network = await world.routed(rack9="10.9.0.0/28")  # where no host is
    server_id = await boot(call, network.id)
    await world.run()
    action = await creation(call, server_id)
    fault = (await call("GET", f"/v2.1/servers/{server_id}", version=V)).body["server"]["fault"]["message"]
    assert fault.startswith("No valid host was found")
    assert action["message"] == fault
    assert [(event["result"], event["details"]) for event in action["events"]] == [
        ("Success", REASONS[version]),
        ("Error", fault),
    ]
