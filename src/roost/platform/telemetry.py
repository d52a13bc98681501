"""What a process tells its operators when asked: metrics at `/metrics`."""

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client import REGISTRY as REGISTRY
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roost.platform.http import Api


def metrics_route(registry: CollectorRegistry = REGISTRY) -> Route:
    """`GET /metrics` of this process. Source: Prometheus, text exposition format."""

    async def answer(_request: Request) -> Response:
        return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return Api().route("/metrics", {"GET": answer})
