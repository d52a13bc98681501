"""Decides what the ledger must say of a segment's addresses, from what Neutron says of its pools and ports.

The equation: an inventory is the addresses of the pools, the gateways and the servers' addresses outside of pools;
reserved of it is what no server has; claimed is what servers' ports have. So what is free here is what Neutron can
still give. Nothing is counted up and down: all is computed from the whole state each time, so twice does nothing.

Source: Neutron, services/segments/plugin.py: what its notifier adds to a total and to reserved for pools, gateways,
DHCP and ports.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address

from msgspec import Struct
from msgspec.structs import replace

from roost.placement.model import AddressClaim, ProviderRow
from roost.placement.rules.drift import CLAIM_PORTLESS, INVENTORY_UNLIKE_POOLS, PORT_UNCLAIMED
from roost.platform.drift import Drift
from roost.seams.addresses import count_capacity
from roost.seams.neutron import NeutronNetwork, NeutronPort, NeutronSegment, NeutronSubnet
from roost.seams.placement import IPV4_ADDRESS, SEGMENT_NAME, Inventory
from roost.seams.service_types import COMPUTE_OWNER, DEFAULT_ZONE, serves

DHCP_OWNER = "network:dhcp"


class NeutronState(Struct, frozen=True):
    """All that Neutron says. networks: for their names.

    subnets: those on segments whose addresses servers get. subnets_uncounted: all others.
    """

    segments: Sequence[NeutronSegment]
    subnets: Sequence[NeutronSubnet]
    ports: Sequence[NeutronPort]
    networks: Sequence[NeutronNetwork] = ()
    subnets_uncounted: Sequence[NeutronSubnet] = ()


class SubnetFigures(Struct, frozen=True, kw_only=True):
    """How many addresses a subnet's pools have, and how many of the subnet's ports have."""

    network_id: str
    network_name: str
    project_id: str
    subnet_name: str
    cidr: str
    segment_id: str
    total: int
    used: int


class AddressFigures(Struct, frozen=True):
    """What dashboards show of addresses. ports_without_address: of those that a device has."""

    subnets: tuple[SubnetFigures, ...] = ()
    ports_without_address: int = 0


class PortNeed(Struct, frozen=True, kw_only=True):
    """The addresses of a server's port on one segment, which somebody must claim."""

    port_uuid: str
    server_uuid: str
    project_id: str
    segment_uuid: str
    amount: int


class Seen(Struct, frozen=True):
    """What a round before this one saw: (server, segment) -> addresses of its ports, and how long ago that was."""

    amounts: Mapping[tuple[str, str], int] = {}
    age_s: float = 0.0


class SegmentChange(Struct, frozen=True, kw_only=True):
    """A segment's provider must have this inventory, and be of this network; of none where no IPv4 subnet is left.

    is_deleted: Neutron has deleted the network before.
    """

    segment_uuid: str
    name: str
    inventory: Inventory | None
    before: Inventory | None
    network_id: str | None
    network_before: str | None
    is_deleted: bool = False

    def drift(self) -> Drift:
        """Return it in an operator's words."""
        facts = []
        if self.before is not None and self.inventory is not None and self.before != self.inventory:
            facts.append(
                f"total {self.before.total} of which {self.before.reserved} reserved, "
                f"should be {self.inventory.total} and {self.inventory.reserved}"
            )
        if self.network_id is None:
            facts.append("no IPv4 subnet of Neutron is left on it")
        elif self.network_before != self.network_id:
            facts.append(f"its network is {self.network_id}, which the ledger does not know")
        return INVENTORY_UNLIKE_POOLS.drift(self.segment_uuid, "; ".join(facts), name=self.name)


class PortChange(Struct, frozen=True, kw_only=True):
    """A port must claim its addresses by itself. generation: of the claim that it has, None for none."""

    need: PortNeed
    generation: int | None

    def drift(self) -> Drift:
        """Return it in an operator's words."""
        need = self.need
        says = f"{need.amount} on segment {need.segment_uuid}, of server {need.server_uuid}"
        return PORT_UNCLAIMED.drift(need.port_uuid, says)


class Surplus(Struct, frozen=True, kw_only=True):
    """A consumer claims so many addresses of a segment that no port has. generation: of the claim as read."""

    consumer_uuid: str
    generation: int
    segment_uuid: str
    amount: int

    def drift(self) -> Drift:
        """Return it in an operator's words."""
        return CLAIM_PORTLESS.drift(self.consumer_uuid, f"{self.amount} on segment {self.segment_uuid}")


Change = SegmentChange | PortChange | Surplus


def new_state(
    segments: Sequence[NeutronSegment],
    subnets: Sequence[NeutronSubnet],
    ports: Sequence[NeutronPort],
    networks: Sequence[NeutronNetwork],
    *,
    zones: Mapping[str, str],
) -> NeutronState:
    """Return what Neutron says, with the subnets apart whose addresses are no room for servers.

    zones: segment -> the zone in which all its hosts are; Nova's default for others.
    """
    owners = list_server_owners(subnets, ports, zones)
    on_segments = [subnet for subnet in subnets if subnet.segment_id]
    for_servers = [subnet for subnet in on_segments if serves(subnet.service_types, owners[subnet.segment_id])]
    counted_ids = {subnet.id for subnet in for_servers}
    uncounted = [subnet for subnet in subnets if subnet.id not in counted_ids]
    return NeutronState(segments, for_servers, ports, networks, uncounted)


def list_server_owners(
    subnets: Sequence[NeutronSubnet], ports: Sequence[NeutronPort], zones: Mapping[str, str]
) -> dict[str, set[str]]:
    """Return segment -> the device owners of servers there: by the zone of its hosts, and as seen on ports."""
    segments = {subnet.id: subnet.segment_id for subnet in subnets if subnet.segment_id}
    owners = {segment: {COMPUTE_OWNER + zones.get(segment, DEFAULT_ZONE)} for segment in segments.values()}
    for port in ports:
        if port.device_owner.startswith(COMPUTE_OWNER):
            for subnet_id, _ in port.addresses:
                if subnet_id in segments:
                    owners[segments[subnet_id]].add(port.device_owner)
    return owners


def decide_changes(
    state: NeutronState,
    providers: Mapping[str, ProviderRow],
    claims: Sequence[AddressClaim],
    *,
    seen: Seen,
    grace_s: float,
) -> list[Change]:
    """Return all that must change for the ledger to agree with Neutron; nothing where it does.

    providers: those of the segments, by UUID, also of segments that Neutron had; a segment without one is Neutron's to
    publish, and left alone. claims: of their addresses. grace_s: a server claims before it has a port; a claim that is
    older has none in sight. Nobody gets an address where no subnet is left, so claims there have no such time.
    """
    abandoned = list_abandoned(state, providers)
    changes: list[Change] = [*decide_segments(state, providers), *map(_close_segment, abandoned.values())]
    changes += [_surplus(claim, claim.amount) for claim in claims if claim.segment_uuid in abandoned]
    needs = [need for need in list_needs(state) if need.segment_uuid in providers]
    claims_served = [claim for claim in claims if claim.segment_uuid not in abandoned]
    return changes + decide_claims_of_ports(needs, claims_served, seen=seen, grace_s=grace_s)


def list_abandoned(state: NeutronState, providers: Mapping[str, ProviderRow]) -> dict[str, ProviderRow]:
    """Return segment -> provider of those that were a network's and have no IPv4 subnet any more.

    None where Neutron shows no subnet of any segment: that is a user who may not see them.
    """
    with_subnets = {subnet.segment_id for subnet in state.subnets}
    if not with_subnets:
        return {}
    return {uuid: row for uuid, row in providers.items() if row.network_id is not None and uuid not in with_subnets}


def decide_segments(state: NeutronState, providers: Mapping[str, ProviderRow]) -> list[SegmentChange]:
    """Return the segments whose provider says something else than Neutron's pools and ports."""
    inventories = count_addresses(state.subnets, state.ports)
    changes = []
    for segment in state.segments:
        row = providers.get(segment.id)
        if row is None or segment.id not in inventories or IPV4_ADDRESS not in row.inventories:
            continue
        before = row.inventories[IPV4_ADDRESS]
        total, reserved = inventories[segment.id]
        inventory_wanted = replace(before, total=total, reserved=reserved)
        if inventory_wanted != before or row.network_id != segment.network_id:
            changes.append(
                SegmentChange(
                    segment_uuid=segment.id, name=row.name, inventory=inventory_wanted, before=before,
                    network_id=segment.network_id, network_before=row.network_id,
                )
            )  # fmt: skip
    return changes


def _close_segment(row: ProviderRow) -> SegmentChange:
    """Return the change after which no address of a segment is offered, and no NIC is asked of it.

    Its inventory stays, so that a subnet that comes again, or a Neutron that was wrong, needs no provider made anew.
    """
    before = row.inventories.get(IPV4_ADDRESS)
    closed = None if before is None else replace(before, reserved=before.total)
    return SegmentChange(
        segment_uuid=row.uuid, name=row.name, inventory=closed, before=before, network_id=None,
        network_before=row.network_id,
    )  # fmt: skip


def count_addresses(subnets: Sequence[NeutronSubnet], ports: Iterable[NeutronPort]) -> dict[str, tuple[int, int]]:
    """Return segment -> (total, reserved) of its IPv4 addresses."""
    pools = {subnet.id: [(_number(first), _number(last)) for first, last in subnet.pools] for subnet in subnets}
    gateways = {subnet.id: None if subnet.gateway_ip is None else _number(subnet.gateway_ip) for subnet in subnets}
    others, dhcp, outside = (defaultdict[str, int](int) for _ in range(3))
    for port in ports:
        for subnet_id, text in port.addresses:
            if subnet_id not in pools or gateways[subnet_id] == (address := _number(text)):
                continue
            inside = any(first <= address <= last for first, last in pools[subnet_id])
            if port.device_owner.startswith(COMPUTE_OWNER):
                outside[subnet_id] += not inside
            elif inside:
                (dhcp if port.device_owner == DHCP_OWNER else others)[subnet_id] += 1
    counts: dict[str, tuple[int, int]] = {}
    for subnet in subnets:
        # As Neutron has it, the gateway is an address of the pools, also where they leave it out.
        gateway = gateways[subnet.id]
        in_pool = gateway is not None and any(first <= gateway <= last for first, last in pools[subnet.id])
        total, reserved = count_capacity(
            pooled=sum(last - first + 1 for first, last in pools[subnet.id]) + (gateway is not None and not in_pool),
            claimed_outside=outside[subnet.id],
            unclaimed_inside=(gateway is not None) + others[subnet.id] + max(dhcp[subnet.id], int(subnet.enable_dhcp)),
        )
        before = counts.get(subnet.segment_id, (0, 0))
        counts[subnet.segment_id] = before[0] + total, before[1] + reserved
    return counts


def is_segment(row: ProviderRow) -> bool:
    """Return whether a provider is of a segment of Neutron's: one that a round has seen, or that has the name of one.

    A segment that Neutron has just published counts too. Neutron may tell of its pools twice before a round comes.
    """
    return row.network_id is not None or row.name == SEGMENT_NAME.format(row.uuid)


def limit_by_truth(before: Inventory, sent: Inventory) -> Inventory:
    """Return what is kept of an inventory that somebody sends for a segment whose addresses are computed.

    Neutron's notifier counts up and down from what it reads, also when a round has counted the same. What takes
    addresses away is believed until the next round, and what gives some is that round's to find. So are pools that it
    adds, with what is reserved of them: it tells of a new segment's pools twice after it has deleted a network.
    """
    if sent.total > before.total:
        return replace(sent, total=before.total, reserved=before.reserved)
    return replace(sent, reserved=min(max(before.reserved, sent.reserved), sent.total))


def list_needs(state: NeutronState) -> list[PortNeed]:
    """Return what ports of servers have on segments, by port."""
    segments = {subnet.id: subnet.segment_id for subnet in state.subnets}
    needs = []
    for port in state.ports:
        if not port.device_id or not port.device_owner.startswith(COMPUTE_OWNER):
            continue
        amounts: dict[str, int] = {}
        for subnet_id, _ in port.addresses:
            if (segment := segments.get(subnet_id)) is not None:
                amounts[segment] = amounts.get(segment, 0) + 1
        needs += [
            PortNeed(
                port_uuid=port.id, server_uuid=port.device_id, project_id=port.project_id, segment_uuid=segment,
                amount=amount,
            )
            for segment, amount in amounts.items()
        ]  # fmt: skip
    return needs


def sum_needs(needs: Iterable[PortNeed]) -> dict[tuple[str, str], int]:
    """Return (server, segment) -> the addresses that its ports have there."""
    sums: dict[tuple[str, str], int] = {}
    for need in needs:
        key = (need.server_uuid, need.segment_uuid)
        sums[key] = sums.get(key, 0) + need.amount
    return sums


def decide_claims_of_ports(
    needs: Sequence[PortNeed], claims: Sequence[AddressClaim], *, seen: Seen, grace_s: float
) -> list[Change]:
    """Return which ports must claim by themselves what their servers do not, and which claims are of no port."""
    of_ports = {(claim.consumer_uuid, claim.segment_uuid): claim for claim in claims if claim.server_uuid}
    of_servers = {(claim.consumer_uuid, claim.segment_uuid): claim for claim in claims if not claim.server_uuid}
    changes: list[Change] = []
    amounts_left = {key: claim.amount for key, claim in of_servers.items()}
    kept: set[tuple[str, str]] = set()
    # A server's claim covers first those of its ports that have none: the least is then written.
    for need in sorted(needs, key=lambda need: ((need.port_uuid, need.segment_uuid) in of_ports, need.port_uuid)):
        key, own = (need.server_uuid, need.segment_uuid), (need.port_uuid, need.segment_uuid)
        if amounts_left.get(key, 0) >= need.amount:
            amounts_left[key] -= need.amount
            continue
        claim_held = of_ports.get(own)
        kept.add(own)
        if claim_held is None or (claim_held.amount, claim_held.server_uuid) != (need.amount, need.server_uuid):
            changes.append(PortChange(need=need, generation=None if claim_held is None else claim_held.generation))
    changes += [_surplus(claim, claim.amount) for key, claim in of_ports.items() if key not in kept]
    amounts = sum_needs(needs)
    for key, claim in of_servers.items():
        gone = amounts_left[key]
        if claim.age_s <= grace_s:
            # It may wait for its ports, but not for those that were there after it was written.
            gone = min(gone, seen.amounts.get(key, 0) - amounts.get(key, 0) if claim.age_s > seen.age_s else 0)
        if gone > 0:
            changes.append(_surplus(claim, gone))
    return changes


def _surplus(claim: AddressClaim, amount: int) -> Surplus:
    return Surplus(
        consumer_uuid=claim.consumer_uuid, generation=claim.generation, segment_uuid=claim.segment_uuid, amount=amount
    )


def _number(text: str) -> int:
    return int(IPv4Address(text))


def sum_addresses(state: NeutronState) -> AddressFigures:
    """Return the addresses of every subnet, whoever has them, as Neutron's network-ip-availability counts them."""
    networks = {network.id: network for network in state.networks}
    used = Counter(subnet_id for port in state.ports for subnet_id, _ in port.addresses)
    figures = []
    on_segments = [subnet for subnet in (*state.subnets, *state.subnets_uncounted) if subnet.segment_id]
    for subnet in sorted(on_segments, key=lambda subnet: subnet.id):
        network = networks.get(subnet.network_id, NeutronNetwork(subnet.network_id))
        figures.append(
            SubnetFigures(
                network_id=network.id,
                network_name=network.name,
                project_id=network.project_id,
                subnet_name=subnet.name,
                cidr=subnet.cidr,
                segment_id=subnet.segment_id,
                total=sum(int(IPv4Address(last)) - int(IPv4Address(first)) + 1 for first, last in subnet.pools),
                used=used[subnet.id],
            )
        )
    return AddressFigures(tuple(figures), sum(bool(port.device_id) and not port.addresses for port in state.ports))
