"""Every action at every microversion that changes it, with whatever clients of some time send: never a 500."""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.agent.cloud import AGENT
from tests.compute.test_actions import make_server

from roost.compute.api.errors import MICROVERSIONS
from roost.compute.api.move_actions import MOVE_ACTIONS
from roost.compute.api.power_actions import POWER_ACTIONS
from roost.compute.service import Compute
from roost.compute.service import hosts as hosts_service
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.platform.http import Version
from roost.platform.operations import Versions
from roost.seams.agent import HostReport

ACTIONS = POWER_ACTIONS | MOVE_ACTIONS
BODIES: tuple[Any, ...] = (
    None, {}, "", [], "null", 0, True, {"host": None}, {"host": "h2"}, {"type": "HARD"}, {"state": "active"},
    {"flavorRef": "large"}, {"host": None, "block_migration": "auto"}, {"availability_zone": None},
    {"host": "h2", "block_migration": False, "disk_over_commit": False},
    {"host": "h2", "onSharedStorage": False}, {"imageRef": "1a9e0000-0000-4000-8000-000000000001"}, {"name": "default"},
    {"locked_reason": "why"},
)  # fmt: skip
"""What novaclient, openstacksdk and tempest send for some action at some time, and what nobody should."""


def versions_of(name: str) -> list[Version]:
    """Return the microversions at which the action, its body or its attributes change, with those just before."""
    action = ACTIONS[name]
    changes = {action.since, action.until, MICROVERSIONS.lowest, MICROVERSIONS.highest}
    changes |= set(action.body.schemas) if isinstance(action.body, Versions) else set()
    changes |= set(action.attributes.since.values()) | {(a, b + 1) for a, b in action.attributes.until.values()}
    changes |= {(major, minor - 1) for major, minor in changes if minor > 1}
    return sorted(version for version in changes if MICROVERSIONS.lowest <= version <= MICROVERSIONS.highest)


@pytest.fixture
async def server_id(call: Any, compute: Compute) -> str:
    hosts = [HostReport(name="h2", vcpus=4, ram_mb=4096, disk_gb=40)]
    await hosts_service.register_hosts(compute, hosts, agent=AGENT)
    await create_flavor(compute, FlavorRequest(name="large", vcpus=1, ram_mb=1, disk_gb=1))
    return await make_server(call, compute, "mine")


@pytest.mark.parametrize("name", ACTIONS)
async def test_an_action_answers_whatever_its_body_is(
    call: Callable[..., Awaitable[Any]], compute: Compute, server_id: str, name: str
) -> None:
    statuses = set()
    for version, body in itertools.product(versions_of(name), BODIES):
        answer = await call(
            "POST", f"/v2.1/servers/{server_id}/action", {name: body}, version=f"{version[0]}.{version[1]}"
        )
        assert answer.status < 500 or answer.status == 501, (version, body, answer.raw)
        assert answer.status in (200, 202, 204, 400, 403, 404, 409, 501), (version, body)
        statuses.add(answer.status)
    assert name == "evacuate" or statuses - {400, 404}, "no body is right for the action"  # its host is up


@pytest.mark.parametrize("body", [None, {}])
@pytest.mark.parametrize("version", ["2.1", "2.55"])
async def test_a_migration_of_old_clients_begins(call: Any, server_id: str, version: str, body: Any) -> None:
    answer = await call("POST", f"/v2.1/servers/{server_id}/action", {"migrate": body}, version=version)
    assert answer.status == 202
