"""Turns what a server asked for, and its ports, into the request that filters narrow and the ledger answers."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from roost.seams.compute import RequestSpec
from roost.seams.network import NetworkView, Port
from roost.seams.placement import (
    DISK_GB,
    IPV4_ADDRESS,
    MEMORY_MB,
    VCPU,
    CandidateQuery,
    RequestGroup,
)


class NicRequest(Struct, frozen=True, kw_only=True):
    """One port's part of a request: the network that it is on, and what it still needs or is held to.

    pinned_to: the provider that its address is on, so that only hosts reaching it will do. needs_address: one is to be
    claimed for it.
    """

    tag: str
    network: NetworkView
    needs_address: bool
    pinned_to: str | None = None


class Request(Struct, frozen=True, kw_only=True):
    """What one server, or many alike, ask of the ledger; servers with equal requests are placed together.

    host: resources of the host itself. member_of, forbidden_traits: what the filters ask of it. groups: granular
    groups, each with its suffix. trace: what each filter did, in words.
    """

    resources: tuple[tuple[str, int], ...]
    nics: tuple[NicRequest, ...]
    excluded_hosts: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    forbidden_traits: frozenset[str] = frozenset()
    groups: tuple[RequestGroup, ...] = ()
    trace: tuple[str, ...] = ()
    impossible: str | None = None

    def narrowed(self, trace: str, **changes: object) -> "Request":
        """The request with changes, and a line of trace that says why."""
        return replace(self, trace=(*self.trace, trace), **changes)


def build_request(
    spec: RequestSpec,
    ports: Sequence[Port],
    networks: Mapping[str, NetworkView],
    *,
    excluded_hosts: Sequence[str] = (),
    free_to_leave: bool = False,
) -> Request:
    """The request of a server with these ports.

    free_to_leave: an address that this very build assigned does not hold the port to its segment any more.
    """
    nics = []
    for port in ports:
        has_address = port.provider_uuid is not None and (port.pinned or not free_to_leave)
        nics.append(
            NicRequest(
                tag=port.tag,
                network=networks[port.network_id],
                needs_address=not has_address and (port.needs_address or port.provider_uuid is not None),
                pinned_to=port.provider_uuid if has_address else None,
            )
        )
    resources = ((VCPU, spec.vcpus), (MEMORY_MB, spec.memory_mb), (DISK_GB, spec.disk_gb))
    return Request(
        resources=tuple(pair for pair in resources if pair[1] > 0),
        nics=tuple(nics),
        excluded_hosts=frozenset(excluded_hosts),
    )


def suffix_of(tag: str) -> str:
    """The suffix of a NIC's granular group, by the NIC's tag."""
    return f"_nic{tag}"


def reached_through(nic: NicRequest) -> frozenset[str]:
    """The placement aggregates whose hosts reach the NIC's network, or the segment that it is held to."""
    return frozenset(
        segment.placement_aggregate
        for segment in nic.network.segments
        if segment.placement_aggregate is not None and nic.pinned_to in (None, segment.provider_uuid)
    )


def place_of(nic: NicRequest) -> str:
    """Where a NIC has to be, in words: a network, or the one segment of it that an address is on."""
    network = f"network {nic.network.name}"
    held = [segment.name for segment in nic.network.segments if segment.provider_uuid == nic.pinned_to]
    return f"segment {held[0]} of {network}" if held and nic.network.routed else network


def address_group(nic: NicRequest) -> RequestGroup:
    """One address for a NIC: from the one provider of a plain network, or any segment of a routed one."""
    if not nic.network.routed:
        return RequestGroup(
            suffix=suffix_of(nic.tag), resources={IPV4_ADDRESS: 1}, in_tree=nic.network.segments[0].provider_uuid
        )
    aggregates = frozenset(
        segment.placement_aggregate for segment in nic.network.segments if segment.placement_aggregate is not None
    )
    return RequestGroup(suffix=suffix_of(nic.tag), resources={IPV4_ADDRESS: 1}, member_of=(aggregates,))


def build_query(request: Request, *, limit: int) -> CandidateQuery:
    """The request as the ledger reads it. limit: how many candidates are wanted, excluded hosts not counted."""
    host = RequestGroup(
        suffix="",
        resources=dict(request.resources),
        member_of=request.member_of,
        forbidden=request.forbidden_traits,
    )
    return CandidateQuery(groups=(host, *request.groups), limit=limit + len(request.excluded_hosts))
