"""The operator's side as callers meet it: what needs no token, and how it refuses."""

from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from tests.platform.asgi import ask

from roost.cli.serving.access import OPEN_PATHS, api_policy
from roost.placement.settings import PlacementSettings
from roost.platform.authentication import Authentication, noauth2
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
