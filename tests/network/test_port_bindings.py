"""Several bindings of one port. Source: Network API, extension binding-extended; Neutron's tests of it."""

import asyncio
from typing import Any

import pytest
from tests.network.cloud import Cloud, assert_sound
from tests.network.test_api import Api
from tests.network.test_port_updates import of, sound, update
from tests.network.test_releases import held

from roost.network.api import ports as ports_api
from roost.network.errors import PortBindingAlreadyActive, PortBindingNotFound, PortChanged, PortInUse
from roost.network.model.networks import Network
from roost.network.model.ports import Binding, PortRequest
from roost.network.service import ports
from roost.seams.network import Nic
from roost.seams.placement import IPV4_ADDRESS

COMPUTE = "compute:nova"


@pytest.fixture
def api(cloud: Cloud) -> Api:
    return Api(cloud)


async def two_racks(cloud: Cloud) -> Network:
    network, _ = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    await cloud.client.set_hosts({"h1": ["rack1"], "h1b": ["rack1"], "h2": ["rack2"], "both": ["rack1", "rack2"]})
    return network


async def make(api: Api, network: Network, **more: Any) -> Any:
    return await api.make("port", network_id=network.id, device_owner=COMPUTE, device_id="vm", **more)


async def call(api: Api, method: str, port: Any, path: str = "", **body: Any) -> tuple[int, Any]:
    """Of one port's bindings."""
    url = f"/v2.0/ports/{port['id']}/bindings{path}"
    return await api.call(method, url, {"binding": body} if method in ("POST", "PUT") and body else None)


def nested(depth: int) -> bytes:
    """A profile with so many objects and lists inside each other."""
    return b'{"deep":%b}' % (b"[" * (depth - 1) + b"]" * (depth - 1))


async def test_a_profile_is_no_deeper_than_lists_can_be_ordered_and_filtered_by(api: Api, cloud: Cloud) -> None:
    """One of 900 lists was kept, and every list of ports that was ordered by profiles, or filtered, was a 500."""
    network = await two_racks(cloud)
    port = await make(api, network, **{"binding:host_id": "h1"})
    url = f"/v2.0/ports/{port['id']}"
    about = f'"network_id":"{network.id}"'.encode()
    for depth, statuses in (
        (ports_api.PROFILE_DEPTH_MAX, (201, 200, 201, 200)),
        (900, (400,) * 4),
        (4000, (400,) * 4),
    ):
        profile = nested(depth)
        calls = (
            ("POST", "/v2.0/ports", b'{"port":{%b,"binding:profile":%b}}' % (about, profile)),
            ("PUT", url, b'{"port":{"binding:profile":%b}}' % profile),
            ("POST", f"{url}/bindings", b'{"binding":{"host":"h1b","profile":%b}}' % profile),
            ("PUT", f"{url}/bindings/h1b", b'{"binding":{"profile":%b}}' % profile),
        )
        assert [(await api.call(method, path, raw=raw))[0] for method, path, raw in calls] == list(statuses), depth
    for query, status in (("sort_key=binding:profile", 400), ("binding:profile=x", 200)):
        assert (await api.call("GET", f"/v2.0/ports?{query}"))[0] == status
        assert (await api.call("GET", f"{url}/bindings?{query.replace('binding:', '')}"))[0] == 200


async def test_a_profile_is_kept_as_it_is_meant_however_it_is_written(api: Api, cloud: Cloud) -> None:
    network = await two_racks(cloud)
    port = await make(api, network)
    for raw, kept in (
        (b'{"a" : [ 1 , {"b":"\\u00e9"} ],"c":1e3}', {"a": [1, {"b": "\u00e9"}], "c": 1000.0}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"a":"%b"}' % (b"\\u0041" * 4087), {"a": "A" * 4087}),
        (b'{"a":"%b"}' % (b"\\u0041" * 4088), None),
        (b'{"a":"\\u0000"}', None),
        (b'{"a":"\xff"}', None),
        (b'{"a":1e999}', None),
        (b"{}", {}),
    ):
        status, answer = await api.call(
            "PUT", f"/v2.0/ports/{port['id']}", raw=b'{"port":{"binding:profile":%b}}' % raw
        )
        assert status == (400 if kept is None else 200), raw
        assert kept is None or answer["port"]["binding:profile"] == kept


async def test_a_binding_is_made_shown_changed_activated_and_deleted(api: Api, cloud: Cloud) -> None:
    network = await two_racks(cloud)
    port = await make(api, network, **{"binding:host_id": "h1", "binding:profile": {"a": 1}})
    assert port["binding:vif_details"] == {"port_filter": False, "connectivity": "l2"}
    active = {
        "host": "h1", "vif_type": "ovs", "vnic_type": "normal", "status": "ACTIVE", "profile": {"a": 1},
        "vif_details": port["binding:vif_details"],
    }  # fmt: skip
    waiting = {**active, "host": "h1b", "status": "INACTIVE", "profile": {"b": 2}, "vnic_type": "direct"}
    assert await call(api, "GET", port) == (200, {"bindings": [active]})
    assert await call(api, "POST", port, host="h1b", profile={"b": 2}, vnic_type="direct") == (
        201, {"binding": waiting},
    )  # fmt: skip
    assert (await call(api, "GET", port))[1] == {"bindings": [active, waiting]}
    assert (await call(api, "GET", port, "?status=INACTIVE"))[1] == {"bindings": [waiting]}
    assert (await call(api, "GET", port, "?host=h1"))[1] == {"bindings": [active]}
    assert (await call(api, "GET", port, "/h1b?fields=host"))[1] == {"binding": {"host": "h1b"}}
    waiting = {**waiting, "profile": {"c": 3}}
    assert await call(api, "PUT", port, "/h1b", profile={"c": 3}) == (200, {"binding": waiting})
    assert await call(api, "PUT", port, "/h1", profile={"d": 4}) == (200, {"binding": {**active, "profile": {"d": 4}}})
    # Without an envelope: as upstream answers an action.
    assert await call(api, "PUT", port, "/h1b/activate") == (200, {**waiting, "status": "ACTIVE"})
    shown = (await api.call("GET", f"/v2.0/ports/{port['id']}"))[1]["port"]
    assert (shown["binding:host_id"], shown["binding:vnic_type"], shown["binding:profile"]) == (
        "h1b",
        "direct",
        {"c": 3},
    )
    assert shown["fixed_ips"] == port["fixed_ips"]
    old = {**active, "status": "INACTIVE", "vif_type": "unbound", "profile": {"d": 4}, "vif_details": {}}
    assert (await call(api, "GET", port, "/h1"))[1] == {"binding": old}
    assert (await call(api, "PUT", port, "/h1/activate"))[1]["vif_type"] == "ovs"
    assert (await call(api, "DELETE", port, "/h1b"))[0] == 204
    assert (await call(api, "GET", port, "/h1b"))[0] == 404
    assert (await call(api, "DELETE", port, "/h1"))[0] == 204
    ((unbound,),) = [(await call(api, "GET", port))[1]["bindings"]]
    assert (unbound["host"], unbound["status"], unbound["vif_type"]) == ("", "ACTIVE", "unbound")
    await assert_sound(cloud)


async def test_refusals_of_bindings_have_upstreams_names(api: Api, cloud: Cloud) -> None:
    network = await two_racks(cloud)
    port = await make(api, network, **{"binding:host_id": "h1"})
    other = await api.make("port", network_id=network.id)
    missing = {"id": "11111111-1111-4111-8111-111111111111"}
    await call(api, "POST", port, host="h1b")
    cases: list[tuple[str, Any, str, dict[str, Any], int, str]] = [
        ("GET", missing, "", {}, 404, "PortNotFound"),
        ("GET", {"id": "no-uuid"}, "", {}, 404, "PortNotFound"),
        ("GET", other, "", {}, 400, "BadRequest"),
        ("POST", other, "", {"host": "h1"}, 400, "BadRequest"),
        ("PUT", other, "/h1/activate", {}, 400, "BadRequest"),
        ("POST", port, "", {"host": "h1"}, 409, "PortBindingAlreadyExists"),
        ("POST", port, "", {"host": "h1b"}, 409, "PortBindingAlreadyExists"),
        ("POST", port, "", {"host": "h2"}, 409, "HostNotCompatibleWithFixedIps"),
        ("POST", port, "", {"host": "nowhere"}, 409, "HostNotConnectedToAnySegment"),
        ("POST", port, "", {"host": ""}, 400, "InvalidInput"),
        ("POST", port, "", {"host": "both", "vnic_type": "wireless"}, 400, "HTTPBadRequest"),
        ("POST", port, "", {"host": "both", "status": "ACTIVE"}, 400, "HTTPBadRequest"),
        ("PUT", port, "/h1b", {"host": "both"}, 400, "InvalidInput"),
        ("GET", port, "/both", {}, 404, "PortBindingNotFound"),
        ("PUT", port, "/both", {"profile": {}}, 404, "PortBindingNotFound"),
        ("DELETE", port, "/both", {}, 404, "PortBindingNotFound"),
        ("PUT", port, "/both/activate", {}, 404, "PortBindingNotFound"),
        ("PUT", port, "/h1/activate", {}, 409, "PortBindingAlreadyActive"),
    ]
    for method, of_port, path, body, status, kind in cases:
        answered, answer = await call(api, method, of_port, path, **body)
        assert (answered, answer["NeutronError"]["type"]) == (status, kind), (method, path, body, answer)
        assert answer["NeutronError"]["message"]
    assert "reaches segment rack2" in (await call(api, "POST", port, host="h2"))[1]["NeutronError"]["message"]
    refused = (await call(api, "POST", port, host="both", vnic_type="wireless"))[1]["NeutronError"]["message"]
    assert "`$.binding.vnic_type`: expected one of accelerator-direct, " in refused


async def test_an_inactive_binding_assigns_nothing_and_its_activation_does(api: Api, cloud: Cloud) -> None:
    network = await two_racks(cloud)
    port = await make(api, network)
    assert (await call(api, "POST", port, host="nowhere"))[1]["NeutronError"]["type"] == "HostNotConnectedToAnySegment"
    assert (await call(api, "POST", port, host="h2"))[0] == 201
    assert (await ports.get_port(cloud.networks, port["id"])).addresses == ()
    assert await held(cloud, port["id"]) == {}
    assert (await call(api, "PUT", port, "/h2/activate"))[0] == 200
    bound = await ports.get_port(cloud.networks, port["id"])
    assert of(bound) == ["10.2.0.2"]
    assert [binding["host"] for binding in (await call(api, "GET", port))[1]["bindings"]] == ["h2"]
    await sound(cloud, bound)


async def test_a_host_that_lost_the_segment_is_refused_when_its_binding_is_activated(api: Api, cloud: Cloud) -> None:
    network = await two_racks(cloud)
    port = await make(api, network, **{"binding:host_id": "h1"})
    assert (await call(api, "POST", port, host="h1b"))[0] == 201
    await cloud.client.set_hosts({"h1b": ["rack2"]})
    answer = await call(api, "PUT", port, "/h1b/activate")
    assert (answer[0], answer[1]["NeutronError"]["type"]) == (409, "HostNotCompatibleWithFixedIps")
    assert (await ports.get_port(cloud.networks, port["id"])).host == "h1"


async def test_a_port_that_is_bound_where_a_binding_waited_has_one_binding_there(api: Api, cloud: Cloud) -> None:
    network = await two_racks(cloud)
    port = await make(api, network, **{"binding:host_id": "h1"})
    await call(api, "POST", port, host="h1b")
    await update(cloud, await ports.get_port(cloud.networks, port["id"]), host="h1b")
    assert [(b["host"], b["status"]) for b in (await call(api, "GET", port))[1]["bindings"]] == [("h1b", "ACTIVE")]
    assert (await api.call("DELETE", f"/v2.0/ports/{port['id']}"))[0] == 204
    await assert_sound(cloud)


async def test_a_build_that_binds_where_a_binding_waited_has_one_binding_there(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    mine = await ports.create_port(
        cloud.networks, PortRequest(network_id=network.id, project_id="project", device_owner=COMPUTE)
    )
    await ports.create_binding(cloud.networks, mine.id, Binding(host="h1"))
    server = cloud.server(Nic(tag="0", port_id=mine.id))
    (port,) = await cloud.ensure(server)
    with pytest.raises(PortInUse):
        await ports.activate_binding(cloud.networks, mine.id, "h1")
    with pytest.raises(PortInUse):
        await ports.delete_binding(cloud.networks, mine.id, "h1")
    assert await cloud.claim([port.id], rack1.id)
    await cloud.bind(server, port, "h1", rack1.id)
    (binding,) = await ports.list_bindings(cloud.networks, mine.id)
    assert (binding.host, binding.active) == ("h1", True)
    await cloud.client.settle_ports([server.server_id])
    with pytest.raises(PortInUse, match="moves with the server"):
        await ports.delete_binding(cloud.networks, mine.id, "h1")


async def test_of_many_activations_at_once_each_host_is_active_at_most_once(cloud: Cloud) -> None:
    network = await two_racks(cloud)
    port = await ports.create_port(
        cloud.networks,
        PortRequest(network_id=network.id, project_id="project", device_owner=COMPUTE),
    )
    for host in ("h1", "h2", "both"):
        await ports.create_binding(cloud.networks, port.id, Binding(host=host))
    answers = await asyncio.gather(
        *(ports.activate_binding(cloud.networks, port.id, host) for host in ("h1", "h2", "both") * 4),
        return_exceptions=True,
    )
    expected = (PortBindingAlreadyActive, PortChanged, PortBindingNotFound, Binding)
    assert all(isinstance(answer, expected) or "HostNotCompatible" in type(answer).__name__ for answer in answers), (
        answers
    )
    listed = await ports.list_bindings(cloud.networks, port.id)
    assert sorted(binding.host for binding in listed) == ["both", "h1", "h2"]
    assert sum(binding.active for binding in listed) == 1
    now = await ports.get_port(cloud.networks, port.id)
    ((_, resources),) = (await held(cloud, port.id)).items()
    assert resources == {IPV4_ADDRESS: 1}
    await sound(cloud, now)
