"""Each request has one line: who, what, how it ended and why; in JSON, or as oslo.log itself would write it."""

import io
import json
import logging
import re
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import structlog
from oslo_config import cfg
from oslo_context import context
from oslo_log import formatters
from oslo_log import log as oslo_log
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from tests.platform.asgi import ask, send_raw

from roost.platform.auth import CALLER_KEY, Caller
from roost.platform.errors import BadRequest, Conflict
from roost.platform.http import Api, Microversions, json_response
from roost.platform.logs import LogFile
from roost.platform.oslo_lines import render_oslo
from roost.platform.request_ids import RequestIds
from roost.platform.request_log import RequestLog, path_without_secrets
from roost.platform.settings import LogSettings

GLOBAL_ID = f"req-{uuid.UUID(int=7)}"
MEMBER = Caller("alice", "red", ("member",), None, None, "default", "default")


async def answer_slots(_request: Request) -> Response:
    return json_response({"slots": [1, 2]})


async def refuse(_request: Request) -> Response:
    raise Conflict("Unable to claim IPV4_ADDRESS: 0 of 5 are free on provider p1")


class Known:
    """Authentication that knows everybody."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[CALLER_KEY] = MEMBER
        await self.app({**scope}, receive, send)  # as a proxy's layer copies it


API = Api(microversions=Microversions("placement", (1, 0), (1, 39)))
ROUTE = API.route("/slots", {"GET": answer_slots, "PUT": refuse})


def listener(**settings: Any) -> Any:
    return RequestIds(RequestLog(Known(ROUTE), LogSettings(**settings)))


async def lines_of(app: Any, target: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> list[Any]:
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        await ask(app, target, headers, method=method)
    return lines


async def test_a_request_has_one_line_with_all_that_is_known_of_it() -> None:
    headers = {"X-Openstack-Request-Id": GLOBAL_ID, "OpenStack-API-Version": "placement 1.36", "X-Auth-Token": "s3cret"}
    (line,) = await lines_of(listener(), "/slots?limit=3", headers)
    assert line.pop("ms") >= 0
    assert re.fullmatch("req-[0-9a-f-]{36}", line.pop("request_id"))
    assert line == {
        "event": "request", "log_level": "info", "global_request_id": GLOBAL_ID, "client": "127.0.0.1",
        "method": "GET", "path": "/slots?limit=3", "status": 200, "bytes": 15, "microversion": "1.36",
        "user": "alice", "project": "red", "user_domain": "default", "project_domain": "default",
    }  # fmt: skip


async def test_a_refusal_says_why() -> None:
    (line,) = await lines_of(listener(), "/slots", method="PUT")
    assert (line["status"], line["log_level"]) == (409, "info")
    assert line["reason"] == "Unable to claim IPV4_ADDRESS: 0 of 5 are free on provider p1"


async def test_a_slow_request_is_a_warning() -> None:
    (line,) = await lines_of(listener(slow_request_s=1e-9), "/slots")
    assert (line["slow"], line["log_level"]) == (True, "warning")


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/slots?token=abc&limit=3", "/slots?token=***&limit=3"),
        (b"/slots?limit=3&X-Auth-Token=a%20b", "/slots?limit=3&X-Auth-Token=***"),
        (b"/slots?adminPassword=x;y=1", "/slots?adminPassword=***;y=1"),
        (b"/slots?required=in:A,B", "/slots?required=in:A,B"),
        (b"/slots?next=/a?token=b=c&x=1", "/slots?next=/a?token=***&x=1"),
        (b"/slots?token&x=token", "/slots?token&x=token"),
        (b"/slots?x=1&token=" + b"a" * 3000, "/slots?x=1&token=***"),
        (b"/slots?" + b"&" * 1992 + b"token=a", "/slots?" + "&" * 1992 + "t..."),
        (b"/slots%0aforged", "/slots%0aforged"),
        ("/slots/ü\r\n".encode(), "/slots/%C3%BC%0D%0A"),
    ],
)
async def test_a_path_is_one_line_and_tells_no_secret(target: bytes, path: str) -> None:
    with structlog.testing.capture_logs() as lines:
        await send_raw(listener(), "GET", target)
    assert [line["path"] for line in lines] == [path]


@pytest.mark.parametrize("piece", [b"?", b"?token", b"token", b"&token", b"=token", b"%3f"])
def test_a_long_query_costs_no_more_than_its_length(piece: bytes) -> None:
    """6 kB of `?token`, from whomever, took a worker 6.5 s: a pattern tried each beginning; these took hours."""
    text = path_without_secrets({"path": "/", "query_string": piece * (60_000 // len(piece))})
    assert text.startswith("/?")
    assert len(text) < 2_010


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_what_watches_is_written_only_when_it_fails(path: str) -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(status_code=503)(scope, receive, send)

    assert await lines_of(RequestLog(Response(), LogSettings()), path) == []
    assert [line["status"] for line in await lines_of(RequestLog(failing, LogSettings()), path)] == [503]


async def test_a_client_that_left_is_written_as_499() -> None:
    async def cut(scope: Scope, receive: Receive, send: Send) -> None:
        raise ConnectionResetError

    with structlog.testing.capture_logs() as lines, pytest.raises(ConnectionResetError):
        await ask(RequestLog(cut, LogSettings()), "/slots")
    assert [line["status"] for line in lines] == [499]


def oslo_line(message: str, request_context: context.RequestContext | None) -> str:
    """The line of oslo.log itself."""
    conf = cfg.ConfigOpts()
    oslo_log.register_options(conf)
    conf([])
    record = logging.LogRecord("roost.api-1", logging.INFO, "", 0, message, (), None)
    record.context = request_context
    formatter = formatters.ContextFormatter(datefmt=conf.log_date_format, config=conf, project="roost")
    return str(formatter.format(record))


def without_time(line: str) -> str:
    """The line with its time, to the millisecond, replaced by its form."""
    stamped = re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} ", "STAMP ", line)
    assert stamped.startswith("STAMP ")
    return stamped


@pytest.mark.parametrize("global_id", [GLOBAL_ID, None])
def test_oslo_lines_are_those_of_oslo_log(global_id: str | None) -> None:
    own = f"req-{uuid.UUID(int=8)}"
    request_context = context.RequestContext(
        user_id="alice", project_id="red", user_domain_id="default", project_domain_id="default", request_id=own,
        global_request_id=global_id, overwrite=False,
    )  # fmt: skip
    event = {
        "event": "request", "level": "info", "process": "api-1", "request_id": own, "client": "127.0.0.1",
        "method": "GET", "path": "/slots", "status": 409, "bytes": 15, "ms": 1.5, "microversion": "1.36",
        "user": "alice", "project": "red", "user_domain": "default", "project_domain": "default",
        "slow": True, "locks_ms": 1.2, "reason": "no\nroom", **({"global_request_id": global_id} if global_id else {}),
    }  # fmt: skip
    message = '127.0.0.1 "GET /slots" status: 409 len: 15 microversion: 1.36 time: 0.001500 '
    message += "slow: True locks_ms: 1.2 reason: no room"
    assert without_time(render_oslo(None, "info", event)) == without_time(oslo_line(message, request_context))


def test_an_oslo_line_has_nothing_that_a_terminal_obeys() -> None:
    sent = "a\x1b[2Jb\x9bc\x00d\u2028e\x85f"
    event = {"event": "request", "client": "::1", "method": "GET", "path": f"/{sent}", "status": 404, "bytes": 0,
             "microversion": None, "ms": 1.0, "request_id": "req-1", "user": sent, "reason": sent}  # fmt: skip
    (line,) = render_oslo(None, "info", event).split("\n")
    assert line.isprintable()
    assert line.count(r"a\x1b[2Jb\x9bc\x00d\x2028e") == 2


def test_oslo_lines_of_no_request_and_of_a_traceback_are_those_of_oslo_log() -> None:
    event = {"event": "process died", "level": "info", "process": "api-1", "child": "x y"}
    assert without_time(render_oslo(None, "info", {**event})) == without_time(oslo_line("process died child=x y", None))
    lines = render_oslo(None, "error", {**event, "exception": "Traceback\n  at z"}).splitlines()
    assert [re.sub("^.* ERROR ", "", line) for line in lines[1:]] == ["roost.api-1 Traceback", "roost.api-1   at z"]


def test_a_log_file_that_was_moved_away_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogFile, "LOOK_S", 0.0)
    log = LogFile(tmp_path / "roost.log")
    log.write("one\n")
    (tmp_path / "roost.log").rename(tmp_path / "roost.log.1")
    log.write("two\n")
    assert (tmp_path / "roost.log.1").read_text() == "one\n"
    assert (tmp_path / "roost.log").read_text() == "two\n"


def test_a_log_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"missing/roost\.log cannot be written: No such file"):
        LogFile(tmp_path / "missing" / "roost.log")


CONFIGURE = """
import structlog
from roost.platform.logs import configure_logging
from roost.platform.settings import LogSettings
configure_logging("api-1", LogSettings(level="{level}", format="{format}", file="{file}"))
log = structlog.get_logger()
log.info("looked", at=[1, {{2}}])
try:
    1 / 0
except ZeroDivisionError:
    log.exception("failed")
"""


@pytest.mark.parametrize(("level", "events"), [("info", ["looked", "failed"]), ("error", ["failed"])])
def test_lines_are_json_unless_they_are_read_on_a_terminal(tmp_path: Path, level: str, events: list[str]) -> None:
    for file in ("", str(tmp_path / f"{level}.log")):
        code = CONFIGURE.format(level=level, format="auto", file=file)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == ""
        text = Path(file).read_text() if file else done.stderr
        lines = [json.loads(line) for line in io.StringIO(text)]
        assert [line["event"] for line in lines] == events
        assert all(line["process"] == "api-1" and line["timestamp"] for line in lines)
        assert "ZeroDivisionError" in lines[-1]["exception"]
