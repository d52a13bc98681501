"""GET /builds, Roost's own: servers whose work is not done, each with its stage and what it waits for."""

from typing import Any

from starlette.requests import Request

from roost.compute.api.answers import Builds
from roost.compute.api.pages import page_limit
from roost.compute.api.policies import SERVICE
from roost.compute.api.requests import LIMIT, query, timestamp
from roost.compute.model.work import Build
from roost.compute.rules.builds import find_wait
from roost.compute.service import Compute
from roost.compute.service import builds as service
from roost.platform.operations import Operation, Operations, Rule


def build_operations(compute: Compute) -> Operations:
    """Return the operation of builds."""

    async def list_builds(request: Request) -> dict[str, Any]:
        builds, total = await service.list_builds(compute, limit=page_limit(request))
        return {"builds": [_show(build) for build in builds], "total": total}

    return {
        "/builds": {
            "GET": Operation(
                summary="servers whose work is not done, the oldest first",
                endpoint=list_builds,
                rule=Rule("roost:builds:list", SERVICE),
                query=query({"limit": LIMIT}),
                result=Builds,
            )
        }
    }


def _show(build: Build) -> dict[str, Any]:
    return {
        "server_id": build.server_id,
        "name": build.name,
        "project_id": build.project_id,
        "stage": build.stage.value,
        "attempt": build.attempt,
        "failures": build.failures,
        "host": build.host,
        "since": timestamp(build.since),
        "waits_for": find_wait(build),
    }
