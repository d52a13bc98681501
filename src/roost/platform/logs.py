"""What a process tells its operators as it happens: one line for each event, on standard error.

Never on standard output, which belongs to the program that started Roost.
"""

import logging
import sys
from typing import Any

import structlog


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
