"""Log lines as oslo.log writes them by default, for operators whose collectors know those of Nova and Neutron.

Source: oslo.log 8, logging_context_format_string, logging_default_format_string, logging_user_identity_format; for
requests Placement's requestlog.py, and its `time:` from Nova's.
"""

import os
import re
import time
from typing import Any

REQUEST_EVENT = "request"
"""The event of a line that request_log.py writes."""
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""What a terminal may obey, or a collector take for the end of a line: a caller may have sent it."""
CONTEXT = ("request_id", "global_request_id", "user", "project", "domain", "system_scope", "user_domain",
           "project_domain")  # fmt: skip


def render_oslo(_logger: object, _method: str, event: dict[str, Any]) -> str:
    """Return the event as one line, and as many more as its traceback has, each with the same beginning."""
    now_s = time.time()
    process = event.pop("process", "")
    level = str(event.pop("level", "info")).upper()
    context = {name: event.pop(name, None) for name in CONTEXT}
    traceback = str(event.pop("exception", ""))
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now_s))
    begin = f"{stamp}.{int(now_s * 1000) % 1000:03d} {os.getpid()}"
    message = _request_text(event) if event.get("event") == REQUEST_EVENT else _text(event)
    lines = [f"{begin} {level} roost.{process} [{_identity(context)}] {message}"]
    lines += [f"{begin} ERROR roost.{process} {line}" for line in traceback.splitlines()]
    return "\n".join(CONTROL.sub(_escape, line) for line in lines)


def _escape(control: re.Match[str]) -> str:
    return f"\\x{ord(control[0]):02x}"


def _identity(context: dict[str, Any]) -> str:
    """Return who asked, as oslo.context has it: `-` for each part that is not known, and for a line of no request."""
    if context["request_id"] is None:
        return "-"
    own, caller, *identity = (context[name] or "-" for name in CONTEXT)
    return " ".join([caller if caller != "-" else "None", own, *identity])


def _request_text(event: dict[str, Any]) -> str:
    text = (
        f'{event["client"]} "{event["method"]} {event["path"]}" status: {event["status"]} len: {event["bytes"]} '
        f"microversion: {event['microversion'] or '-'} time: {event['ms'] / 1000:.6f}"
    )
    rest = {name: value for name, value in event.items() if name in ("slow", "reason") or name.endswith("_ms")}
    return text + "".join(f" {name}: {_one_line(value)}" for name, value in rest.items())


def _text(event: dict[str, Any]) -> str:
    pairs = (f" {name}={_one_line(value)}" for name, value in event.items() if name != "event")
    return _one_line(event.get("event", "")) + "".join(pairs)


def _one_line(value: object) -> str:
    return " ".join(str(value).split())
