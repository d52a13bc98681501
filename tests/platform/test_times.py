"""Times are written in UTC, as clients of the APIs read them, and read so."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest

from roost.platform.errors import BadRequest
from roost.platform.times import read_time, show_microseconds, show_seconds


@pytest.mark.parametrize(
    ("moment", "seconds", "microseconds"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, 678, UTC), "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000678"),
        (datetime(2026, 1, 2, 3, 4, 5, 0, UTC), "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000"),
        (
            datetime(2026, 1, 1, 1, 0, 0, 999999, timezone(timedelta(hours=2))),
            "2025-12-31T23:00:00Z",
            "2025-12-31T23:00:00.999999",
        ),
    ],
    ids=["UTC", "no fraction", "another zone"],
)
def test_a_time_is_written_in_utc(moment: datetime, seconds: str, microseconds: str) -> None:
    assert show_seconds(moment) == seconds
    assert show_microseconds(moment) == microseconds


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        (None, None),
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05+02:00", datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05 02:00", datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)),
    ],
    ids=["none", "UTC", "no zone", "another zone", "a plus that was decoded"],
)
def test_a_time_is_read_in_utc(text: str | None, moment: datetime | None) -> None:
    assert read_time(text, "since") == moment


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-02", "0001-01-01T00:00:00+23:00"])
def test_what_is_no_time_in_utc_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(f"since={text}: expected a time such as")):
        read_time(text, "since")
