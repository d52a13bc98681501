"""The agents of hosts and the availability zone, as clients of Neutron's API read them."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import pytest
from tests.network.cloud import NEVER, Cloud
from tests.network.test_api import Api

from roost.network.service import agents
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
    by_host = {agent["host"]: agent for agent in (await read(api, "agents"))["agents"]}
    assert {host: agent["alive"] for host, agent in by_host.items()} == {"h1": True, "h2": False, "h3": False}
    one = by_host["h1"]
    assert one["configurations"] == {"physical_networks": ["rack0", "rack1"], "cell": "cell1"}
    assert (one["binary"], one["admin_state_up"]) == ("roost-agent", True)
    assert one["heartbeat_timestamp"] is not None
    assert by_host["h2"]["heartbeat_timestamp"] is None
    assert await read(api, f"agents/{one['id']}") == {"agent": one}
    assert await read(api, f"agents/{one['id']}?fields=host") == {"agent": {"host": "h1"}}
    for query, hosts in (("alive=true", ["h1"]), ("host=h2&host=h3", ["h2", "h3"]), ("binary=x", [])):
        assert [agent["host"] for agent in (await read(api, f"agents?{query}&sort_key=host"))["agents"]] == hosts


@pytest.fixture
def asked_after(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The hosts that the compute service is asked after, request by request."""
    requests: list[list[str]] = []
    get_heartbeats = cloud.networks.compute.get_heartbeats

    async def record(hosts: Sequence[str]) -> Any:
        requests.append(sorted(hosts))
        return await get_heartbeats(hosts)

    monkeypatch.setattr(cloud.networks.compute, "get_heartbeats", record)
    return requests


HOSTS = [f"h{number}" for number in range(9)]


@pytest.mark.parametrize(
    ("query", "pages"),
    [
        ("sort_key=host&limit=4", [HOSTS[:4], HOSTS[4:8], HOSTS[8:]]),
        ("sort_key=host&sort_dir=desc&limit=5", [HOSTS[:3:-1], HOSTS[3::-1]]),
        ("host=h3&host=h5&sort_key=host", [["h3", "h5"]]),
        ("agent_type=Roost%20agent&binary=roost-agent&topic=roost-agent&sort_key=host", [HOSTS]),
        ("binary=neutron-l3-agent", [[]]),
        ("sort_key=host&alive=true&limit=2", [["h2", "h5"], ["h8"]]),
    ],
)
async def test_a_page_of_agents_asks_after_its_hosts_alone(
    api: Api, cloud: Cloud, asked_after: list[list[str]], query: str, pages: list[list[str]]
) -> None:
    await cloud.client.set_hosts({host: [] for host in HOSTS})
    cloud.compute.heartbeats = {host: HostHeartbeat(seen_at=NEVER, up=int(host[1:]) % 3 == 2) for host in HOSTS}
    link, seen = f"agents?{query}", []
    while link:
        answer = await read(api, link)
        seen.append([agent["host"] for agent in answer["agents"]])
        links = {item["rel"]: item["href"] for item in answer.get("agents_links", ())}
        link = links.get("next", "").removeprefix("http://roost.test/network/v2.0/")
    assert seen == pages
    if "alive" not in query:  # which the compute service alone knows
        markers = [page[-1:] for page in pages[:-1]]
        expected = [hosts for page, marker in zip_longest(pages, markers, fillvalue=[]) for hosts in (page, marker)]
        assert asked_after == [sorted(hosts) for hosts in expected if hosts]


async def test_one_agent_is_read_by_its_id(api: Api, cloud: Cloud, asked_after: list[list[str]]) -> None:
    await cloud.client.set_hosts({host: [] for host in HOSTS})
    (agent,) = (await read(api, "agents?host=h4"))["agents"]
    assert (await read(api, f"agents/{agent['id']}"))["agent"]["host"] == "h4"
    assert asked_after == [["h4"], ["h4"]]
    await cloud.client.set_hosts({"h4": ["rack1"]})
    assert (await read(api, "agents?host=h4"))["agents"][0]["id"] == agent["id"], "an id stays"


@pytest.mark.parametrize("key", ["alive", "heartbeat_timestamp", "configurations"])
async def test_agents_are_in_no_order_that_the_database_does_not_know(api: Api, key: str) -> None:
    status, answer = await api.call("GET", f"/v2.0/agents?sort_key={key}")
    assert status == 400
    assert answer["NeutronError"]["message"] == (
        f"['{key}'] is invalid attribute for sort_keys: expected one of agent_type, binary, host, id, topic."
    )


async def test_hosts_are_asked_after_until_one_is_alive(
    cloud: Cloud, asked_after: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    await cloud.client.set_hosts({host: [] for host in HOSTS})
    monkeypatch.setattr(agents, "AGENTS_AT_ONCE", 4)
    assert not await agents.is_any_alive(cloud.networks)
    assert [len(hosts) for hosts in asked_after] == [4, 4, 1]
    cloud.compute.heartbeats = {host: HostHeartbeat(seen_at=NEVER, up=True) for host in HOSTS}
    assert await agents.is_any_alive(cloud.networks)
    assert [len(hosts) for hosts in asked_after] == [4, 4, 1, 4]


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
