"""The operator's side as callers meet it: what needs no token, and how it refuses."""

from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from tests.platform.asgi import ask

from roost.cli.serving.access import OPEN_PATHS, api_policy
from roost.cli.serving.roles import ProcessConfig
from roost.cli.serving.wiring import Parts, main_app
from roost.cli.settings import read_settings
from roost.placement.service.ledger import Ledger
from roost.placement.settings import PlacementSettings
from roost.platform.authentication import Authentication, noauth2
from roost.platform.database import Database
from roost.platform.health import Health
from roost.platform.mounts import mount
from roost.seeing.api import routes

NOTHING: Any = None
MEMBER = {"x-auth-token": "ann:mine", "x-roles": "member"}


def operators_side() -> Authentication:
    policy = api_policy("seeing", "noauth2", "secure-rbac", PlacementSettings(), folder=Path("/"))
    app = Starlette(routes=[mount("/roost", routes(NOTHING, policy))])
    return Authentication(app, noauth2, open_paths=OPEN_PATHS)


async def test_versions_and_the_document_need_no_token() -> None:
    for path in ("/roost", "/roost/", "/roost/openapi.json"):
        answer = await ask(operators_side(), path)
        assert answer.status == 200, answer
    assert answer.body["info"]["title"] == "Roost for operators"
    answer = await ask(operators_side(), "/roost/")
    assert answer.body["versions"][0]["id"] == "v1"


async def test_what_is_not_there_is_a_problem() -> None:
    answer = await ask(operators_side(), "/roost/v1/nothing", MEMBER)
    assert (answer.status, answer.body["title"]) == (404, "Not Found")


async def test_a_placement_service_alone_tells_of_its_own_events(database: Database) -> None:
    parts = Parts(
        database=database, health=Health(database), wakeups=NOTHING, telemetry=NOTHING, settings=read_settings(None),
        ledger=Ledger(database), policy=NOTHING, keystone=None, cloud=None,
    )  # fmt: skip
    config = ProcessConfig(
        role="api", number=1, services=("placement",), dsn="", pool_size=1, host="", port=0, agent_host="", agent_port=0
    )
    app = main_app(config, parts)
    assert (await ask(app, "/roost/v1/events")).body == {"events": [], "next": None}
    document = (await ask(app, "/roost/openapi.json")).body
    assert list(document["paths"]) == ["/", "/v1/events", "/openapi.json"]
