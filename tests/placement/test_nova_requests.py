"""Which requests Nova makes of each thing that its users want, and that each is in the request log under Nova's id."""

import re
from itertools import groupby

import pytest
import structlog
from tests.placement.neutron_cloud import Cloud

from roost.cli.serving.access import guarded
from roost.platform.database import Database
from roost.platform.settings import CorsSettings, LogSettings, ProxySettings

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ONE = "/allocations/{uuid}"
READ = ("GET", ONE, "1.28", 200)
CLAIM = (READ, ("PUT", ONE, "1.36", 204))
CANDIDATES = ("GET", "/allocation_candidates", "1.36", 200)
MOVE = (READ, READ, ("POST", "/allocations", "1.28", 204))
DELETE = ("DELETE", ONE, "1.0", 204)
CHANGE = (READ, ("PUT", ONE, "1.28", 204))
"""A claim is read and sent without what is no longer wanted."""
TREE = ("GET", "/resource_providers", "1.14", 200)


@pytest.fixture
async def cloud(database: Database) -> Cloud:
    made = await Cloud.make(database, (5, 4))
    made.nova.api.app = guarded(
        made.nova.api.app, keystone=None, auth="none", policy=None, services=("placement",), proxy=ProxySettings(),
        cors=CorsSettings(), log=LogSettings(),
    )  # fmt: skip
    made.nova.sent.clear()
    return made


async def test_each_request_of_nova_is_logged_under_the_id_of_what_its_user_wanted(cloud: Cloud) -> None:
    nova = cloud.nova
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        server, _ = await cloud.boot(2)
        confirmed = await nova.migrate(server, *cloud.pinned(server))
        assert confirmed is not None
        await nova.confirm(confirmed)
        reverted = await nova.migrate(server, *cloud.pinned(server))
        assert reverted is not None
        await nova.revert(server, reverted)
        assert await nova.evacuate(server, *cloud.pinned(server)) is not None
        assert await nova.boot(4, cloud.network()) == [], "3 of 4 addresses"
        await cloud.delete(server)
    logged = [line for line in lines if line["event"] == "request"]
    sent = [(one.method, one.path, one.version or "1.0", one.status, one.global_id) for one in nova.sent]
    names = ("method", "path", "microversion", "status", "global_request_id")
    assert [tuple(line[name] for name in names) for line in logged if "global_request_id" in line] == sent
    actions = [
        tuple((method, UUID.sub("{uuid}", path.partition("?")[0]), *rest) for method, path, *rest, _ in requests)
        for _, requests in groupby(sent, key=lambda request: request[-1])
    ]
    migrate, refused = (READ, *MOVE, CANDIDATES, *CLAIM), (READ, ("PUT", ONE, "1.36", 409))
    assert actions[:-2] == [
        *[(CANDIDATES, *CLAIM, *CLAIM), migrate, CHANGE, migrate, MOVE, (CANDIDATES, *CLAIM, READ, TREE, CHANGE[1])],
    ]
    assert actions[-2] == (CANDIDATES, *CLAIM * 3, *refused * 4, DELETE, DELETE, DELETE)
    assert actions[-1] == (DELETE,)


async def test_candidates_are_asked_as_nova_writes_them(cloud: Cloud) -> None:
    host = cloud.segments[0].hosts[0]
    await cloud.boot(nics=2, host=host)
    aggregate = f"member_of=in%3A{cloud.segments[0].aggregate}"
    assert cloud.nova.sent[0].path == (
        f"/allocation_candidates?in_tree={host}&limit=1000&{aggregate}&{aggregate}"
        "&resources=MEMORY_MB%3A64%2CVCPU%3A1&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED"
    )
