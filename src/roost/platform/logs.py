"""What a process tells its operators as it happens: one line for each event, on standard error or in a file.

Never on standard output, which belongs to the program that started Roost. A line is JSON, or as oslo.log writes it by
default (oslo_lines.py), or coloured for a terminal.
"""

import contextlib
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO, cast, get_args

import msgspec
import structlog

from roost.platform.errors import BadRequest, reason_of
from roost.platform.oslo_lines import render_oslo
from roost.platform.settings import LogLevel, LogSettings

DEFAULTS = LogSettings()
LEVELS = {level: getattr(logging, level.upper()) for level in get_args(LogLevel)}


def configure_logging(process: str, settings: LogSettings = DEFAULTS) -> None:
    """Log events as the settings say; `process` is in each. Raises BadRequest for a file that cannot be written."""
    target = cast(TextIO, LogFile(Path(settings.file))) if settings.file else sys.stderr
    format_chosen = settings.format
    if format_chosen == "auto":
        format_chosen = "console" if not settings.file and sys.stderr.isatty() else "json"
    set_level(settings.level)
    structlog.configure(
        processors=[
            _drop_below_level,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            *_renderers(format_chosen, process),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.WriteLoggerFactory(target),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)
    # Its pool warns, with a traceback, of every connection that it cannot restore; the requests say so themselves.
    logging.getLogger("asyncpg").setLevel(logging.ERROR)


def set_level(level: str) -> None:
    """Log events of this level and above, from now on."""
    _threshold[0] = LEVELS[level]


_threshold = [logging.INFO]


def _drop_below_level(_logger: Any, method: str, event: Any) -> Any:
    """Drop what nobody wants to see. Loggers are made once, with all levels, so that the level can change."""
    if LEVELS.get(method, logging.ERROR) < _threshold[0]:
        raise structlog.DropEvent
    return event


def _renderers(format_chosen: str, process: str) -> list[Any]:
    if format_chosen == "oslo":
        return [structlog.processors.format_exc_info, render_oslo]
    stamped = structlog.processors.TimeStamper(fmt="iso", utc=True)
    if format_chosen == "console":
        return [stamped, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    return [stamped, structlog.processors.format_exc_info, structlog.processors.JSONRenderer(_encode)]


def _encode(event: Any, **_options: Any) -> str:
    return msgspec.json.encode(event, enc_hook=repr).decode(errors="replace")


class LogFile:
    """A file to which several processes append whole lines, opened again after it was moved away (logrotate)."""

    LOOK_S = 1.0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._look_at_s = 0.0
        try:
            self._open()
        except OSError as error:
            raise BadRequest(f"the log file {path} cannot be written: {reason_of(error)}") from error

    def write(self, text: str) -> None:
        """Append a line, in one piece; one that finds no room is lost."""
        with contextlib.suppress(OSError):
            if time.monotonic() >= self._look_at_s and not self._is_current():
                os.close(self._descriptor)
                self._open()
            os.write(self._descriptor, text.encode(errors="replace"))

    def flush(self) -> None:
        """Return at once: lines are written as they come."""

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o640)

    def _is_current(self) -> bool:
        self._look_at_s = time.monotonic() + self.LOOK_S
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False


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
