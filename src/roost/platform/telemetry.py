"""What a process tells its operators: logs on standard error, metrics at `/metrics`.

Logs never go to standard output, which belongs to the program that started Roost.
"""

import logging
import sys
from typing import Any

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client import REGISTRY as REGISTRY
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def configure_logging(process: str) -> None:
    """Log events to standard error, one a line: coloured for a terminal, JSON otherwise; `process` is in each."""
    terminal = sys.stderr.isatty()
    renderer: Any = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    traceback = [] if terminal else [structlog.processors.format_exc_info]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *traceback,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)


def metrics_route(registry: CollectorRegistry = REGISTRY) -> Route:
    """`GET /metrics` of this process. Source: Prometheus, text exposition format."""

    async def answer(_request: Request) -> Response:
        return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return Route("/metrics", answer)
