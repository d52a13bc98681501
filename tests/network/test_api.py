from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.types import Message
from tests.network.cloud import Cloud
from tests.network.described import check_described

from roost.network import errors
from roost.network.api import routes
from roost.network.api.errors import PROBLEMS
from roost.platform.errors import BadRequest, Conflict, NotFound, Retry
from roost.platform.mounts import mount

HEADERS = [(b"host", b"roost.test"), (b"content-type", b"application/json")]


class Api:
    """The Network API in this process, without a socket."""

    def __init__(self, cloud: Cloud) -> None:
        self._app = Starlette(routes=[mount("/network", routes(cloud.networks))])

    async def call(
        self, method: str, path: str, body: Any = None, *, raw: bytes | None = None, headers: Any = ()
    ) -> tuple[int, Any]:
        """(status, decoded body or None)."""
        content = raw if raw is not None else b"" if body is None else msgspec.json.encode(body)
        path, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": f"/network{path}", "raw_path": path.encode(), "root_path": "", "query_string": query.encode(),
            "headers": [*HEADERS, *headers], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        content = b"".join(message.get("body", b"") for message in sent[1:])
        answer = msgspec.json.decode(content) if content else None
        check_described(method, path, sent[0]["status"], answer)
        return sent[0]["status"], answer

    async def make(self, kind: str, **fields: Any) -> Any:
        status, answer = await self.call("POST", f"/v2.0/{kind}s", {kind: fields})
        assert status == 201, answer
        return answer[kind]


@pytest.fixture
def api(cloud: Cloud) -> Api:
    return Api(cloud)


async def routed(api: Api, cloud: Cloud) -> tuple[Any, Any, Any]:
    network = await api.make("network", name="public")
    vlan = {"network_type": "vlan", "physical_network": "rack1", "segmentation_id": 101}
    segment = await api.make("segment", network_id=network["id"], name="rack1", **vlan)
    subnet = await api.make(
        "subnet", network_id=network["id"], segment_id=segment["id"], cidr="203.0.113.0/29", ip_version=4
    )
    await cloud.client.set_hosts({"h1": ["rack1"]})
    return network, segment, subnet


async def test_a_routed_network_from_nothing_to_a_bound_port(api: Api, cloud: Cloud) -> None:
    network, segment, subnet = await routed(api, cloud)
    assert subnet["allocation_pools"] == [{"start": "203.0.113.2", "end": "203.0.113.6"}]
    port = await api.make("port", network_id=network["id"], name="web")
    assert (port["ip_allocation"], port["fixed_ips"], port["binding:vif_type"]) == ("deferred", [], "unbound")
    status, answer = await api.call("PUT", f"/v2.0/ports/{port['id']}", {"port": {"binding:host_id": "h1"}})
    assert status == 200
    assert answer["port"]["fixed_ips"] == [{"subnet_id": subnet["id"], "ip_address": "203.0.113.2"}]
    assert await cloud.used(segment["id"]) == (5, 1)
    status, answer = await api.call("GET", f"/v2.0/networks/{network['id']}?fields=id&fields=l2_adjacency")
    assert answer == {"network": {"id": network["id"], "l2_adjacency": False}}
    for query, found in (
        ("fixed_ips=ip_address=203.0.113.2", 1),
        ("fixed_ips=ip_address%3D203.0.113.3", 0),
        (f"fixed_ips=subnet_id={subnet['id']}", 1),
        (f"network_id={network['id']}&name=web", 1),
        ("device_id=", 1),
        ("name=other", 0),
        ("limit=1", 1),
        (f"marker={port['id']}", 0),
        ("device_id=%00", 0),
    ):
        status, answer = await api.call("GET", f"/v2.0/ports?{query}")
        assert (status, len(answer["ports"])) == (200, found), query
    for path in (f"ports/{port['id']}", f"subnets/{subnet['id']}", f"segments/{segment['id']}"):
        assert (await api.call("DELETE", f"/v2.0/{path}"))[0] == 204
    assert (await api.call("DELETE", f"/v2.0/networks/{network['id']}"))[0] == 204
    assert (await api.call("GET", f"/v2.0/networks/{network['id']}"))[0] == 404


async def test_refusals_have_upstreams_names(api: Api, cloud: Cloud) -> None:
    network, segment, _ = await routed(api, cloud)
    in_use = await api.make("port", network_id=network["id"], fixed_ips=[{"ip_address": "203.0.113.2"}])
    missing = "11111111-1111-4111-8111-111111111111"
    nowhere = {"port": {"binding:host_id": "nowhere"}}
    cases: list[tuple[str, str, Any, int, str]] = [
        ("GET", f"/v2.0/ports/{missing}", None, 404, "PortNotFound"),
        ("GET", "/v2.0/subnets/no-uuid", None, 404, "SubnetNotFound"),
        ("POST", "/v2.0/ports", {"port": {"network_id": missing}}, 404, "NetworkNotFound"),
        ("DELETE", f"/v2.0/networks/{network['id']}", None, 409, "NetworkInUse"),
        ("DELETE", f"/v2.0/segments/{segment['id']}", None, 409, "SegmentInUse"),
        ("PUT", f"/v2.0/ports/{in_use['id']}", nowhere, 409, "HostNotConnectedToAnySegment"),
        ("POST", "/v2.0/subnets", {"subnet": {"network_id": network["id"], "cidr": "10.0.0.0/24"}}, 400,
            "SubnetsNotAllAssociatedWithSegments"),
        ("POST", "/v2.0/subnets", {"subnet": {"network_id": network["id"], "cidr": "::/64", "ip_version": 6}}, 400,
            "InvalidInput"),
        ("POST", "/v2.0/subnets", {"subnet": {"network_id": network["id"], "segment_id": segment["id"],
            "cidr": "10.0.0.0/24", "gateway_ip": ""}}, 400, "InvalidInput"),
        ("POST", "/v2.0/ports", {"port": {"network_id": network["id"], "binding:host_id": "nowhere"}}, 409,
            "HostNotConnectedToAnySegment"),
        ("POST", "/v2.0/ports", {"port": {"network_id": network["id"], "fixed_ips": [{"ip_address": "203.0.113.2"}]}},
            409, "IpAddressAlreadyAllocated"),
        ("POST", "/v2.0/ports", {"port": {"network_id": network["id"], "fixed_ips": [{"ip_address": "192.0.2.1"}]}},
            400, "InvalidIpForNetwork"),
        ("POST", "/v2.0/ports", {"port": {"network_id": network["id"], "id": missing}}, 400, "HTTPBadRequest"),
        ("GET", "/v2.0/ports?colour=red", None, 400, "HTTPBadRequest"),
        ("GET", "/v2.0/nothing", None, 404, "HTTPNotFound"),
        ("PATCH", "/v2.0/ports", None, 405, "HTTPMethodNotAllowed"),
    ]  # fmt: skip
    for method, path, body, status, kind in cases:
        answered, answer = await api.call(method, path, body)
        assert (answered, answer["NeutronError"]["type"]) == (status, kind), (path, answer)
        assert answer["NeutronError"]["message"]
    stale = [(b"if-match", b"revision_number=77")]
    answered, answer = await api.call("PUT", f"/v2.0/ports/{in_use['id']}", {"port": {"name": "x"}}, headers=stale)
    assert (answered, answer["NeutronError"]["type"]) == (412, "RevisionNumberConstraintFailed")


def test_every_error_is_answered_by_its_own_name() -> None:
    """Clients tell refusals apart by it."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
    assert len(kinds) > 40
    for kind in kinds:
        expected = "BadRequest" if kind is errors.PortNotCompute else kind.__name__
        assert PROBLEMS[kind].code == expected, kind
        for base, status in ((BadRequest, 400), (NotFound, 404), (Conflict, 409)):
            if issubclass(kind, base) and getattr(kind, "retry", None) is not Retry.NOW:
                assert PROBLEMS[kind].status == status, kind


async def test_null_empties_a_subnets_name_servers_and_routes(api: Api) -> None:
    """Source: neutron-lib, convert_none_to_empty_list."""
    network = await api.make("network")
    given = {"dns_nameservers": ["10.0.0.53"], "host_routes": [{"destination": "10.1.0.0/16", "nexthop": "10.0.0.9"}]}
    subnet = await api.make("subnet", network_id=network["id"], cidr="10.0.0.0/24", **given)
    for body, shown in (({}, given), (dict.fromkeys(given), {name: [] for name in given})):
        status, answer = await api.call("PUT", f"/v2.0/subnets/{subnet['id']}", {"subnet": body})
        assert (status, {name: answer["subnet"][name] for name in given}) == (200, shown)


async def test_a_plain_network_is_one_provider_and_full_is_409(api: Api, cloud: Cloud) -> None:
    network = await api.make("network", name="backend", **{"provider:physical_network": "backend"})
    await api.make("subnet", network_id=network["id"], cidr="10.0.0.0/30")
    await api.make("port", network_id=network["id"])
    assert await cloud.used(network["id"]) == (1, 1)
    status, answer = await api.call("POST", "/v2.0/ports", {"port": {"network_id": network["id"]}})
    assert (status, answer["NeutronError"]["type"]) == (409, "IpAddressGenerationFailure")


async def test_what_clients_ask_first_is_answered(api: Api) -> None:
    assert (await api.call("GET", "/"))[1]["versions"][0]["id"] == "v2.0"
    aliases = {item["alias"] for item in (await api.call("GET", "/v2.0/extensions"))[1]["extensions"]}
    assert {"segment", "binding", "provider"} <= aliases
    assert (await api.call("GET", "/v2.0/extensions/segment"))[0] == 200
    assert (await api.call("GET", "/v2.0/extensions/none"))[0] == 404


texts = st.one_of(st.text(max_size=8), st.sampled_from(["\x00", "10.0.0.5", "fa:16:3e:00:00:01", "11" * 16, "0/0"]))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=4,
)
KEYS = (
    "network_id", "name", "cidr", "ip_version", "segment_id", "gateway_ip", "allocation_pools", "fixed_ips",
    "mac_address", "binding:host_id", "binding:profile", "device_id", "network_type", "physical_network",
    "segmentation_id", "provider:network_type", "provider:segmentation_id", "project_id", "description",
)  # fmt: skip


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_malformed_request_fails_inside(api: Api, cloud: Cloud, data: st.DataObject) -> None:
    # All is drawn whatever is answered: what exists already differs when an example is tried again.
    kind = data.draw(st.sampled_from(["network", "segment", "subnet", "port"]))
    named, sized = data.draw(st.booleans()), data.draw(st.booleans())
    change = data.draw(st.dictionaries(st.sampled_from(KEYS), values, max_size=2))
    networks = (await api.call("GET", "/v2.0/networks"))[1]["networks"]
    known = networks[0]["id"] if networks else (await api.make("network"))["id"]
    body = data.draw(st.dictionaries(st.sampled_from(KEYS), values, max_size=4))
    if named:
        body |= {"network_id": known}
    if kind == "subnet" and sized:
        body |= {"cidr": "10.0.0.0/29"}
    status, answer = await api.call("POST", f"/v2.0/{kind}s", {kind: body})
    assert status in (201, 400, 404, 409), (body, answer)
    if status == 201 and kind == "port":
        status, answer = await api.call("PUT", f"/v2.0/ports/{answer['port']['id']}", {"port": change})
        assert status in (200, 400, 404, 409), (change, answer)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"null", b'{"port": null}', b"\xff", b'{"port":' * 5000])
async def test_a_body_that_is_none_is_a_400(api: Api, raw: bytes) -> None:
    assert (await api.call("POST", "/v2.0/ports", raw=raw))[0] == 400
