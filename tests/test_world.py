"""The oracle itself: what agents' journals show to be wrong, and what they do not."""

import time
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.world import GuestUp, cut_power, list_up, list_world_problems

from roost.agent.drivers.fake import GuestLine, NicsEnd

ONE, TWO = GuestUp("s1", "h1", ("10.1.0.2",)), GuestUp("s2", "h2", ("10.1.0.3",))
HELD = {"s1": {"10.1.0.2"}, "s2": {"10.1.0.3"}}


@pytest.mark.parametrize(
    ("guests", "addresses", "problems"),
    [
        ([ONE, TWO], HELD, []),
        ([ONE], HELD, []),  # the other runs nowhere
        ([ONE, ONE._replace(host="h2")], HELD, ["server s1 runs on h1 and h2",
         "address 10.1.0.2 is on two running guests: s1 and s1"]),
        ([ONE, TWO._replace(addresses=("10.1.0.2",))], HELD, [
         "running guest s2 on h2 has 10.1.0.2, which is not its own",
         "running guest s2 on h2 lacks its address 10.1.0.3",
         "address 10.1.0.2 is on two running guests: s1 and s2"]),
        ([ONE], {}, ["running guest s1 on h1 has 10.1.0.2, which is not its own"]),
        ([ONE._replace(addresses=())], HELD, ["running guest s1 on h1 lacks its address 10.1.0.2"]),
        ([ONE._replace(addresses=("10.1.0.9",), as_told=False)], HELD, []),
        ([ONE, TWO._replace(addresses=("10.1.0.2", "10.1.0.3"), as_told=False)], HELD, [
         "address 10.1.0.2 is on two running guests: s1 and s2"]),
    ],
    ids=["right", "stopped", "twice", "one address", "free address", "no address", "plugged", "unplugged"],
)  # fmt: skip
def test_what_guests_show_to_be_wrong(
    guests: list[GuestUp], addresses: dict[str, set[str]], problems: list[str]
) -> None:
    assert list_world_problems(guests, addresses) == problems


@pytest.mark.parametrize(
    ("states", "ends_in_s", "is_up"),
    [
        (("running",), None, True), (("running", "stopped"), None, False), (("stopped", "paused"), None, True),
        (("incoming",), None, False), (("running", ""), None, False), (("running",), 60, True),
        (("running",), -60, False),
    ],
)  # fmt: skip
def test_nics_are_up_as_the_journal_says_until_the_promise_runs_out(
    tmp_path: Path, states: tuple[str, ...], ends_in_s: int | None, is_up: bool
) -> None:
    state = tmp_path / "agent-1"
    state.mkdir()
    lines = [GuestLine(server_id="s1", host="h1", attempt=1, state=state or "running", gone=not state, addresses=("a",))
             for state in states]  # fmt: skip
    (state / "guests.journal").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    if ends_in_s is not None:
        end = NicsEnd(at_ns=time.time_ns() + ends_in_s * 10**9)
        (state / "nics-end").write_bytes(msgspec.json.encode(end))
    assert list_up(tmp_path) == ([GuestUp("s1", "h1", ("a",))] if is_up else [])


def test_a_guest_is_dark_from_a_power_cut_on_until_it_is_begun_anew(tmp_path: Path) -> None:
    state = tmp_path / "agent-1"
    state.mkdir()
    line = GuestLine(server_id="s1", host="h1", attempt=1, addresses=("a",), at_ns=time.time_ns())
    (state / "guests.journal").write_bytes(msgspec.json.encode(line) + b"\n")
    assert list_up(tmp_path) == [GuestUp("s1", "h1", ("a",))]
    cut_power(tmp_path, "h1")
    assert list_up(tmp_path) == []
    later = replace(line, at_ns=time.time_ns())
    with (state / "guests.journal").open("ab") as journal:
        journal.write(msgspec.json.encode(later) + b"\n")
    assert list_up(tmp_path) == [GuestUp("s1", "h1", ("a",))]
