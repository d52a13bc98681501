"""`roost events` without a Roost: the times that it takes, and its lines."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from roost.cli.asking.commands import KINDS
from roost.cli.asking.event_output import event_text, no_event_text
from roost.cli.asking.events import EventLine, EventQuery, read_since
from roost.platform.errors import BadRequest
from roost.platform.events import SENTENCES

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LINE = EventLine(id="compute-1", at=NOW, kind="refusal", action="boot", server="web", reason="no room")
HEAD = "2026-03-01 12:00:00 "


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("30s", NOW - timedelta(seconds=30)),
        ("10m", NOW - timedelta(minutes=10)),
        ("2h", NOW - timedelta(hours=2)),
        ("7d", NOW - timedelta(days=7)),
        ("2026-02-01", datetime(2026, 2, 1, tzinfo=UTC)),
        ("2026-02-01T10:00", datetime(2026, 2, 1, 10, tzinfo=UTC)),
        ("2026-02-01T10:00+02:00", datetime(2026, 2, 1, 8, tzinfo=UTC)),
    ],
)
def test_since_is_so_long_ago_or_a_time(text: str, moment: datetime) -> None:
    assert read_since(text, NOW) == moment


@pytest.mark.parametrize("text", ["", "soon", "10", "10w", "m", "9999999999d", "999999999d"])
def test_what_is_no_time_is_said(text: str) -> None:
    with pytest.raises(BadRequest, match="--since"):
        read_since(text, NOW)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (LINE, HEAD + "refusal  web                      boot: no room"),
        (replace(LINE, count=3), HEAD + "refusal  web (+2)                 boot: no room"),
        (
            replace(LINE, server="", server_id="s1"),
            HEAD + "refusal  s1                       boot: no room",
        ),
        (
            replace(LINE, request_id="req-1"),
            HEAD + "refusal  web                      boot: no room [req-1]",
        ),
        (
            replace(LINE, kind="move", action="resize", source_host="h1", host="h2", reason="finished"),
            HEAD + "move     web                      resize: h1 -> h2; finished",
        ),
        (
            replace(LINE, kind="host", action="silent", server="", host="h1", reason="why"),
            HEAD + "host     h1                       silent: why",
        ),
        (replace(LINE, reason="a\x1b[2J"), HEAD + "refusal  web                      boot: a?[2J"),
    ],
)
def test_an_event_is_a_line(event: EventLine, text: str) -> None:
    assert event_text(event) == text


def test_the_help_names_the_kinds_that_there_are() -> None:
    assert set(KINDS) == set(SENTENCES)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (EventQuery(limit=100), "There is no event."),
        (EventQuery(kind="loss", limit=100), "There is no such event."),
        (EventQuery(server="8ac24bcc-7d72-41c2-8421-8a49032503b8"), "There is no such event."),
        (
            EventQuery(server="web-1", limit=100),
            "There is no such event: --server takes an id, which `roost servers` shows.",
        ),
    ],
)
def test_no_event_is_said(query: EventQuery, said: str) -> None:
    assert no_event_text(query) == said
