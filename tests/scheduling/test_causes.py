"""The one word for what left no host, and of which network and segment it is. Tables."""

import pytest

from roost.compute.model.work import Cause
from roost.scheduling.causes import find_cause
from roost.scheduling.request import Kind, Narrowing, NicRequest, Request
from roost.seams.network import NetworkView, Segment
from roost.seams.placement import IPV4_ADDRESS, Requirement


def segment(name: str) -> Segment:
    return Segment(provider_uuid=f"p-{name}", name=name, placement_aggregate=f"a-{name}", classes=(IPV4_ADDRESS,))


ROUTED = NetworkView(id="n1", name="public", routed=True, segments=(segment("rack1"), segment("rack2")))
ONE_RACK = NetworkView(id="n2", name="small", routed=True, segments=(segment("rack1"),))
OWN = NetworkView(id="n3", name="private", routed=False, segments=(segment("private"),))
SHARED = NetworkView(id="n4", name="lan", routed=False, shared=True, segments=(segment("lan"),))


def nic(network: NetworkView, pinned_to: str | None = None) -> NicRequest:
    return NicRequest(tag="1", network=network, needs_address=True, pinned_to=pinned_to)


def request(*nics: NicRequest, impossible: str | None = None) -> Request:
    return Request(resources=(), nics=nics, impossible=impossible)


PLAIN = Narrowing(words="")


@pytest.mark.parametrize(
    ("narrowing", "requirement", "name", "word"),
    [
        (PLAIN, Requirement.FREE, "VCPU", "cpu"),
        (PLAIN, Requirement.FREE, "MEMORY_MB", "memory"),
        (PLAIN, Requirement.INVENTORY, "DISK_GB", "disk"),
        (PLAIN, Requirement.FREE, "CUSTOM_GPU", "resources"),
        (PLAIN, Requirement.INVENTORY, "", "together"),
        (PLAIN, Requirement.TOGETHER, "", "together"),
        (PLAIN, Requirement.HOSTS, "", "hosts"),
        (PLAIN, Requirement.MEMBER_OF, "", "aggregate"),
        (PLAIN, Requirement.TRAIT, "HW_CPU_X86_AVX", "trait"),
        (PLAIN, Requirement.IN_TREE, "some", "host"),
        (PLAIN, None, "", "untried"),
        (Narrowing(words="", kind=Kind.BE_OPEN), Requirement.NO_ROOT_TRAIT, "", "open"),
        (Narrowing(words="", kind=Kind.REACH_NETWORK), Requirement.MEMBER_OF, "", "network"),
    ],
)
def test_every_requirement_has_one_word(
    narrowing: Narrowing, requirement: Requirement | None, name: str, word: str
) -> None:
    assert find_cause(request(), narrowing, requirement, name) == Cause(requirement=word)


@pytest.mark.parametrize(
    ("asked", "network", "segment_name", "is_common"),
    [
        (nic(ROUTED), ROUTED, "", True),
        (nic(ROUTED, "p-rack2"), ROUTED, "rack2", True),
        (nic(ONE_RACK), ONE_RACK, "rack1", True),
        (nic(OWN), OWN, "", False),
        (nic(SHARED), SHARED, "", True),
    ],
)
def test_an_address_is_of_a_network_and_of_its_segment_where_only_one_will_do(
    asked: NicRequest, network: NetworkView, segment_name: str, is_common: bool
) -> None:
    narrowing = Narrowing(words="", kind=Kind.HAVE, nic=asked)
    cause = find_cause(request(asked), narrowing, Requirement.FREE, IPV4_ADDRESS)
    assert cause == Cause(
        requirement="addresses",
        network_id=network.id,
        network=network.name,
        segment_id=f"p-{segment_name}" if segment_name else None,
        segment=segment_name,
        is_common=is_common,
    )


def test_what_no_host_could_ever_do_is_impossible() -> None:
    assert find_cause(request(impossible="no subnet"), None, None, "") == Cause(requirement="impossible")


def test_several_addresses_of_one_network_are_together_there() -> None:
    cause = find_cause(request(nic(OWN), nic(OWN)), PLAIN, Requirement.TOGETHER, "")
    assert (cause.requirement, cause.network) == ("together", "private")
    assert find_cause(request(nic(OWN), nic(SHARED)), PLAIN, Requirement.TOGETHER, "").network_id is None
