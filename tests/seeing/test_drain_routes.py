"""Drains over the API: who may, what is answered, and how a request is refused."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.types import ASGIApp
from tests.conductor.world import World
from tests.platform.asgi import Answer, ask
from tests.seeing.draining import Operator

from roost.cli.serving.access import OPEN_PATHS, api_policy
from roost.placement.settings import PlacementSettings
from roost.platform.authentication import Authentication, noauth2
from roost.platform.database import Database
from roost.platform.mounts import mount
from roost.seeing.api import routes

ADMIN = {"x-auth-token": "ann:ops", "x-roles": "admin"}
DRAINS, RECOVERIES = "/roost/v1/drains", "/roost/v1/recoveries"


@pytest.fixture
async def app(database: Database) -> ASGIApp:
    """The operator's side of a cloud of two empty hosts."""
    world = await World.make(database)
    await world.hosts("h1", "h2", reach=["rack1"])
    policy = api_policy("seeing", "noauth2", "secure-rbac", PlacementSettings(), folder=Path("/"))
    served = Starlette(routes=[mount("/roost", routes(Operator(world).seeing, policy))])
    return Authentication(served, noauth2, open_paths=OPEN_PATHS)


async def post(app: ASGIApp, path: str, body: Any, headers: dict[str, str] = ADMIN) -> Answer:
    return await ask(app, path, headers, method="POST", body=msgspec.json.encode(body))


async def test_a_drain_is_begun_shown_listed_and_cancelled(app: ASGIApp) -> None:
    begun = await post(app, DRAINS, {"hosts": ["h1", "h1"], "parallel": 9, "deadline_s": 60})
    assert begun.status == 200
    assert begun.body["plan"] == {"servers": 0, "live": 0, "cold": 0, "evacuated": 0, "staying": []}
    drain = begun.body["drain"]
    assert {key: drain[key] for key in ("kind", "state", "hosts", "parallel", "servers", "gone", "staying")} == {
        "kind": "drain", "state": "running", "hosts": ["h1"], "parallel": 9, "servers": 0, "gone": 0, "staying": [],
    }  # fmt: skip
    path = f"{DRAINS}/{drain['id']}"
    assert (await ask(app, path, ADMIN)).body["drain"] == drain
    for query, ids in (("", [drain["id"]]), ("?host=h1&host=h2", [drain["id"]]), ("?host=h2", [])):
        answer = await ask(app, DRAINS + query, ADMIN)
        assert [shown["id"] for shown in answer.body["drains"]] == ids
    assert (await ask(app, f"{DRAINS}?host=%00", ADMIN)).status == 400
    cancelled = await ask(app, path, ADMIN, method="DELETE")
    assert (cancelled.status, cancelled.body["drain"]["state"]) == (200, "cancelling")


async def test_a_dry_run_begins_nothing(app: ASGIApp) -> None:
    answer = await post(app, DRAINS, {"hosts": ["h1"], "dry_run": True})
    assert (answer.status, answer.body["drain"]) == (200, None)
    assert (await ask(app, DRAINS, ADMIN)).body == {"drains": []}


REFUSED: list[tuple[str, dict[str, Any], int, str]] = [
    (DRAINS, {"hosts": []}, 400, "no host is named"),
    (DRAINS, {"hosts": ["h1"], "parallel": 0}, 400, "expected 1 to 200"),
    (DRAINS, {"hosts": ["h1"], "deadline_s": -1}, 400, "above 0"),
    (DRAINS, {"hosts": ["h1"], "deadline_s": 1e300}, 400, "at most 315360000"),
    (DRAINS, {"hosts": ["h1\0"]}, 400, "Expected `str` matching regex"),
    (RECOVERIES, {"segment": "\0"}, 400, "Expected `str` matching regex"),
    (DRAINS, {"hosts": ["h1"], "readdress": True}, 400, "unknown field `readdress`"),
    (DRAINS, {"hosts": "h1"}, 400, "Expected `array`, got `str`"),
    (DRAINS, {"segment": "rack9"}, 400, "segment rack9: no segment has that name or id"),
    (DRAINS, {"hosts": ["h9"]}, 404, "Compute host h9 could not be found"),
    (RECOVERIES, {"hosts": ["h1"]}, 409, "host h1 is up"),
]


async def test_a_request_is_refused_in_one_sentence(app: ASGIApp) -> None:
    for path, body, status, sentence in REFUSED:
        answer = await post(app, path, body)
        assert (answer.status, answer.body["status"]) == (status, status), body
        assert sentence in answer.body["detail"]
    for number in ("7", "0", "x", "9999999999999999999"):
        for method in ("GET", "DELETE"):
            answer = await ask(app, f"{DRAINS}/{number}", ADMIN, method=method)
            assert (answer.status, answer.body["detail"]) == (404, f"Drain {number} could not be found.")
    answer = await ask(app, f"{DRAINS}?hosts=h1", ADMIN)
    assert (answer.status, answer.body["detail"]) == (400, "query parameter hosts: expected host")


async def test_only_administrators_drain(app: ASGIApp) -> None:
    for roles in ("member", "reader", "service", "manager"):
        caller = {"x-auth-token": "ann:ops", "x-roles": roles}
        answers = [
            await post(app, DRAINS, {"hosts": ["h1"]}, caller),
            await post(app, RECOVERIES, {"hosts": ["h1"]}, caller),
            await ask(app, DRAINS, caller),
            await ask(app, f"{DRAINS}/1", caller),
            await ask(app, f"{DRAINS}/1", caller, method="DELETE"),
        ]
        assert [answer.status for answer in answers] == [403] * 5, roles
