"""Times are written in UTC, as clients of the APIs read them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from roost.platform.times import show_microseconds, show_seconds


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
