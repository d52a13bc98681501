"""GET /builds, Roost's own: servers whose work is not done, each with its stage and what it waits for."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from roost.compute.api.requests import page_limit, timestamp
from roost.compute.rules.builds import Build, find_wait
from roost.compute.service import Compute
from roost.compute.service import builds as service
from roost.platform.http import Endpoint, json_response


def endpoints(compute: Compute) -> dict[str, Mapping[str, Endpoint]]:
    """Path -> method -> endpoint."""

    async def list_builds(request: Request) -> Response:
        builds, total = await service.list_builds(compute, limit=page_limit(request))
        return json_response({"builds": [_show(build) for build in builds], "total": total})

    return {"/builds": {"GET": list_builds}}


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
