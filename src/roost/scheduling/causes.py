"""Says in one word which requirement left no host, and of which network and segment it is: for figures and events."""

from collections.abc import Mapping

from roost.compute.model.work import Cause
from roost.scheduling.request import Kind, Narrowing, NicRequest, Request
from roost.seams.placement import DISK_GB, MEMORY_MB, VCPU, Requirement

IMPOSSIBLE = "impossible"
"""No host could ever do, as the request is found to be without asking the ledger."""
UNTRIED = "untried"
"""Only hosts are left on which the server has failed, or which it is to leave."""

BY_KIND: Mapping[Kind, str] = {
    Kind.BE_OPEN: "open",
    Kind.REACH_NETWORK: "network",
    Kind.REACH_SUBNET: "network",
}
BY_CLASS = {VCPU: "cpu", MEMORY_MB: "memory", DISK_GB: "disk"}
BY_REQUIREMENT: Mapping[Requirement, str] = {
    Requirement.HOSTS: "hosts",
    Requirement.IN_TREE: "host",
    Requirement.MEMBER_OF: "aggregate",
    Requirement.NOT_MEMBER_OF: "aggregate",
    Requirement.TRAIT: "trait",
    Requirement.NO_TRAIT: "trait",
    Requirement.ROOT_TRAIT: "trait",
    Requirement.NO_ROOT_TRAIT: "trait",
}
"""Words for those that stand for themselves; the rest are about amounts that several groups share."""


def find_cause(request: Request, narrowing: Narrowing | None, requirement: Requirement | None, name: str) -> Cause:
    """Return the cause. narrowing, requirement: of the line of the funnel that left no host, None without a funnel.

    name: the resource class, or whatever else the funnel's step is about.
    """
    if request.impossible is not None or narrowing is None:
        return Cause(requirement=IMPOSSIBLE)
    nic = narrowing.nic or _only_nic(request, requirement)
    word = _word(narrowing, requirement, name)
    return Cause(requirement=word) if nic is None else _of_nic(word, nic)


def _word(narrowing: Narrowing, requirement: Requirement | None, name: str) -> str:
    if requirement is None:
        return UNTRIED
    if narrowing.nic is not None and requirement in (Requirement.FREE, Requirement.INVENTORY):
        return "addresses"
    if narrowing.kind in BY_KIND:
        return BY_KIND[narrowing.kind]
    return BY_CLASS.get(name) or BY_REQUIREMENT.get(requirement, "together" if not name else "resources")


def _only_nic(request: Request, requirement: Requirement | None) -> NicRequest | None:
    """Return the NIC that an amount which several groups share is about, where there is one network only."""
    if requirement is not Requirement.TOGETHER or len({nic.network.id for nic in request.nics}) != 1:
        return None
    return request.nics[0]


def _of_nic(word: str, nic: NicRequest) -> Cause:
    """Return the cause on the NIC's network, and on its segment where only one will do."""
    network = nic.network
    segments = [each for each in network.segments if nic.pinned_to in (None, each.provider_uuid)]
    segment = segments[0] if network.routed and len(segments) == 1 else None
    return Cause(
        requirement=word,
        network_id=network.id,
        network=network.name,
        segment_id=segment.provider_uuid if segment else None,
        segment=segment.name if segment else "",
        is_common=network.routed or network.shared,
    )
