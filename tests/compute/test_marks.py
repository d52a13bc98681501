"""Marks prove that records went back, and nobody but who has the database's key can make one."""

from datetime import UTC, datetime

import pytest

from roost.compute.model.recovery import Recovery
from roost.compute.rules.marks import find_later, read_mark, write_mark
from roost.compute.rules.recoveries import is_over, recovery_sentence

AGENT, OTHER = "a", "b"
KEY, OTHER_KEY = b"k" * 32, b"o" * 32
DOWN_AFTER_S = 30.0


def test_a_mark_is_read_by_its_agent_and_with_its_key_alone() -> None:
    mark = write_mark(7, agent_id=AGENT, key=KEY)
    assert read_mark(mark, agent_id=AGENT, key=KEY) == 7
    assert read_mark(mark, agent_id=OTHER, key=KEY) is None
    assert read_mark(mark, agent_id=AGENT, key=OTHER_KEY) is None


@pytest.mark.parametrize("text", ["", ".", "7", "7.", "8.{code}", "-7.{code}", "٧.{code}", "7.{code}x", "x.{code}"])
def test_what_is_no_mark_proves_nothing(text: str) -> None:
    code = write_mark(7, agent_id=AGENT, key=KEY).partition(".")[2]
    assert read_mark(text.format(code=code), agent_id=AGENT, key=KEY) is None


@pytest.mark.parametrize(("told", "known", "later"), [(7, 6, 7), (7, 7, None), (7, 8, None), (1, 0, 1)])
def test_only_a_later_mark_proves_that_the_records_went_back(told: int, known: int, later: int | None) -> None:
    mark = write_mark(told, agent_id=AGENT, key=KEY)
    assert find_later(mark, agent_id=AGENT, key=KEY, mark_known=known) == later


def recovery(*, missing: int = 0, silent: int = 0, age_s: float = 1.0) -> Recovery:
    hosts = tuple(f"h{number}" for number in range(min(missing, 10)))
    return Recovery(
        id=1, noticed_at=datetime(2026, 11, 26, tzinfo=UTC), agent_label="rack1", mark_told=7, mark_known=5,
        age_s=age_s, missing=missing, hosts_missing=hosts, hosts_silent=silent,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("missing", "silent", "age_s", "over"),
    [
        (0, 0, 1.0, True),
        (1, 0, 1.0, False),
        (1, 0, 1000.0, False),
        (0, 1, 29.9, False),
        (0, 1, 30.0, True),
        (1, 1, 1000.0, False),
    ],
)
def test_a_recovery_is_over_once_all_that_could_be_heard_have_listed(
    missing: int, silent: int, age_s: float, over: bool
) -> None:
    assert is_over(recovery(missing=missing, silent=silent, age_s=age_s), host_down_after_s=DOWN_AFTER_S) is over


def test_the_sentence_names_who_is_waited_for_and_what_to_do() -> None:
    text = recovery_sentence(recovery(missing=12))
    assert "waiting for h0, h1" in text
    assert "and 2 more" in text
    assert "roost-manage recovery end" in text
    assert "1 hosts were not heard of yet" in recovery_sentence(recovery(silent=1))
