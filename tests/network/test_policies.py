"""Whom the Network API lets do what: every operation by every kind of caller, and what each sees."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.types import ASGIApp
from tests.network.cloud import Cloud
from tests.platform.asgi import ask
from tests.platform.fake_keystone import FakeKeystone

from roost.cli.serving.access import api_policy
from roost.network.api import routes
from roost.placement.settings import PlacementSettings
from roost.platform.auth import Policy
from roost.platform.authentication import Authentication, noauth2
from roost.platform.keystone import Keystone
from roost.platform.mounts import mount
from roost.platform.policy import OsloPolicy
from roost.platform.settings import KeystoneSettings

WORDS = "Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires admin"

CALLERS = {
    "admin": {"x-auth-token": "root:cloud", "x-roles": "admin"},
    "service": {"x-auth-token": "nova:services", "x-roles": "service"},
    "member": {"x-auth-token": "ann:mine", "x-roles": "member,reader"},
    "reader": {"x-auth-token": "rob:mine", "x-roles": "reader"},
    "other": {"x-auth-token": "eve:theirs", "x-roles": "member,reader"},
    "system": {"x-auth-token": "sys", "x-roles": "admin,member,reader", "openstack-system-scope": "all"},
    "nobody": {"x-auth-token": "tom:mine", "x-roles": ""},
}


def preset(name: str = "secure-rbac", **settings: Any) -> Policy:
    return api_policy("network", "noauth2", name, PlacementSettings(**settings), folder=Path("/"))


@dataclass
class Guarded:
    """The Network API behind authentication."""

    app: ASGIApp

    async def call(self, who: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        raw = b"" if body is None else msgspec.json.encode(body)
        answer = await ask(self.app, f"/network/v2.0/{path}", CALLERS[who], method=method, body=raw)
        assert answer.status < 500, answer
        return answer.status, answer.body

    async def make(self, who: str, one: str, **fields: Any) -> Any:
        status, answer = await self.call(who, "POST", f"{one}s", {one: fields})
        assert status == 201, answer
        return answer[one]

    async def listed(self, who: str, many: str, query: str = "") -> set[str]:
        status, answer = await self.call(who, "GET", f"{many}{query}")
        assert status == 200, answer
        return {item["id"] for item in answer[many]}


def guarded(cloud: Cloud, policy: Policy) -> Guarded:
    app = Starlette(routes=[mount("/network", routes(cloud.networks, policy))])
    return Guarded(Authentication(app, noauth2, open_paths=frozenset()))


@pytest.fixture
def api(cloud: Cloud) -> Guarded:
    return guarded(cloud, preset())


@dataclass(frozen=True)
class World:
    """What there is: of the project `mine`, shared by the admin, external; ports of mine on both."""

    mine: Any
    subnet: Any
    port: Any
    shared: Any
    shared_subnet: Any
    shared_port: Any
    external: Any


async def populate(api: Guarded) -> World:
    mine = await api.make("member", "network", name="mine")
    subnet = await api.make("member", "subnet", network_id=mine["id"], cidr="10.0.0.0/24", ip_version=4)
    shared = await api.make("admin", "network", name="shared", shared=True)
    shared_subnet = await api.make("admin", "subnet", network_id=shared["id"], cidr="10.1.0.0/24", ip_version=4)
    return World(
        mine=mine,
        subnet=subnet,
        port=await api.make("member", "port", network_id=mine["id"]),
        shared=shared,
        shared_subnet=shared_subnet,
        shared_port=await api.make("member", "port", network_id=shared["id"]),
        external=await api.make("admin", "network", name="external", **{"router:external": True}),
    )


NO = 404
"""Not seen: not there."""

TABLE: list[tuple[str, str, Any, dict[str, int]]] = [
    # What a project owns.
    ("GET", "networks/{mine}", None, {"admin": 200, "service": 200, "member": 200, "reader": 200, "other": NO}),
    ("GET", "subnets/{subnet}", None, {"admin": 200, "service": 200, "member": 200, "reader": 200, "other": NO}),
    ("GET", "ports/{port}", None, {"admin": 200, "service": 200, "member": 200, "reader": 200, "other": NO}),
    ("PUT", "networks/{mine}", {"network": {"name": "x"}}, {"admin": 200, "member": 200, "reader": 403, "other": NO}),
    ("PUT", "ports/{port}", {"port": {"name": "x"}}, {"admin": 200, "member": 200, "reader": 403, "other": NO}),
    ("GET", "ports/{port}/tags", None, {"admin": 200, "member": 200, "reader": 200, "other": NO}),
    ("PUT", "ports/{port}/tags", {"tags": ["a"]}, {"admin": 200, "member": 200, "reader": 403, "other": NO}),
    ("PUT", "networks/{mine}/tags/a", None, {"admin": 201, "member": 201, "reader": 403, "other": NO}),
    # What is there for everybody.
    ("GET", "networks/{shared}", None, {"member": 200, "other": 200, "reader": 200, "nobody": 200, "system": NO}),
    ("GET", "networks/{external}", None, {"member": 200, "other": 200}),
    ("GET", "subnets/{shared_subnet}", None, {"member": 200, "other": 200}),
    ("PUT", "networks/{shared}", {"network": {"name": "x"}}, {"admin": 200, "member": 403, "other": 403}),
    ("DELETE", "networks/{shared}", None, {"admin": 409, "member": 403, "other": 403}),
    ("DELETE", "subnets/{shared_subnet}", None, {"member": 403, "other": 403}),
    ("GET", "ports/{shared_port}", None, {"admin": 200, "member": 200, "other": NO}),
    ("POST", "ports", {"port": {"network_id": "{shared}"}},
        {"admin": 201, "service": 201, "member": 201, "other": 201, "reader": 403, "nobody": 403, "system": 403}),
    ("POST", "ports", {"port": {"network_id": "{mine}"}}, {"member": 201, "reader": 403, "other": NO}),
    ("POST", "ports", {"port": {"network_id": "{external}"}},
        {"admin": 201, "service": 201, "member": 403, "other": 403, "reader": 403}),
    ("POST", "ports", {"ports": [{"network_id": "{mine}"}, {"network_id": "{external}"}]}, {"member": 403}),
    ("POST", "subnets", {"subnet": {"network_id": "{shared}", "cidr": "10.2.0.0/24", "ip_version": 4}},
        {"member": 403, "other": 403, "admin": 201}),
    ("POST", "subnets", {"subnet": {"network_id": "{mine}", "cidr": "10.3.0.0/24", "ip_version": 4}},
        {"member": 201, "reader": 403, "other": NO}),
    ("POST", "networks", {"network": {}}, {"admin": 201, "member": 201, "reader": 403, "system": 403, "nobody": 403}),
    # For others.
    ("POST", "networks", {"network": {"project_id": "theirs"}}, {"admin": 201, "service": 201, "member": 400}),
    ("POST", "networks", {"network": {"tenant_id": "theirs"}}, {"other": 201, "member": 400}),
    ("POST", "networks", {"networks": [{}, {"project_id": "theirs"}]}, {"admin": 201, "member": 400}),
    # What only admins and services may say.
    ("POST", "networks", {"network": {"shared": True}}, {"admin": 201, "service": 201, "member": 403}),
    ("POST", "networks", {"network": {"shared": False}}, {"member": 201}),
    ("POST", "networks", {"network": {"router:external": True}}, {"admin": 201, "member": 403}),
    ("POST", "networks", {"network": {"provider:physical_network": "p"}}, {"admin": 201, "member": 403}),
    ("POST", "networks", {"network": {"segments": [{"provider:physical_network": "q"}]}}, {"member": 403}),
    ("PUT", "networks/{mine}", {"network": {"shared": True}}, {"member": 403, "other": NO}),
    ("PUT", "networks/{mine}", {"network": {"router:external": True}}, {"member": 403}),
    ("POST", "ports", {"port": {"network_id": "{mine}", "binding:host_id": "h"}}, {"member": 403}),
    ("POST", "ports", {"port": {"network_id": "{mine}", "binding:profile": {"a": 1}}}, {"member": 403, "admin": 201}),
    ("POST", "ports", {"port": {"network_id": "{mine}", "binding:vnic_type": "direct"}}, {"member": 201}),
    ("POST", "ports", {"ports": [{"network_id": "{mine}"}, {"network_id": "{mine}", "binding:host_id": "h"}]},
        {"member": 403}),
    ("PUT", "ports/{port}", {"port": {"binding:host_id": "h"}}, {"member": 403, "reader": 403, "other": NO}),
    ("PUT", "ports/{port}", {"port": {"binding:host_id": None}}, {"member": 403, "admin": 200}),
    ("POST", "ports", {"port": {"network_id": "{mine}", "fixed_ips": [{"ip_address": "10.0.0.77"}]}}, {"member": 201}),
    ("POST", "ports", {"port": {"network_id": "{shared}", "fixed_ips": [{"ip_address": "10.1.0.77"}]}},
        {"other": 403, "admin": 201}),
    ("POST", "ports", {"port": {"network_id": "{shared}", "fixed_ips": [{"subnet_id": "{shared_subnet}"}]}},
        {"other": 201}),
    ("POST", "ports", {"port": {"network_id": "{shared}", "mac_address": "fa:16:3e:00:00:01"}},
        {"other": 403, "admin": 201}),
    ("POST", "ports", {"port": {"network_id": "{shared}", "device_owner": "network:dhcp"}},
        {"other": 403, "admin": 201}),
    ("POST", "ports", {"port": {"network_id": "{shared}", "device_owner": "mine:x"}}, {"other": 201}),
    ("PUT", "ports/{shared_port}", {"port": {"device_owner": "network:dhcp"}}, {"member": 403, "other": NO}),
    ("POST", "ports", {"port": {"network_id": "{shared}", "port_security_enabled": False}},
        {"other": 403, "service": 201}),
    ("POST", "ports", {"port": {"network_id": "{mine}", "port_security_enabled": False}}, {"member": 201}),
    ("POST", "ports", {"port": {"network_id": "{shared}", "allowed_address_pairs": [{"ip_address": "10.1.0.9"}]}},
        {"other": 403, "admin": 201}),
    ("PUT", "ports/{port}", {"port": {"allowed_address_pairs": [{"ip_address": "10.0.0.9"}]}}, {"member": 200}),
    ("PUT", "ports/{shared_port}", {"port": {"allowed_address_pairs": []}}, {"member": 403, "service": 200}),
    ("PUT", "ports/{shared_port}", {"port": {"port_security_enabled": False}}, {"member": 403}),
    ("POST", "networks", {"network": {"port_security_enabled": False}}, {"member": 201, "reader": 403}),
    ("PUT", "networks/{shared}", {"network": {"port_security_enabled": False}}, {"member": 403}),
    ("POST", "networks", {"network": {"roost:kind": "flat"}}, {"admin": 201, "member": 403}),
    ("POST", "subnets", {"subnet": {"network_id": "{mine}", "cidr": "10.4.0.0/24", "ip_version": 4, "roost:cell": "c"}},
        {"member": 403}),
    ("GET", "ports/{port}/bindings", None, {"admin": 400, "service": 400, "member": 403, "other": NO}),
    ("POST", "ports/{port}/bindings", {"binding": {"host": "h"}}, {"member": 403, "other": NO}),
    ("PUT", "ports/{port}/bindings/h/activate", None, {"member": 403, "other": NO}),
    # What belongs to no project.
    ("GET", "segments", None, {"admin": 200, "service": 200, "member": 403, "reader": 403, "system": 403}),
    ("GET", "segments/{mine}", None, {"admin": 404, "member": 403}),
    ("GET", "segments/{mine}/tags", None, {"admin": 404, "member": 403}),
    ("POST", "segments", {"segment": {"network_id": "{mine}", "network_type": "geneve"}}, {"member": 403}),
    ("DELETE", "segments/{mine}", None, {"admin": 404, "member": 403}),
    ("GET", "network-ip-availabilities", None, {"admin": 200, "member": 403}),
    ("GET", "network-ip-availabilities/{mine}", None, {"admin": 200, "member": 403, "other": 403}),
    ("GET", "quotas", None, {"admin": 200, "member": 403}),
    ("GET", "quotas/mine", None, {"admin": 200, "member": 200, "reader": 200, "other": 403}),
    ("GET", "quotas/mine/default", None, {"member": 200, "other": 403}),
    ("GET", "quotas/mine/details", None, {"member": 200, "other": 403}),
    ("PUT", "quotas/mine", {"quota": {"port": 99}}, {"admin": 200, "service": 200, "member": 403}),
    ("DELETE", "quotas/nobodys", None, {"admin": 404, "member": 403}),
    ("GET", "quotas/project", None, {"admin": 200, "nobody": 200}),
    ("GET", "extensions", None, {"nobody": 200, "system": 200}),
    # Malformed for who may, hidden for who may not.
    ("PUT", "ports/{port}", {"port": {"colour": 1}}, {"member": 400, "reader": 403, "other": NO}),
    ("PUT", "ports/no-uuid", {"port": {"name": "x"}}, {"admin": NO, "member": NO}),
    ("POST", "ports", {}, {"admin": 400, "member": 400}),
    ("POST", "ports", {"port": {"network_id": "no-uuid"}}, {"admin": 400, "member": 400}),
]  # fmt: skip


def filled(value: Any, ids: dict[str, str]) -> Any:
    text: str = msgspec.json.encode(value).decode()
    for name, id_ in ids.items():
        text = text.replace(f'"{{{name}}}"', f'"{id_}"')
    return msgspec.json.decode(text)


async def test_every_operation_by_every_caller(api: Guarded) -> None:
    world = await populate(api)
    ids = {name: getattr(world, name)["id"] for name in World.__annotations__}
    wrong = []
    for method, path, body, statuses in TABLE:
        for who, expected in statuses.items():
            asked = None if body is None else filled(body, ids)
            status, answer = await api.call(who, method, path.format_map(ids), asked)
            if status != expected:
                wrong.append((method, path, body, who, expected, status, answer))
            elif status == 403:
                assert answer["NeutronError"]["type"] == "PolicyNotAuthorized"
    assert not wrong, "\n".join(map(str, wrong))


async def test_what_each_may_delete(api: Guarded) -> None:
    world = await populate(api)
    theirs = await api.make("other", "port", network_id=world.shared["id"])
    for who, path, expected in (
        ("reader", f"ports/{world.port['id']}", 403),
        ("other", f"ports/{world.port['id']}", 404),
        ("member", f"ports/{theirs['id']}", 404),
        ("other", f"ports/{theirs['id']}", 204),
        ("member", f"ports/{world.port['id']}", 204),
        ("other", f"subnets/{world.subnet['id']}", 404),
        ("member", f"subnets/{world.subnet['id']}", 204),
        ("other", f"networks/{world.mine['id']}", 404),
        ("member", f"networks/{world.mine['id']}", 204),
    ):
        assert (await api.call(who, "DELETE", path))[0] == expected, (who, path)


async def test_the_owner_of_a_network_sees_and_deletes_the_ports_of_others_on_it(api: Guarded) -> None:
    world = await populate(api)
    guest = await api.make("admin", "port", network_id=world.mine["id"], project_id="theirs")
    assert await api.listed("member", "ports") == {world.port["id"], world.shared_port["id"], guest["id"]}
    assert (await api.call("member", "PUT", f"ports/{guest['id']}", {"port": {"name": "x"}}))[0] == 403
    assert (await api.call("member", "DELETE", f"ports/{guest['id']}"))[0] == 204


@pytest.mark.parametrize("owner", ["compute:nova", "compute:", "baremetal:none", "manila:share"])
async def test_the_port_of_something_that_runs_is_deleted_by_services_alone(api: Guarded, owner: str) -> None:
    world = await populate(api)
    used = {
        project_id: await api.make(
            "admin", "port", network_id=world.mine["id"], project_id=project_id, device_owner=owner, device_id="d"
        )
        for project_id in ("mine", "theirs")
    }
    for who, project_id, expected in (
        ("member", "mine", 403),
        ("member", "theirs", 403),  # whose network it is
        ("reader", "mine", 403),
        ("other", "theirs", 403),
        ("other", "mine", 404),
        ("admin", "mine", 204),
        ("service", "theirs", 204),
    ):
        path = f"ports/{used[project_id]['id']}"
        assert (await api.call(who, "DELETE", path))[0] == expected, (who, project_id)


async def test_lists_have_what_the_caller_sees(api: Guarded) -> None:
    world = await populate(api)
    mine, shared, external = world.mine["id"], world.shared["id"], world.external["id"]
    both = {world.port["id"], world.shared_port["id"]}
    for who, networks, ports in (
        ("admin", {mine, shared, external}, both),
        ("service", {mine, shared, external}, both),
        ("member", {mine, shared, external}, both),
        ("reader", {mine, shared, external}, both),
        ("other", {shared, external}, set()),
        ("nobody", {shared, external}, set()),
        ("system", set(), set()),
    ):
        assert await api.listed(who, "networks") == networks, who
        assert await api.listed(who, "ports") == ports, who
    assert await api.listed("other", "subnets") == {world.shared_subnet["id"]}
    assert await api.listed("other", "ports", "?project_id=mine") == set()
    assert await api.listed("other", "networks", "?project_id=mine") == set()
    pages, query = [], "?limit=1"
    for _ in range(3):
        _status, answer = await api.call("member", "GET", f"ports{query}")
        pages += [item["id"] for item in answer["ports"]]
        query = f"?limit=1&marker={pages[-1]}"
    assert pages == sorted(both)


async def test_what_is_for_admins_is_shown_to_nobody_else(api: Guarded) -> None:
    world = await populate(api)
    hidden = {
        "networks": {"provider:network_type", "provider:physical_network", "provider:segmentation_id"},
        "subnets": {"segment_id"},
        "ports": {"binding:host_id", "binding:vif_type", "binding:vif_details", "binding:profile"},
    }
    for many, id_ in (("networks", world.shared["id"]), ("subnets", world.subnet["id"]), ("ports", world.port["id"])):
        one = many.removesuffix("s")
        everything = (await api.call("admin", "GET", f"{many}/{id_}"))[1][one]
        shown = (await api.call("member", "GET", f"{many}/{id_}"))[1][one]
        assert shown == {name: value for name, value in everything.items() if name not in hidden[many]}
        listed = (await api.call("member", "GET", f"{many}?id={id_}"))[1][many]
        assert listed == [shown]
        for name in hidden[many]:
            assert (await api.call("member", "GET", f"{many}/{id_}?fields={name}"))[1] == {one: {}}
    made = await api.make("member", "port", network_id=world.mine["id"], name="new")
    assert not hidden["ports"] & set(made)
    changed = (await api.call("member", "PUT", f"ports/{made['id']}", {"port": {"name": "y"}}))[1]["port"]
    assert not hidden["ports"] & set(changed)
    for query in ("?binding:host_id=", "?sort_key=binding:host_id", "?binding:vif_type=unbound"):
        assert await api.listed("member", "ports", query) == set(), "what is hidden cannot be guessed by filters"
        assert await api.listed("admin", "ports", query) != set()


async def test_what_is_made_belongs_to_who_made_it(api: Guarded) -> None:
    world = await populate(api)
    for item in (world.mine, world.subnet, world.port, world.shared_port):
        assert (item["project_id"], item["tenant_id"]) == ("mine", "mine")
    status, answer = await api.call("member", "POST", "networks", {"network": {"project_id": "theirs"}})
    assert (status, answer["NeutronError"]["message"].startswith(WORDS)) == (400, True)
    assert (await api.make("admin", "network", tenant_id="theirs"))["project_id"] == "theirs"
    assert await api.listed("other", "networks", "?shared=false&router:external=false") != set()


async def test_operators_override_by_upstreams_names(cloud: Cloud, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text('"get_port:binding:host_id": "rule:regular_user"\n"create_network": "rule:admin_only"\n')
    settings = PlacementSettings(policy_file="policy.yaml")
    for policy in (
        api_policy("network", "noauth2", None, settings, folder=tmp_path),
        api_policy("network", "noauth2", str(file), PlacementSettings(), folder=Path("/")),
    ):
        api = guarded(cloud, policy)
        shared = await api.make("admin", "network", shared=True)
        port = await api.make("member", "port", network_id=shared["id"])
        assert "binding:host_id" in port
        assert "binding:profile" not in port
        assert (await api.call("member", "POST", "networks", {"network": {}}))[0] == 403


async def test_what_many_parts_of_a_body_may_say_is_looked_up_once(
    api: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For half a million fixed_ips in one body it took the worker six seconds."""
    network = await api.make("member", "network")
    looked, fields = [], msgspec.structs.fields

    def count(kind: Any) -> Any:
        looked.append(kind)
        return fields(kind)

    monkeypatch.setattr(msgspec.structs, "fields", count)
    many = [{"network_id": network["id"], "fixed_ips": [{}] * 100}] * 10
    assert (await api.call("member", "POST", "ports", {"ports": many}))[0] == 400
    assert len(looked) < 20


async def test_ports_with_owners_of_their_own_are_decided_about_as_one(
    api: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 of them took a worker thirteen seconds for every list, whoever of the project asked."""
    network = await api.make("member", "network")
    many = [{"network_id": network["id"], "fixed_ips": [], "device_owner": f"mine:{number}"} for number in range(50)]
    assert (await api.call("member", "POST", "ports", {"ports": many}))[0] == 201
    decided, decide = [], OsloPolicy._decide

    def counted(self: OsloPolicy, *args: Any) -> bool:
        decided.append(args)
        return decide(self, *args)

    monkeypatch.setattr(OsloPolicy, "_decide", counted)
    assert len(await api.listed("reader", "ports")) == 50
    assert len(decided) < 10
    assert len(await api.listed("other", "ports")) == 0


async def test_open_lets_everybody_in(cloud: Cloud) -> None:
    api = guarded(cloud, preset("open"))
    network = await api.make("member", "network", shared=True)
    assert network["id"] in await api.listed("other", "networks")
    assert (await api.call("nobody", "PUT", f"networks/{network['id']}", {"network": {"name": "x"}}))[0] == 200


async def test_without_authentication_everybody_may_do_everything(cloud: Cloud) -> None:
    api = Guarded(
        Starlette(
            routes=[
                mount(
                    "/network",
                    routes(cloud.networks, api_policy("network", "none", None, PlacementSettings(), folder=Path("/"))),
                )
            ]
        )
    )
    network = await api.make("other", "network", project_id="any", shared=True)
    assert network["project_id"] == "any"
    assert (await api.make("reader", "network"))["project_id"] == cloud.networks.default_project
    assert (await api.call("nobody", "GET", "segments"))[0] == 200


async def test_keystones_tokens_say_whose_everything_is(cloud: Cloud) -> None:
    server = FakeKeystone()
    await server.start()
    settings = KeystoneSettings(auth_url=server.url, username="roost", password="secret")
    keystone = Keystone(settings, clock=server.world.clock, now=server.world.now)
    try:
        app = Starlette(routes=[mount("/network", routes(cloud.networks, preset()))])
        wrapped = Authentication(app, keystone.identify, open_paths=frozenset())
        member, reader = server.token("member", "reader"), server.token("reader")
        other = server.token(
            "member", "reader", project={"id": "p2", "name": "two", "domain": {"id": "d", "name": "d"}}
        )
        body = msgspec.json.encode({"network": {"name": "n"}})
        path = "/network/v2.0/networks"
        made = await ask(wrapped, path, {"x-auth-token": member}, method="POST", body=body)
        assert (made.status, made.body["network"]["project_id"]) == (201, "p1")
        assert (await ask(wrapped, path, {"x-auth-token": reader}, method="POST", body=body)).status == 403
        for token, status in ((member, 200), (reader, 200), (other, 404), ("x", 401)):
            one = f"{path}/{made.body['network']['id']}"
            assert (await ask(wrapped, one, {"x-auth-token": token})).status == status
    finally:
        await keystone.close()
        await server.stop()
