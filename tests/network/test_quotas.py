"""Quotas: kept to the one under any number of makers, set and shown as clients expect."""

import asyncio
import dataclasses
from typing import Any

import pytest
from tests.invariants import assert_books_agree
from tests.network.cloud import PROJECT, Cloud
from tests.network.test_api import Api

from roost.network.errors import NetworkNotFound, OverQuota
from roost.network.model.ports import Port, PortRequest
from roost.network.rules import quotas as rules
from roost.network.service import creations, ports
from roost.network.service.quotas import QUOTAS
from roost.network.settings import NetworkSettings
from roost.platform.quotas import QuotaUsage
from roost.seams.network import EnsuredPorts, Nic, PortsRefused

OTHER = "other"
UNLIMITED = {"network": -1, "subnet": -1, "port": -1}


@pytest.fixture
def api(cloud: Cloud) -> Api:
    return Api(cloud)


def wanted(network_id: str, project: str = PROJECT, **fields: Any) -> PortRequest:
    return PortRequest(network_id=network_id, project_id=project, **fields)


@pytest.mark.parametrize(
    ("maximum", "used", "more", "refused"),
    [(-1, 10**9, 1, False), (0, 0, 1, True), (3, 2, 1, False), (3, 2, 2, True), (3, 7, 1, True), (3, 0, 3, False)],
)
def test_room_is_what_the_maximum_leaves(maximum: int, used: int, more: int, refused: bool) -> None:
    (reason,) = rules.grant({PROJECT: QuotaUsage(PROJECT, "port", maximum, used)}, [(PROJECT, more)])
    assert (reason is not None) is refused
    if reason is not None:
        assert reason.startswith("Quota exceeded for resources: ['port'].")
        assert f"{used} of at most {maximum}, and {more} more {'was' if more == 1 else 'were'} asked for." in reason


@pytest.mark.parametrize(
    ("wants", "refused"),
    [
        ([], []),
        ([("a", 1), ("a", 1), ("a", 1)], [False, False, True]),
        ([("a", 3), ("a", 2)], [True, False]),
        ([("a", 2), ("b", 9), ("a", 0), ("a", 1)], [False, False, False, True]),
    ],
    ids=["nobody", "one by one", "a refusal takes nothing", "others have no limit, and nothing is never too much"],
)
def test_the_first_get_what_there_is(wants: list[tuple[str, int]], refused: list[bool]) -> None:
    reasons = rules.grant({"a": QuotaUsage("a", "port", 5, 3)}, wants)
    assert [reason is not None for reason in reasons] == refused


async def make_all(cloud: Cloud, requests: list[PortRequest]) -> list[Any]:
    """What four workers make of them; each worker may make several at once."""
    workers = [dataclasses.replace(cloud.networks, creations=None) for _ in range(4)]
    made = await asyncio.gather(
        *(ports.create_port(workers[number % 4], request) for number, request in enumerate(requests)),
        return_exceptions=True,
    )
    assert all(not isinstance(one, Exception) or isinstance(one, OverQuota) for one in made), made
    return [one for one in made if not isinstance(one, Exception)]


@pytest.mark.parametrize("fixed_ips", [None, ()], ids=["with an address", "without"])
async def test_sixteen_clients_get_exactly_what_the_quota_has(cloud: Cloud, fixed_ips: Any) -> None:
    network = await cloud.plain("10.0.0.0/24")
    await QUOTAS.set(cloud.networks, PROJECT, {"port": 7}, check=False)
    requests = [wanted(network.id, fixed_ips=fixed_ips) for _ in range(16)]
    others = [wanted(network.id, OTHER, fixed_ips=fixed_ips) for _ in range(4)]
    made = await make_all(cloud, [*requests, *others])
    assert sorted(port.project_id for port in made) == [OTHER] * 4 + [PROJECT] * 7
    await ports.delete_port(cloud.networks, next(port.id for port in made if port.project_id == PROJECT))
    assert len(await make_all(cloud, requests[:5])) == 1
    await assert_books_agree(cloud.networks.database)
    assert (await cloud.used(network.id))[1] == (11 if fixed_ips is None else 0)


async def test_who_cannot_be_served_anyway_takes_nobodys_room(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24")
    await QUOTAS.set(cloud.networks, PROJECT, {"port": 1}, check=False)
    absent = "11111111-1111-4111-8111-111111111111"
    first, second = await creations.make(cloud.networks, [wanted(absent), wanted(network.id)], whole=False)
    assert isinstance(first, NetworkNotFound)
    assert isinstance(second, Port)


async def test_clients_and_builds_share_one_quota(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24")
    await QUOTAS.set(cloud.networks, PROJECT, {"port": 10}, check=False)
    nics = (Nic(tag="0", network_id=network.id), Nic(tag="1", network_id=network.id))
    servers = [cloud.server(*nics) for _ in range(8)]
    builds = [cloud.client.ensure_ports(servers[start : start + 2]) for start in range(0, 8, 2)]
    answers, made = await asyncio.gather(
        asyncio.gather(*builds), make_all(cloud, [wanted(network.id, fixed_ips=()) for _ in range(8)])
    )
    flat = [answer for some in answers for answer in some]
    ensured = [answer for answer in flat if isinstance(answer, EnsuredPorts)]
    assert 9 <= 2 * len(ensured) + len(made) <= 10  # a server takes two or none
    held = (await QUOTAS.get_usages(cloud.networks, PROJECT))["port"]
    assert held.used == 2 * len(ensured) + len(made)


async def test_a_build_over_its_quota_is_refused_in_words_and_leaves_nothing(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24")
    own = await ports.create_port(cloud.networks, wanted(network.id))
    await QUOTAS.set(cloud.networks, PROJECT, {"port": 3}, check=False)
    nic, mine = Nic(tag="0", network_id=network.id), Nic(tag="1", port_id=own.id)
    small, large = cloud.server(nic), cloud.server(nic, Nic(tag="1", network_id=network.id))
    first, second, third = await cloud.client.ensure_ports([small, large, cloud.server(mine, nic)])
    assert isinstance(first, EnsuredPorts)
    assert isinstance(second, PortsRefused)
    assert second.reason.startswith("Quota exceeded for resources: ['port'].")
    assert isinstance(third, EnsuredPorts), "a refused server takes no room, and a port that is there counts once"
    again = await cloud.client.ensure_ports([small])
    assert isinstance(again[0], EnsuredPorts), "its port counts already"
    assert (await QUOTAS.get_usages(cloud.networks, PROJECT))["port"].used == 3


async def test_every_kind_has_its_quota_and_the_default_is_a_setting(cloud: Cloud, api: Api) -> None:
    project = {"project_id": OTHER}
    for one in ("network", "subnet", "port"):
        assert (await api.call("PUT", f"/v2.0/quotas/{OTHER}", {"quota": {one: 1}}))[0] == 200
    network = await api.make("network", **project)
    subnet = {"network_id": network["id"], "ip_version": 4, **project}
    await api.make("subnet", cidr="10.0.0.0/24", **subnet)
    await api.make("port", network_id=network["id"], **project)
    for one, body in (
        ("network", project),
        ("subnet", {"cidr": "10.0.1.0/24", **subnet}),
        ("port", {"network_id": network["id"], **project}),
    ):
        status, answer = await api.call("POST", f"/v2.0/{one}s", {one: body})
        assert (status, answer["NeutronError"]["type"]) == (409, "OverQuota")
        assert answer["NeutronError"]["message"].startswith(f"Quota exceeded for resources: ['{one}'].")


async def test_quotas_are_set_shown_and_forgotten(api: Api, cloud: Cloud) -> None:
    assert await api.call("GET", "/v2.0/quotas") == (200, {"quotas": []})
    assert await api.call("GET", f"/v2.0/quotas/{OTHER}") == (200, {"quota": UNLIMITED})
    status, answer = await api.call("DELETE", f"/v2.0/quotas/{OTHER}")
    assert (status, answer["NeutronError"]["type"]) == (404, "TenantQuotaNotFound")
    network = await cloud.plain("10.0.0.0/24")
    await ports.create_port(cloud.networks, wanted(network.id, OTHER))
    await ports.create_port(cloud.networks, wanted(network.id, OTHER))
    body = {"port": "5", "network": 0, "force": True, "tenant_id": OTHER}
    status, answer = await api.call("PUT", f"/v2.0/quotas/{OTHER}", {"quota": body})
    assert (status, answer) == (200, {"quota": {"network": 0, "subnet": -1, "port": 5}})
    own = {"network": 0, "subnet": -1, "port": 5, "project_id": OTHER, "tenant_id": OTHER}
    assert await api.call("GET", "/v2.0/quotas") == (200, {"quotas": [own]})
    assert await api.call("GET", f"/v2.0/quotas/{OTHER}/default") == (200, {"quota": UNLIMITED})
    status, answer = await api.call("GET", f"/v2.0/quotas/{OTHER}/details")
    assert answer["quota"] == {
        "network": {"limit": 0, "used": 0, "reserved": 0},
        "subnet": {"limit": -1, "used": 0, "reserved": 0},
        "port": {"limit": 5, "used": 2, "reserved": 0},
    }
    for limit, checked, expected in ((1, True, 400), (1, False, 200), (2, True, 200), (-1, True, 200), (0, False, 200)):
        body = {"port": limit, "check_limit": checked}
        status, answer = await api.call("PUT", f"/v2.0/quotas/{OTHER}", {"quota": body})
        assert status == expected, answer
    assert await api.call("DELETE", f"/v2.0/quotas/{OTHER}") == (204, None)
    assert await api.call("GET", f"/v2.0/quotas/{OTHER}") == (200, {"quota": UNLIMITED})
    for path in ("project", "tenant"):
        project = {path: {f"{path}_id": "operator"}}
        assert await api.call("GET", f"/v2.0/quotas/{path}") == (200, project)


@pytest.mark.parametrize(
    "quota",
    [
        {"port": -2},
        {"port": 2**31},
        {"port": "many"},
        {"port": None},
        {"router": 1},
        {"port": 1, "project_id": PROJECT},
    ],
)
async def test_what_is_no_quota_is_refused(api: Api, quota: dict[str, Any]) -> None:
    status, answer = await api.call("PUT", f"/v2.0/quotas/{OTHER}", {"quota": quota})
    assert status == 400
    assert answer["NeutronError"]["message"]
    assert await api.call("GET", "/v2.0/quotas") == (200, {"quotas": []})


async def test_of_a_bulk_request_all_fit_or_none_is_made(api: Api, cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24")
    await QUOTAS.set(cloud.networks, cloud.networks.default_project, {"port": 3, "network": 1}, check=False)
    for one, fields in (("port", {"network_id": network.id}), ("network", {})):
        status, answer = await api.call("POST", f"/v2.0/{one}s", {f"{one}s": [fields] * 4})
        assert (status, answer["NeutronError"]["type"]) == (409, "OverQuota")
        assert "4 more were asked for" in answer["NeutronError"]["message"]
    status, answer = await api.call("POST", "/v2.0/ports", {"ports": [{"network_id": network.id}] * 3})
    assert (status, len(answer["ports"])) == (201, 3)


async def test_projects_that_have_more_than_they_may_are_listed(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24")
    for _ in range(2):
        await ports.create_port(cloud.networks, wanted(network.id))
    assert await QUOTAS.list_over(cloud.networks) == []
    cloud.networks.settings = NetworkSettings(quota_port=1)
    assert await QUOTAS.list_over(cloud.networks) == [QuotaUsage(PROJECT, "port", 1, 2)]


async def test_a_port_has_as_many_named_addresses_as_the_option_says(api: Api, cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24")
    addresses = [{"ip_address": f"10.0.0.{number}"} for number in range(10, 16)]
    owner = {"device_owner": "network:dhcp"}
    for most in (5, 2):
        cloud.networks.settings = NetworkSettings(max_fixed_ips_per_port=most)
        body = {"network_id": network.id, "fixed_ips": addresses[: most + 1]}
        status, answer = await api.call("POST", "/v2.0/ports", {"port": body})
        assert (status, answer["NeutronError"]["type"]) == (400, "InvalidInput")
        port = await api.make("port", **body | {"fixed_ips": addresses[:most]})
        path = f"/v2.0/ports/{port['id']}"
        for more, expected in (({}, 400), (owner, 200)):
            status, answer = await api.call("PUT", path, {"port": {"fixed_ips": addresses[: most + 1], **more}})
            assert status == expected, answer
        shown = (await api.call("GET", path))[1]["port"]["fixed_ips"]
        assert len(shown) == most + 1
        assert (await api.call("DELETE", path))[0] == 204
        served = await api.make("port", **body, **owner)
        assert (await api.call("DELETE", f"/v2.0/ports/{served['id']}"))[0] == 204
