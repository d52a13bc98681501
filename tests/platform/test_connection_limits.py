"""Which connections are closed where there are too many, and how many the limit of open files allows."""

import subprocess
import sys

import pytest

from roost.platform.connection_limits import Connection, choose_surplus, reserve

LOW_LIMIT = """
import resource
from roost.platform.connection_limits import raise_descriptor_limit
from roost.platform.settings import ListenerSettings
resource.setrlimit(resource.RLIMIT_NOFILE, (100, {hard}))
print(raise_descriptor_limit(ListenerSettings(connections_max=1000)), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def connections(text: str) -> list[Connection]:
    """`a5 b7`: one of the address a, idle for 5 ms, and one of b, idle for 7."""
    return [Connection((word[0], int(word[1:])), int(word[1:]), number) for number, word in enumerate(text.split())]


@pytest.mark.parametrize(
    ("held", "answering", "per_address", "closed"),
    [
        ("", "", 0, ""),
        ("a1 a2", "", 0, ""),
        ("a1 a2", "", 2, ""),
        ("a1 a9 a5", "", 2, "a9"),
        ("a1 a9 a5 b3", "", 1, "a9 a5"),
        ("a1 a9 a5", "a9", 2, "a5"),
        ("a1 a9 a5", "a1 a9 a5", 2, "a9"),
    ],
)
def test_the_surplus_of_an_address_is_closed_idle_ones_first(
    held: str, answering: str, per_address: int, closed: str
) -> None:
    owed = {one.peer for one in connections(answering)}
    surplus = choose_surplus(connections(held), owed, most=1000, most_per_address=per_address)
    assert [one.peer for one in surplus] == [one.peer for one in connections(closed)]


def test_above_the_limit_the_longest_idle_are_closed_until_a_reserve_is_free_and_none_that_is_owed_an_answer() -> None:
    held = [Connection(("a", number), number, number) for number in range(201)]
    assert choose_surplus(held, (), most=201, most_per_address=0) == []
    surplus = choose_surplus(held, {("a", 200), ("a", 199)}, most=200, most_per_address=0)
    assert [one.idle_ms for one in surplus] == list(range(198, 198 - 1 - reserve(200), -1))
    owed = {one.peer for one in held}
    assert choose_surplus(held, owed, most=100, most_per_address=0) == []


@pytest.mark.parametrize(("hard", "allowed"), [(5000, "1000 1356"), (800, "436 800")])
def test_as_many_files_may_be_open_as_the_connections_need(hard: int, allowed: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOW_LIMIT.format(hard=hard)], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == allowed, done.stderr
    assert ("the limit of open files allows fewer connections" in done.stdout + done.stderr) == (hard == 800)
