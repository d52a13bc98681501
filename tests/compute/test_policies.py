"""Whom the Compute API lets do what: every operation by every kind of caller, and what each sees and may use."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.types import ASGIApp
from tests.agent.cloud import AGENT
from tests.platform.asgi import ask

from roost.cli.serving.access import api_policy
from roost.clients.local_network import LocalNetwork
from roost.compute.api import operations, routes
from roost.compute.api.move_actions import MOVE_ACTIONS
from roost.compute.api.power_actions import POWER_ACTIONS
from roost.compute.service import Compute
from roost.compute.service import hosts as hosts_service
from roost.network.api import routes as network_routes
from roost.placement.settings import PlacementSettings
from roost.platform.auth import Caller, Policy
from roost.platform.authentication import Authentication, noauth2
from roost.platform.mounts import mount
from roost.platform.operations import collect_defaults
from roost.seams.agent import HostReport

NOTHING: Any = None
HOWTO = Path(__file__).parents[2] / "docs" / "howto"
NO = 404
"""Not seen: not there."""

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
    return api_policy("compute", "noauth2", name, PlacementSettings(**settings), folder=Path("/"))


@dataclass
class Guarded:
    """The Compute and the Network API behind authentication."""

    app: ASGIApp

    async def call(
        self, who: str, method: str, path: str, body: Any = None, *, api: str = "compute/v2.1", version: str = "2.96"
    ) -> tuple[int, Any]:
        raw = b"" if body is None else msgspec.json.encode(body)
        headers = {**CALLERS[who], "OpenStack-API-Version": f"compute {version}"}
        answer = await ask(self.app, f"/{api}{path}", headers, method=method, body=raw)
        assert answer.status < 500 or answer.status == 501, answer
        return answer.status, answer.body

    async def make(self, who: str, one: str, **fields: Any) -> Any:
        status, answer = await self.call(who, "POST", f"/{one}s", {one: fields}, api="network/v2.0")
        assert status == 201, answer
        return answer[one]

    async def boot(self, who: str, *nics: Any, **more: Any) -> tuple[int, Any]:
        server = {"name": "web", "flavorRef": "small", "networks": list(nics)} | more
        return await self.call(who, "POST", "/servers", {"server": server})

    async def listed(self, who: str, query: str = "") -> set[str]:
        status, answer = await self.call(who, "GET", f"/servers{query}")
        assert status == 200, answer
        return {server["id"] for server in answer["servers"]}


@dataclass(frozen=True)
class World:
    """What there is: networks, ports and a server of the project `mine`; a shared network, an external one."""

    mine: str
    port: str
    shared: str
    shared_port: str
    external: str
    theirs: str
    server: str
    host: str


def guarded(compute: Compute, policy: Policy) -> Guarded:
    network_policy = api_policy("network", "noauth2", "secure-rbac", PlacementSettings(), folder=Path("/"))
    networks = cast("LocalNetwork", compute.network).service
    apis = [mount("/network", network_routes(networks, network_policy)), mount("/compute", routes(compute, policy))]
    return Guarded(Authentication(Starlette(routes=apis), noauth2, open_paths=frozenset()))


@pytest.fixture
def api(compute: Compute) -> Guarded:
    return guarded(compute, preset())


@pytest.fixture
async def world(api: Guarded, compute: Compute) -> World:
    reports = [HostReport(name=name, vcpus=4, ram_mb=4096, disk_gb=40) for name in ("h1", "h2")]
    hosts = await hosts_service.register_hosts(compute, reports, agent=AGENT)
    for name, public in (("small", True), ("secret", False)):
        flavor = {"name": name, "id": name, "vcpus": 1, "ram": 1, "disk": 1, "os-flavor-access:is_public": public}
        assert (await api.call("admin", "POST", "/flavors", {"flavor": flavor}))[0] == 200

    async def network(who: str, number: int, **more: Any) -> str:
        made = await api.make(who, "network", name=f"n{number}", **more)
        owner = "admin" if more else who
        await api.make(owner, "subnet", network_id=made["id"], cidr=f"10.{number}.0.0/24", ip_version=4)
        return str(made["id"])

    mine, theirs = await network("member", 0), await network("other", 1)
    shared = await network("admin", 2, shared=True)
    external = await network("admin", 3, **{"router:external": True})
    port, shared_port = [await api.make("member", "port", network_id=one) for one in (mine, shared)]
    status, answer = await api.boot("member", {"uuid": mine})
    assert status == 202, answer
    server = answer["server"]["id"]
    return World(mine, port["id"], shared, shared_port["id"], external, theirs, server, hosts[0].provider_uuid)


ADMIN = {"admin": 200, "service": 403, "member": 403, "reader": 403, "nobody": 403, "system": 403}
OWN = {"admin": 200, "member": 200, "reader": 200, "other": NO, "service": NO, "nobody": 403, "system": NO}
IN_PROJECT = {"admin": 200, "member": 200, "reader": 200, "other": 200, "service": 403, "nobody": 403, "system": 403}
MOVER = {"admin": 200, "member": 403, "reader": 403, "other": NO, "service": NO, "nobody": 403, "system": NO}
EVERYBODY = {"admin": 200, "service": 200, "member": 200, "reader": 200, "nobody": 200}
ROOSTS = {"admin": 200, "service": 200, "member": 403, "reader": 403, "nobody": 403, "system": 403}
OF_PROJECT = {
    "admin": 200, "member": 200, "reader": 200, "other": 403, "service": 403, "nobody": 403, "system": 403,
}  # fmt: skip
FLAVOR = {"flavor": {"name": "big", "vcpus": 1, "ram": 1, "disk": 1}}
HOSTS = {"hosts": [{"name": "h3", "vcpus": 1, "ram_mb": 1, "disk_gb": 1}]}
SPECS = {"extra_specs": {"a:b": "c"}}

CHANGE = {
    "admin": 409, "member": 409, "reader": 403, "nobody": 403, "other": NO, "service": NO, "system": NO,
}  # fmt: skip
"""A server that is being built takes few changes, whoever asks for them."""
BODIES = {
    "reboot": {"type": "SOFT"}, "rebuild": {"imageRef": "i"}, "os-resetState": {"state": "error"},
    "resize": {"flavorRef": "small"}, "migrate": {"host": "h1"}, "os-migrateLive": {}, "evacuate": {},
    "addSecurityGroup": {"name": "default"}, "removeSecurityGroup": {"name": "default"},
}  # fmt: skip
UNSUPPORTED = ("changePassword", "createBackup", "createImage", "os-getConsoleOutput", "rescue", "restore", "unrescue")
DONE = {
    **dict.fromkeys((*UNSUPPORTED, "injectNetworkInfo", "trigger_crash_dump"), 501),
    **dict.fromkeys(("lock", "unlock", "addSecurityGroup"), 202),
}
ADMINS = ("os-resetState", "injectNetworkInfo", "unlock", "migrate", "os-migrateLive", "evacuate", "shelveOffload")
"""Actions that a member may not do: an administrator has locked the server."""

TABLE: list[tuple[str, str, Any, dict[str, int]]] = [
    # Of a project.
    ("GET", "/servers", None, IN_PROJECT), ("GET", "/servers/detail", None, IN_PROJECT | {"service": 200}),
    ("GET", "/servers/{server}", None, OWN), ("GET", "/servers/{server}/ips", None, OWN),
    ("GET", "/servers/{server}/topology", None, OWN),
    ("GET", "/servers/{server}/ips/none", None, OWN | {"admin": 404, "member": 404, "reader": 404}),
    *(("POST", "/servers/{server}/action", {name: BODIES.get(name)},
        CHANGE | {"admin": DONE.get(name, 409), "member": 403 if name in ADMINS else DONE.get(name, 409)})
        for name in (*POWER_ACTIONS, *MOVE_ACTIONS) if name != "forceDelete"),
    ("GET", "/servers/{server}/os-interface", None, OWN),
    ("GET", "/servers/{server}/os-interface/x", None, OWN | dict.fromkeys(("admin", "member", "reader"), 404)),
    ("POST", "/servers/{server}/os-interface", {}, CHANGE),
    ("DELETE", "/servers/{server}/os-interface/x", None, CHANGE | dict.fromkeys(("admin", "member"), 404)),
    ("PUT", "/servers/{server}", {"server": {"name": "b"}}, CHANGE | {"admin": 200, "member": 200}),
    ("GET", "/servers/{server}/os-instance-actions", None, OWN),
    ("GET", "/servers/{server}/os-instance-actions/x", None, OWN | dict.fromkeys(("admin", "member", "reader"), 404)),
    ("GET", "/servers/{server}/metadata", None, OWN), ("GET", "/servers/{server}/tags", None, OWN),
    ("GET", "/servers/{server}/metadata/x", None, OWN | dict.fromkeys(("admin", "member", "reader"), 404)),
    ("GET", "/servers/{server}/tags/x", None, OWN | dict.fromkeys(("admin", "member", "reader"), 404)),
    ("POST", "/servers/{server}/metadata", {"metadata": {}}, CHANGE),
    ("DELETE", "/servers/{server}/tags", None, CHANGE),
    ("PUT", "/servers/{server}/metadata", {"metadata": {}}, CHANGE), ("PUT", "/servers/{server}/tags/x", None, CHANGE),
    ("PUT", "/servers/{server}/metadata/x", {"meta": {"x": ""}}, CHANGE),
    ("DELETE", "/servers/{server}/metadata/x", None, CHANGE), ("DELETE", "/servers/{server}/tags/x", None, CHANGE),
    ("PUT", "/servers/{server}/tags", {"tags": []}, CHANGE),
    ("POST", "/servers/{server}/action", {"forceDelete": None}, CHANGE | {"admin": 202, "member": 202}),
    ("DELETE", "/servers/{server}", None, {"reader": 403, "nobody": 403, "other": NO, "service": NO, "system": NO}),
    ("DELETE", "/servers/{server}", None, {"admin": 204}), ("DELETE", "/servers/{server}", None, {"member": 204}),
    ("GET", "/servers/{mine}", None, {"admin": NO, "member": NO, "nobody": NO}),
    ("POST", "/servers", {"server": {"name": "a", "flavorRef": "small", "networks": "none"}},
        {"admin": 202, "member": 202, "other": 202, "reader": 403, "service": 403, "nobody": 403, "system": 403}),
    ("GET", "/servers?all_tenants=1", None, IN_PROJECT | {"member": 403, "reader": 403, "other": 403}),
    ("GET", "/servers/detail?all_tenants=1", None, ROOSTS | {"other": 403}),
    ("GET", "/servers?all_tenants=0&project_id=mine", None, {"admin": 200, "member": 200, "other": 403}),
    ("GET", "/servers?host=h1", None, {"admin": 200, "member": 403, "reader": 403}),
    ("GET", "/servers?name=w&status=BUILD&limit=1", None, {"member": 200, "reader": 200}),
    ("GET", "/os-quota-sets/mine", None, OF_PROJECT), ("GET", "/os-quota-sets/mine/detail", None, OF_PROJECT),
    ("GET", "/os-simple-tenant-usage/mine", None, OF_PROJECT), ("GET", "/limits", None, EVERYBODY),
    ("GET", "/limits?tenant_id=mine", None, ADMIN), ("GET", "/os-quota-sets/mine/defaults", None, EVERYBODY),
    # Of nobody, for everybody.
    ("GET", "/flavors", None, EVERYBODY), ("GET", "/flavors/detail", None, EVERYBODY),
    ("GET", "/flavors/small", None, EVERYBODY),
    ("GET", "/flavors/secret", None, {"admin": 200, "member": NO, "reader": NO, "service": NO}),
    ("GET", "/flavors/small/os-extra_specs", None, IN_PROJECT),
    ("GET", "/flavors/small/os-extra_specs/x", None, IN_PROJECT | dict.fromkeys(("admin", "member", "other"), 404)
        | {"reader": 404}),
    ("GET", "/flavors/secret/os-extra_specs", None, {"admin": 200, "member": NO}),
    ("GET", "/os-availability-zone", None, EVERYBODY), ("GET", "/extensions", None, EVERYBODY),
    ("GET", "/extensions/OS-DCF", None, EVERYBODY),
    # An administrator's.
    ("POST", "/flavors", FLAVOR,
        {"service": 200, "member": 403, "reader": 403, "nobody": 403, "system": 403}),
    ("POST", "/flavors", FLAVOR, {"admin": 409}),
    ("POST", "/flavors/small/os-extra_specs", SPECS, ADMIN),
    ("DELETE", "/flavors/small/os-extra_specs/x", None, ADMIN | {"admin": 404}),
    ("GET", "/os-hypervisors", None, ADMIN), ("GET", "/os-hypervisors/detail", None, ADMIN),
    ("GET", "/os-hypervisors/{host}", None, ADMIN),
    ("GET", "/os-hypervisors/{host}/uptime", None, ADMIN | {"admin": 501}),
    ("GET", "/os-hypervisors/h/search", None, ADMIN), ("GET", "/os-hypervisors/h/servers", None, ADMIN),
    ("GET", "/os-services", None, ROOSTS), ("PUT", "/os-services/{host}", {"status": "enabled"}, ADMIN),
    ("GET", "/os-migrations", None, ADMIN), ("GET", "/servers/{server}/migrations", None, MOVER),
    ("GET", "/servers/{server}/migrations/1", None, MOVER | {"admin": 404}),
    ("DELETE", "/servers/{server}/migrations/1", None, MOVER | {"admin": 404}),
    ("POST", "/servers/{server}/migrations/1/action", {"force_complete": None}, MOVER | {"admin": 404}),
    ("GET", "/os-aggregates", None, ADMIN), ("GET", "/os-aggregates/1", None, ADMIN),
    ("POST", "/os-aggregates", {"aggregate": {"name": "gpu"}}, ADMIN),
    ("PUT", "/os-aggregates/1", {"aggregate": {"name": "a"}}, ADMIN | {"admin": 409}),
    ("DELETE", "/os-aggregates/1", None, ADMIN | {"admin": 409}),
    ("POST", "/os-aggregates/1/action", {"add_host": {"host": "h1"}}, ADMIN | {"admin": 409}),
    ("POST", "/os-aggregates/1/action", {"remove_host": {"host": "h1"}}, ADMIN | {"admin": 409}),
    ("POST", "/os-aggregates/1/action", {"set_metadata": {"metadata": {}}}, ADMIN | {"admin": 409}),
    ("POST", "/os-aggregates/1/images", {"cache": [{"id": "i"}]}, ADMIN | {"admin": 400}),
    ("GET", "/os-availability-zone/detail", None, ADMIN), ("GET", "/os-simple-tenant-usage", None, ADMIN),
    ("PUT", "/os-quota-sets/mine", {"quota_set": {"cores": 99}}, ADMIN),
    ("DELETE", "/os-quota-sets/mine", None, ADMIN | {"admin": 202}),
    ("GET", "/os-quota-class-sets/default", None, ADMIN),
    ("PUT", "/os-quota-class-sets/default", {"quota_class_set": {"cores": -1}}, ADMIN),
    ("DELETE", "/os-services/{host}", None, ADMIN | {"admin": 204}),
    ("DELETE", "/flavors/small", None, ADMIN | {"admin": 202}),
    # Roost's own.
    ("GET", "/hosts", None, ROOSTS), ("PUT", "/hosts", HOSTS, ROOSTS), ("GET", "/builds", None, ROOSTS),
]  # fmt: skip


def filled(template: Any, world: World) -> Any:
    """Names in braces are those of the world."""
    text = msgspec.json.encode(template).decode()
    for name in ("mine", "port", "shared", "shared_port", "external", "theirs", "server", "host"):
        text = text.replace(f"{{{name}}}", getattr(world, name))
    return msgspec.json.decode(text)


@dataclass
class Recording:
    """A policy that keeps the rules which it was asked for."""

    policy: Policy
    asked: set[str]

    def enforce(self, caller: Caller, rule: str, target: Mapping[str, str | None] | None = None) -> None:
        self.asked.add(rule)
        self.policy.enforce(caller, rule, target)


async def test_who_may_do_what(compute: Compute, world: World) -> None:
    recording = Recording(preset(), set())
    api = guarded(compute, recording)
    for method, path, body, expected in TABLE:
        own = "compute" if path in ("/hosts", "/builds") else "compute/v2.1"
        version = "2.52" if path.endswith(("/search", "/h/servers")) else "2.87" if "uptime" in path else "2.96"
        callers = sorted(expected, key=lambda who: expected[who] < 300)  # refused first: others may change something
        for who in callers:
            target, sent = filled([path, body], world)
            status, answer = await api.call(who, method, target, sent, api=own, version=version)
            assert status == expected[who], (who, method, path, body, answer)
            if status == 403:
                assert answer["forbidden"]["message"].startswith("Policy does not allow"), (who, path, answer)
        if method == "DELETE" and 204 in expected.values():
            status, answer = await api.boot("member", {"uuid": world.mine})
            world = replace(world, server=answer["server"]["id"])
    assert recording.asked >= collect_defaults(operations(NOTHING), {}).keys()


async def test_a_list_is_of_the_own_project_unless_all_are_asked_for(api: Guarded, world: World) -> None:
    status, answer = await api.boot("admin", {"uuid": world.shared})
    assert status == 202, answer
    roots = answer["server"]["id"]
    assert await api.listed("member") == await api.listed("reader") == {world.server}
    assert await api.listed("other") == set()
    assert await api.listed("admin") == {roots}
    assert await api.listed("admin", "?all_tenants=1") == {roots, world.server}
    assert await api.listed("admin", "?project_id=mine") == {world.server}
    status, answer = await api.call("member", "GET", f"/servers?marker={roots}")
    assert (status, answer["badRequest"]["message"]) == (400, f"marker [{roots}] not found")


async def test_a_member_boots_on_its_own_and_shared_networks_and_ports(api: Guarded, world: World) -> None:
    for nic in ({"uuid": world.mine}, {"uuid": world.shared}, {"port": world.port}, {"port": world.shared_port}):
        assert (await api.boot("member", nic))[0] == 202, nic
    assert (await api.boot("member", {"uuid": world.mine, "fixed_ip": "10.0.0.99"}))[0] == 202


async def test_a_member_is_refused_what_is_not_its_projects(api: Guarded, world: World) -> None:
    unknown = "aaaaaaaa-0000-0000-0000-000000000001"
    theirs = (await api.make("other", "port", network_id=world.theirs))["id"]
    for nic, status, words in (
        ({"uuid": world.theirs}, 400, f"Network {world.theirs} could not be found."),
        ({"uuid": unknown}, 400, f"Network {unknown} could not be found."),
        ({"port": theirs}, 400, f"Port id {theirs} could not be found."),
        ({"port": unknown}, 400, f"Port id {unknown} could not be found."),
        ({"uuid": world.external}, 403, "It is not allowed to create an interface on external network"),
        ({"uuid": world.shared, "fixed_ip": "10.2.0.9"}, 403, "Only the project that owns network"),
    ):  # fmt: skip
        answer = await api.boot("member", nic)
        assert answer[0] == status, (nic, answer)
        [fault] = answer[1].values()
        assert fault["message"].startswith(words)
    assert await api.listed("member") == {world.server}
    for nic in ({"uuid": world.theirs}, {"uuid": world.external}, {"uuid": world.shared, "fixed_ip": "10.2.0.9"}):
        assert (await api.boot("admin", nic))[0] == 202, nic


async def test_who_names_no_network_means_the_only_one_of_the_own_project(
    api: Guarded, world: World, compute: Compute
) -> None:
    body = {"server": {"name": "web", "flavorRef": "small"}}
    assert (await api.call("member", "POST", "/servers", body, version="2.1"))[0] == 409  # or the shared one
    unshared = {"network": {"shared": False}}
    await api.call("member", "DELETE", f"/ports/{world.shared_port}", api="network/v2.0")
    assert (await api.call("admin", "PUT", f"/networks/{world.shared}", unshared, api="network/v2.0"))[0] == 200
    for who, network in (("member", world.mine), ("other", world.theirs)):
        status, answer = await api.call(who, "POST", "/servers", body, version="2.1")
        assert status == 202, answer
        async with compute.database.connection() as connection:
            statement = "SELECT spec -> 'nics' -> 0 ->> 'network_id' FROM compute.server WHERE id = $1"
            assert await connection.fetchval(statement, answer["server"]["id"]) == network


async def test_a_flavor_that_is_not_public_is_an_admins(api: Guarded, world: World) -> None:
    for who, names in (("admin", {"small", "secret"}), ("member", {"small"})):
        for query in ("?is_public=None", "/detail?is_public=None"):
            _, answer = await api.call(who, "GET", f"/flavors{query}")
            assert {flavor["id"] for flavor in answer["flavors"]} == names
    status, answer = await api.boot("member", {"uuid": world.mine}, flavorRef="secret")
    assert (status, answer["badRequest"]["message"]) == (400, "Flavor secret could not be found. There are: small.")
    assert (await api.boot("admin", {"uuid": world.mine}, flavorRef="secret"))[0] == 202


async def test_only_admins_choose_hosts_and_see_them(api: Guarded, world: World, compute: Compute) -> None:
    for more, rule in (
        ({"availability_zone": "nova:h1"}, "os_compute_api:servers:create:forced_host"),
        ({"host": "h1"}, "compute:servers:create:requested_destination"),
    ):
        status, answer = await api.boot("member", {"uuid": world.mine}, **more)
        assert (status, rule in str(answer)) == (403, True), answer
        assert (await api.boot("admin", {"uuid": world.mine}, **more))[0] == 202
    async with compute.database.transaction() as tx:
        fault = '{"message": "none left", "funnel": [["VCPU", 0]]}'
        statement = "UPDATE compute.server SET host = 'h1', status = 'ERROR', fault = $1::jsonb"
        await tx.execute(statement, fault)
    for who, sees in (("admin", True), ("member", False), ("reader", False)):
        _, one = await api.call(who, "GET", f"/servers/{world.server}")
        query = "?project_id=mine"
        _, many = await api.call(who, "GET", f"/servers/detail{query}")
        for server in (one["server"], next(item for item in many["servers"] if item["id"] == world.server)):
            assert ("OS-EXT-SRV-ATTR:host" in server, "host_status" in server) == (sees, sees)
            assert ("details" in server["fault"], server["fault"]["message"]) == (sees, "none left")
            assert "h1" not in str({**server, "links": []}) or sees


async def test_a_file_overrides_and_adds(compute: Compute, world: World, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        '"os_compute_api:servers:show": "rule:project_reader_or_admin or role:auditor"\n'
        '"os_compute_api:os-hypervisors:list": "rule:context_is_admin or role:reader"\n'
        '"os_compute_api:servers:create": "!"\n'
    )
    CALLERS["auditor"] = {"x-auth-token": "aud:theirs", "x-roles": "auditor"}
    settings = PlacementSettings(policy_file="policy.yaml")
    for policy in (
        api_policy("compute", "noauth2", None, settings, folder=tmp_path),
        api_policy("compute", "noauth2", str(file), PlacementSettings(), folder=Path("/")),
    ):
        api = guarded(compute, policy)
        assert (await api.call("auditor", "GET", f"/servers/{world.server}"))[0] == 200
        assert (await api.call("auditor", "DELETE", f"/servers/{world.server}"))[0] == 403  # seen, so not 404
        assert (await api.call("other", "DELETE", f"/servers/{world.server}"))[0] == NO
        assert (await api.call("reader", "GET", "/os-hypervisors"))[0] == 200
        assert (await api.boot("admin", {"uuid": world.mine}))[0] == 403


async def test_the_policy_file_of_the_how_to_works_for_every_service(
    compute: Compute, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The client asks /os-hypervisors/detail, which has a rule of its own."""
    file = tmp_path / "policy.yaml"
    blocks = re.findall(r"```yaml\n(.*?)```", (HOWTO / "keystone.md").read_text(), re.DOTALL)
    file.write_text("".join(blocks))
    settings = PlacementSettings(policy_file="policy.yaml")
    placement, network, policy = (
        api_policy(service, "noauth2", None, settings, folder=tmp_path, warns=True)
        for service in ("placement", "network", "compute")
    )
    reader = Caller("r", "p", ("reader",))
    placement.enforce(reader, "placement:traits:list")
    network.enforce(reader, "get_port:binding:host_id")
    assert (await guarded(compute, policy).call("reader", "GET", "/os-hypervisors/detail"))[0] == 200
    assert (capsys.readouterr(), caplog.records) == (("", ""), [])


def test_a_misspelt_name_is_told_whatever_service_it_is_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.yaml").write_text('"placement:trait:list": "@"\n"get_port": "@"\n"create_netwrok": "@"\n')
    settings = PlacementSettings(policy_file="policy.yaml")
    api_policy("placement", "noauth2", None, settings, folder=tmp_path, warns=True)
    assert "do nothing: placement:trait:list, create_netwrok" in capsys.readouterr().out


async def test_presets_open_and_default(compute: Compute, world: World) -> None:
    assert (await guarded(compute, preset("open")).call("nobody", "GET", "/os-hypervisors"))[0] == 200
    assert (await guarded(compute, preset("default")).call("nobody", "GET", "/servers"))[0] == 403
