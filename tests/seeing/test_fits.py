"""Whether servers fit together, by the scheduler's own selection on a copy."""

from collections.abc import Mapping
from random import Random

import pytest
from tests.scheduling.test_selection import world

from roost.scheduling.request import NicRequest, Request
from roost.scheduling.settings import SchedulingSettings
from roost.seams.network import NetworkView, Segment
from roost.seams.placement import Candidates
from roost.seeing.rules.fits import Alike, Fit, find_crowd, place_alike

REQUEST = Request(resources=(("VCPU", 1),), nics=())
SETTINGS = SchedulingSettings()
NETWORK = NetworkView(
    id="n",
    name="public",
    routed=True,
    segments=(Segment(provider_uuid="a", name="rack1", placement_aggregate="g", classes=()),),
)


def alike(answer: Candidates | None, *server_ids: str, request: Request = REQUEST) -> Alike:
    return Alike(((request, answer),), server_ids)


def fit(*groups: Alike, closed: frozenset[str] = frozenset()) -> list[Fit]:
    fits: list[Fit] = []
    taken: Mapping[str, Mapping[str, int]] = {}
    random = Random(1)
    for group in groups:
        fitting, taken = place_alike(group, taken, random, SETTINGS, closed=closed)
        fits.append(fitting)
    return fits


def test_servers_that_fit_one_by_one_need_not_fit_together() -> None:
    """Four addresses for two groups of three: each fits alone, one server of both together does not."""
    answer = world({"a": 9}, {"a": 4})
    first, second = fit(alike(answer, "s1", "s2", "s3"), alike(answer, "s4", "s5", "s6"))
    assert (len(first.hosts), first.no_room) == (3, ())
    assert (list(second.hosts), second.no_room) == (["s4"], ("s5", "s6"))
    (alone,) = fit(alike(answer, "s4", "s5", "s6"))
    assert alone.no_room == ()


def test_what_hosts_are_left_out_gives_no_room() -> None:
    answer = world({"a": 2}, {"a": 4}, vcpus=1)
    (some,) = fit(alike(answer, "s1", "s2"), closed=frozenset({"a-0"}))
    assert (some.hosts, some.no_room, some.hosts_open) == ({"s1": "a-1"}, ("s2",), 1)


@pytest.mark.parametrize(
    ("answer", "closed", "said"),
    [
        (world({"a": 2}, {"a": 9}, vcpus=2), frozenset(), None),
        (world({"a": 2}, {"a": 9}, vcpus=1), frozenset(), "the 2 hosts that would do for it have room for 2 of the 3"),
        (world({"a": 1}, {"a": 9}, vcpus=1), frozenset(), "the one host that would do for it have room for 1 of the 3"),
        (world({"a": 2}, {"a": 9}), frozenset({"a-0", "a-1"}), "only hosts that are to be empty would do"),
        (Candidates((), {}), frozenset(), None),
        (None, frozenset(), None),
    ],
)
def test_why_the_last_find_no_room(answer: Candidates | None, closed: frozenset[str], said: str | None) -> None:
    (one,) = fit(alike(answer, "s1", "s2", "s3"), closed=closed)
    crowd = find_crowd(one)
    assert (crowd is None) == (said is None)
    assert (said or "") in (crowd or "")


def test_where_an_address_holds_a_server_is_said() -> None:
    request = Request(resources=(), nics=(NicRequest(tag="0", network=NETWORK, needs_address=False, pinned_to="a"),))
    (one,) = fit(alike(world({"a": 1}, {"a": 9}), "s1", request=request), closed=frozenset({"a-0"}))
    assert (find_crowd(one) or "").endswith("its address holds it to segment rack1 of network public")


def test_the_candidates_of_all_kinds_are_chosen_from_together() -> None:
    answer, other = world({"a": 1}, {"a": 1}), world({"b": 1}, {"b": 1})
    (one,) = fit(Alike(((REQUEST, answer), (REQUEST, None), (REQUEST, other)), ("s1", "s2")))
    assert set(one.hosts.values()) == {"a-0", "b-0"}
    assert Alike(((REQUEST, None),), ()).answer is None
