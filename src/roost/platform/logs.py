"""What a process tells its operators as it happens: one line for each event, on standard error.

Never on standard output, which belongs to the program that started Roost.
"""

import logging
import sys
import time
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
    # Its pool warns, with a traceback, of every connection that it cannot restore; the requests say so themselves.
    logging.getLogger("asyncpg").setLevel(logging.ERROR)


class EachMinute:
    """Limits log lines of events that come with every request: one of each kind a minute."""

    INTERVAL_S = 60.0
    KINDS_MAX = 100

    def __init__(self) -> None:
        self._due_at_s: dict[str, float] = {}

    def is_due(self, kind: str) -> bool:
        """Return whether none of this kind was due within the last minute."""
        now_s = time.monotonic()
        if now_s < self._due_at_s.get(kind, now_s):
            return False
        if len(self._due_at_s) >= self.KINDS_MAX:
            self._due_at_s.clear()
        self._due_at_s[kind] = now_s + self.INTERVAL_S
        return True
