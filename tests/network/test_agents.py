"""The agents of hosts and the availability zone, as clients of Neutron's API read them."""

from typing import Any

import pytest
from tests.network.cloud import NEVER, Cloud
from tests.network.test_api import Api

from roost.seams.compute import HostHeartbeat


@pytest.fixture
def api(cloud: Cloud) -> Api:
    return Api(cloud)


async def read(api: Api, path: str) -> Any:
    status, answer = await api.call("GET", f"/v2.0/{path}")
    assert status == 200, answer
    return answer


async def test_every_host_has_an_agent_that_is_alive_or_not(api: Api, cloud: Cloud) -> None:
    assert await read(api, "agents") == {"agents": []}
    await cloud.client.set_hosts({"h1": ["rack1", "rack0"], "h2": [], "h3": []})
    cloud.compute.heartbeats = {
        "h1": HostHeartbeat(seen_at=NEVER, up=True),
        "h2": HostHeartbeat(seen_at=None, up=False),
    }
    agents = {agent["host"]: agent for agent in (await read(api, "agents"))["agents"]}
    assert {host: agent["alive"] for host, agent in agents.items()} == {"h1": True, "h2": False, "h3": False}
    one = agents["h1"]
    assert one["configurations"] == {"physical_networks": ["rack0", "rack1"], "cell": "cell1"}
    assert (one["binary"], one["admin_state_up"]) == ("roost-agent", True)
    assert one["heartbeat_timestamp"] is not None
    assert agents["h2"]["heartbeat_timestamp"] is None
    assert await read(api, f"agents/{one['id']}") == {"agent": one}
    assert await read(api, f"agents/{one['id']}?fields=host") == {"agent": {"host": "h1"}}
    for query, hosts in (("alive=true", ["h1"]), ("host=h2&host=h3", ["h2", "h3"]), ("binary=x", [])):
        assert [agent["host"] for agent in (await read(api, f"agents?{query}&sort_key=host"))["agents"]] == hosts


async def test_agents_are_only_read(api: Api) -> None:
    nobody = "00000000-0000-4000-8000-00000000000f"
    assert (await api.call("GET", f"/v2.0/agents/{nobody}"))[1]["NeutronError"]["type"] == "AgentNotFound"
    assert (await api.call("GET", "/v2.0/agents/nobody"))[0] == 404
    for method in ("PUT", "DELETE"):
        assert (await api.call(method, f"/v2.0/agents/{nobody}", {"agent": {}}))[0] == 405
    assert (await api.call("POST", "/v2.0/agents", {"agent": {}}))[0] == 405


async def test_the_zone_is_available_while_an_agent_is_alive(api: Api, cloud: Cloud) -> None:
    await cloud.client.set_hosts({"h1": []})
    for up, state in ((False, "unavailable"), (True, "available")):
        cloud.compute.heartbeats = {"h1": HostHeartbeat(seen_at=NEVER, up=up)}
        zones = await read(api, "availability_zones")
        assert zones == {"availability_zones": [{"name": "nova", "resource": "network", "state": state}]}
    assert await read(api, "availability_zones?state=unavailable") == {"availability_zones": []}
