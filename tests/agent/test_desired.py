from typing import Any

import pytest
from msgspec.structs import replace

from roost.agent.desired import Actions, decide_actions
from roost.seams.agent import GuestOrder, ListedGuest
from roost.seams.guests import MemorySource


def order(attempt: int = 2, desired: Any = "running") -> GuestOrder:
    return GuestOrder(server_id="s", host="h", attempt=attempt, desired=desired)


def decide(*orders: GuestOrder, attempt: int, state: Any = "running") -> Actions:
    """With one guest that is there, made by that attempt and in that state."""
    key = ("s", "h")
    guest = ListedGuest(server_id="s", host="h", attempt=attempt, state=state)
    return decide_actions(orders, guests_by_key={key: guest}, busy=set())


def test_a_guest_that_is_not_there_is_launched() -> None:
    assert decide_actions([order()], guests_by_key={}, busy=set()) == Actions(launch=[order()])


def test_a_guest_that_runs_is_only_confirmed() -> None:
    assert decide(order(), attempt=2) == Actions(confirm=[order()])


@pytest.mark.parametrize("desired", ["stopped", "paused", "suspended"])
def test_a_guest_in_another_state_is_changed_and_one_that_is_not_there_is_made_so(desired: str) -> None:
    wanted = order(desired=desired)
    assert decide(wanted, attempt=2) == Actions(change=[wanted])
    assert decide(wanted, attempt=2, state=desired) == Actions(confirm=[wanted])
    assert decide(wanted, attempt=1, state=desired) == Actions(launch=[wanted])


@pytest.mark.parametrize("state", ["running", "paused"])
def test_a_guest_is_changed_to_send_its_memory_and_one_that_is_stopped_its_disk(state: str) -> None:
    meeting = MemorySource(address="192.0.2.7:49152", token="once")
    sending, stopping = (
        replace(order(desired=state), meeting=meeting),
        replace(order(desired="stopped"), meeting=meeting),
    )
    assert decide(sending, attempt=2, state=state) == Actions(change=[sending])
    assert decide(stopping, attempt=2, state=state) == Actions(change=[stopping])
    assert decide(stopping, attempt=2, state="stopped") == Actions(change=[stopping])
    assert decide_actions([sending], guests_by_key={}, busy={sending.id}).none


def test_a_guest_of_a_lower_attempt_is_launched_anew() -> None:
    assert decide(order(), attempt=1) == Actions(launch=[order()])


def test_an_order_that_is_being_worked_on_needs_nothing() -> None:
    busy = {order(attempt=2).id}
    assert decide_actions([order()], guests_by_key={}, busy=busy).none


def test_an_order_that_a_later_attempt_overtook_needs_nothing() -> None:
    busy = {order(attempt=3).id}
    assert decide_actions([order(), order(desired="absent")], guests_by_key={}, busy=busy).none


def test_a_guest_that_is_to_go_is_destroyed_even_if_it_is_unknown() -> None:
    gone = order(desired="absent")
    assert decide_actions([gone], guests_by_key={}, busy=set()) == Actions(destroy=[gone])


def test_memory_that_is_being_copied_is_taken_over_at_once_when_that_is_asked_for() -> None:
    copying = order(desired="incoming")
    hurried = replace(copying, hurry=True)
    nothing_there: Any = {"guests_by_key": {}}
    assert decide_actions([hurried], **nothing_there, busy={copying.id}) == Actions(hurry=[hurried])
    assert decide_actions([hurried], **nothing_there, busy={copying.id, hurried.id}).none
    assert decide_actions([hurried], **nothing_there, busy=set()) == Actions(launch=[hurried])


def test_a_launch_at_work_is_interrupted_when_the_guest_is_to_go_or_a_later_attempt_comes() -> None:
    busy = {order(attempt=2).id}
    gone, later = order(desired="absent"), order(attempt=3)
    assert decide_actions([gone], guests_by_key={}, busy=busy) == Actions(destroy=[gone], interrupt=[("s", "h")])
    assert decide_actions([later], guests_by_key={}, busy=busy) == Actions(launch=[later], interrupt=[("s", "h")])
