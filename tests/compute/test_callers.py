"""Every operation of the Compute and the Network API by twelve callers: whom its rule refuses, no operation lets in.

What those are answered that are let in is in test_policies.py of each wing.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from tests.callers import CALLERS
from tests.compute.test_policies import World, api, preset, world  # noqa: F401 - fixtures
from tests.platform.asgi import ask

from roost.cli.serving.access import api_policy
from roost.clients.local_network import LocalNetwork
from roost.compute import api as compute_api
from roost.compute.service import Compute
from roost.network import api as network_api
from roost.placement.settings import PlacementSettings
from roost.platform.auth import Caller, Forbidden, Policy, Unauthorized
from roost.platform.authentication import Authentication
from roost.platform.mounts import mount
from roost.platform.operations import Operations

MINE = {"project_id": "mine", "tenant_id": "mine", "network:project_id": "mine", "network:tenant_id": "mine"}
BODIES: Mapping[tuple[str, str], Any] = {
    ("POST", "/v2.0/networks"): {"network": {"project_id": "mine"}},
    ("POST", "/v2.0/subnets"): {"subnet": {"network_id": "{mine}", "cidr": "10.9.0.0/24", "ip_version": 4}},
    ("POST", "/v2.0/ports"): {"port": {"network_id": "{mine}"}},
    ("PUT", "/v2.0/networks/{id}"): {"network": {"name": "x"}},
    ("PUT", "/v2.0/subnets/{id}"): {"subnet": {"name": "x"}},
    ("PUT", "/v2.0/ports/{id}"): {"port": {"name": "x"}},
}
"""Of operations that look at what is asked before they look at who asks."""
LISTS = frozenset({"/network/v2.0/networks", "/network/v2.0/subnets", "/network/v2.0/ports"})
"""They have what the caller sees."""
REFUSED = (400, 403, 404)
"""400: what is for another project, by who may not see beyond the own one."""


async def identify(headers: Headers, _address: str = "") -> Caller:
    """Return the caller that the token names."""
    caller = CALLERS.get(headers.get("x-auth-token", ""))
    if caller is None:
        raise Unauthorized
    return caller


def requests_of(operations: Operations, prefix: str, ids: Mapping[str, str]) -> Iterator[tuple[str, str, str, bytes]]:
    """Yield (method, path, rule, body) of each operation that has a rule, about what `ids` names."""
    for path, methods in operations.items():
        for method, operation in methods.items():
            kind = next((part for part in ("networks", "subnets", "ports") if f"/{part}/" in path), "")
            names = re.findall(r"{(\w+)}", path)
            filled = path.format_map({name: ids.get(f"{kind}{name}", ids.get(name, "x")) for name in names})
            body = msgspec.json.encode(BODIES.get((method, path), {})).replace(b"{mine}", ids["networksid"].encode())
            if operation.rule is not None and not operation.owner_may:
                yield method, f"{prefix}{filled}", operation.rule.name, body if method in ("POST", "PUT") else b""


def refuses(policy: Policy, caller: Caller, rule: str, target: Mapping[str, str | None] | None) -> bool:
    try:
        policy.enforce(caller, rule, target)
    except Forbidden:
        return True
    return False


async def test_no_operation_lets_in_whom_its_rule_refuses(compute: Compute, world: World) -> None:  # noqa: F811
    rules = {
        "compute": preset(),
        "network": api_policy("network", "noauth2", "secure-rbac", PlacementSettings(), folder=Path("/")),
    }
    networks = cast("LocalNetwork", compute.network).service
    mounts = [
        mount("/compute", compute_api.routes(compute, rules["compute"])),
        mount("/network", network_api.routes(networks, rules["network"])),
    ]
    app = Authentication(Starlette(routes=mounts), identify, open_paths=frozenset())
    ids = {"server_id": world.server, "networksid": world.mine, "portsid": world.port, "project_id": "mine"}
    asked = [
        *requests_of(compute_api.operations(compute), "/compute", ids),
        *requests_of(network_api.operations(networks), "/network", ids),
    ]
    let_in, seen = [], 0
    for method, path, rule, body in asked:
        service = path.split("/")[1]
        of_mine = any(id_ in path for id_ in ids.values()) or bool(body and b"network" in body)
        for name, caller in CALLERS.items():
            if not refuses(rules[service], caller, rule, MINE if of_mine else None):
                continue
            headers = {"x-auth-token": name, "openstack-api-version": "compute 2.96"}
            answer = await ask(app, path, headers, method=method, body=body)
            seen += 1
            if path in LISTS and method == "GET":
                assert b'"project_id":"mine"' not in msgspec.json.encode(answer.body)
            elif answer.status not in REFUSED:
                let_in.append((name, method, path, rule, answer.status, answer.body))
    assert let_in == [], "\n".join(map(str, let_in))
    assert seen > 500
    for method, path, _rule, body in asked:
        assert (await ask(app, path, method=method, body=body)).status == 401, path


async def test_a_projects_quotas_are_seen_by_itself_and_by_operators(compute: Compute) -> None:
    policy = api_policy("network", "noauth2", "secure-rbac", PlacementSettings(), folder=Path("/"))
    networks = cast("LocalNetwork", compute.network).service
    app = Authentication(
        Starlette(routes=[mount("/network", network_api.routes(networks, policy))]), identify, open_paths=frozenset()
    )
    for end in ("", "/default", "/details"):
        path = f"/network/v2.0/quotas/mine{end}"
        statuses = {name: (await ask(app, path, {"x-auth-token": name})).status for name in CALLERS}
        seen_by = {name for name, status in statuses.items() if status == 200}
        assert seen_by == {"admin", "service", "manager", "member", "reader", "nobody"}
        assert set(statuses.values()) == {200, 403}
