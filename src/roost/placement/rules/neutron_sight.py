"""Decides what a round may believe: whether Neutron has shown all there is, by Neutron's own count of addresses.

A list that is answered 200 may be a part: policy leaves out what a user may not see, and says nothing. Neutron's count
of a subnet (network-ip-availabilities) is of all its addresses, whoever has them and whoever asks. The count is read
after the lists. So where the lists show as many addresses as it counts, what is kept for them is enough for all.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from typing import TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from roost.placement.model import ProviderRow
from roost.placement.rules.neutron import AddressFigures, Change, NeutronState, PortChange, SegmentChange, Surplus
from roost.platform.grouping import grouped

NetworkCounts = Mapping[str, Mapping[str, int]]
"""Network -> IPv4 subnet -> addresses that Neutron counts as used. Empty where Roost may not ask."""

WHERE_TOLD = "`roost-manage status neutron` says why"
"""What Neutron and its addresses are called is for operators."""

LISTED_MAX = 100
"""So many of a kind are named in what is kept of a round."""


class Sight(Struct, frozen=True, kw_only=True):
    """What the last round saw of what it may see. Lists name LISTED_MAX of each at most.

    user: who asks, in words. may_count: whether Neutron tells its own count, without which nothing is given back.
    subnets_on_segments: whose addresses are counted; subnets_elsewhere: on no segment; subnets_of_others: by id, with
    the reason why they are no room for servers. networks_uncounted: network id -> why servers claim nothing there.
    segments_unbelieved: where something would have been given back, and Neutron counts more than it has shown.
    fault: why the last round was refused as a whole; "": it was not. rounds_unbelieved: of all rounds ever.
    """

    user: str = ""
    may_count: bool = True
    segments: int = 0
    segments_unpublished: tuple[str, ...] = ()
    subnets_on_segments: int = 0
    subnets_elsewhere: int = 0
    subnets_of_others: Mapping[str, str] = {}
    networks_uncounted: Mapping[str, str] = {}
    segments_unbelieved: tuple[str, ...] = ()
    fault: str = ""
    rounds_unbelieved: int = 0

    def note(self) -> str | None:
        """Return what operators should know of it; None where all is well. Strangers read it at `/readyz` as well."""
        if self.fault:
            return f"addresses are counted as they were: {WHERE_TOLD}"
        if not self.may_count:
            return "no address is given back: Neutron does not tell its own count (network-ip-availabilities)"
        if self.segments_unbelieved:
            return f"on {len(self.segments_unbelieved)} segments Neutron counts more addresses than it shows"
        return None


class KeptFigures(AddressFigures, frozen=True):
    """What is kept of a round, for every process. sight: of the last, also where that was refused."""

    sight: Sight = Sight()


class Shortage(Struct, frozen=True):
    """A subnet of which Neutron counts more than it has shown. shown: None where it does not show the subnet."""

    subnet_id: str
    counted: int
    shown: int | None


def find_shortages(state: NeutronState, counts: NetworkCounts) -> list[Shortage]:
    """Return the subnets of which something is not shown, or was made between the lists and the count."""
    known = {subnet.id for subnet in (*state.subnets, *state.subnets_uncounted)}
    used = Counter(subnet_id for port in state.ports for subnet_id, _ in port.addresses) if counts else Counter()
    shortages = []
    for subnets in counts.values():
        for subnet_id, counted in sorted(subnets.items()):
            if subnet_id not in known:
                shortages.append(Shortage(subnet_id, counted, None))
            elif used[subnet_id] < counted:
                shortages.append(Shortage(subnet_id, counted, used[subnet_id]))
    return shortages


def find_whole_segments(networks_by_segment: Mapping[str, str], state: NeutronState, counts: NetworkCounts) -> set[str]:
    """Return the segments of which Neutron has shown all addresses that it counts.

    A network without a count is deleted, as another one has a count: then nothing of it is hidden.
    """
    if not counts:
        return set()
    shortages = {shortage.subnet_id: shortage for shortage in find_shortages(state, counts)}
    segments_short = {subnet.segment_id for subnet in state.subnets if subnet.id in shortages}
    networks_short = {
        network
        for network, subnets in counts.items()
        if any(subnet in shortages and shortages[subnet].shown is None for subnet in subnets)
    }
    return {
        segment
        for segment, network in networks_by_segment.items()
        if segment not in segments_short and network not in networks_short
    }


def list_networks_by_segment(state: NeutronState, providers: Mapping[str, ProviderRow]) -> dict[str, str]:
    """Return the network of each segment that Neutron or the ledger knows."""
    known = {uuid: row.network_id for uuid, row in providers.items() if row.network_id is not None}
    return known | {segment.id: segment.network_id for segment in state.segments}


def gives_back(change: Change) -> TypeGuard[SegmentChange | Surplus]:
    """Return whether others may have addresses after a change that they may not have before."""
    if isinstance(change, SegmentChange):
        before, after = change.before, change.inventory
        return before is not None and after is not None and after.capacity > before.capacity
    return isinstance(change, Surplus)


def closes(change: Change) -> TypeGuard[SegmentChange]:
    """Return whether the change is that of a segment which is of no network any more."""
    return isinstance(change, SegmentChange) and change.network_id is None


def mark_deleted(change: Change, networks_by_segment: Mapping[str, str], networks_deleted: Container[str]) -> Change:
    """Return the change; that of a segment which is closed says whether its network is deleted."""
    if not closes(change):
        return change
    return replace(change, is_deleted=networks_by_segment.get(change.segment_uuid, "") in networks_deleted)


def limit_to_believed(change: Change, whole_segments: Set[str]) -> Change | None:
    """Return what of a change may be written: elsewhere than on whole segments nothing is given back. None: nothing.

    There, of an inventory only pools count that are larger now: no less is reserved.
    """
    if isinstance(change, PortChange) or change.segment_uuid in whole_segments or not gives_back(change):
        return change
    if isinstance(change, Surplus):
        return None
    before, after = change.before, change.inventory
    assert before is not None
    assert after is not None
    reserved = min(max(before.reserved, after.reserved), after.total)
    limited = replace(change, inventory=replace(after, reserved=reserved))
    return limited if limited.inventory != before or limited.network_id != limited.network_before else None


Exchange = tuple[list[Surplus], list[PortChange]]
"""What a consumer returns, and the ports that claim those addresses in the same write."""


def pair_claims(surpluses: Iterable[Surplus], ports: Iterable[PortChange]) -> dict[str, Exchange]:
    """Return consumer -> what it returns, with ports of the same segments that claim no more than that.

    So a segment has either ports left that only take, or claims left that only give.
    """
    waiting = grouped((port.need.segment_uuid, port) for port in ports)
    exchanges: dict[str, Exchange] = {}
    for surplus in surpluses:
        parts, takers = exchanges.setdefault(surplus.consumer_uuid, ([], []))
        parts.append(surplus)
        queue, amount_left = waiting.get(surplus.segment_uuid, []), surplus.amount
        while queue and queue[-1].need.amount <= amount_left:
            takers.append(queue.pop())
            amount_left -= takers[-1].need.amount
    return exchanges


def describe(
    state: NeutronState, *, user: str, may_count: bool, unpublished: Sequence[str], unbelieved: Iterable[str]
) -> Sight:
    """Return what a round saw."""
    elsewhere = [subnet for subnet in state.subnets_uncounted if not subnet.segment_id]
    of_others = {subnet.id: subnet for subnet in state.subnets_uncounted if subnet.segment_id}
    unclaimed = set(unpublished)
    counted = {subnet.network_id for subnet in state.subnets if subnet.segment_id not in unclaimed}
    reasons = {subnet.network_id: "all its subnets on segments are for others" for subnet in of_others.values()}
    reasons |= {
        subnet.network_id: f"Neutron has not published its segment {subnet.segment_id}"
        for subnet in state.subnets
        if subnet.segment_id in unclaimed
    }
    return Sight(
        user=user,
        may_count=may_count,
        segments=len(state.segments),
        segments_unpublished=tuple(sorted(unpublished)[:LISTED_MAX]),
        subnets_on_segments=len(state.subnets),
        subnets_elsewhere=len(elsewhere),
        subnets_of_others=dict(
            sorted(
                (uuid, f"it is for {', '.join(subnet.service_types)}, not for every server of its segment")
                for uuid, subnet in of_others.items()
            )[:LISTED_MAX]
        ),
        networks_uncounted=dict(sorted((n, why) for n, why in reasons.items() if n not in counted)[:LISTED_MAX]),
        segments_unbelieved=tuple(sorted(unbelieved)[:LISTED_MAX]),
    )
