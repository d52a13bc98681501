"""Decides what is drift: where addresses, claims, free ranges, providers and host aggregates do not say the same.

All from what was read under the lock, or at a moment when nobody was at work; who reads, waits and repairs is
`service/audit_*.py`.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import asdict

from roost.network.model import AddressRange, Port, ProviderSource, Subnet
from roost.network.rules import addressing, inventory, segments, uses
from roost.network.rules.holdings import claim_of, covers, same
from roost.network.rules.ranges import Ranges, holds, join, subtract
from roost.network.rules.subnet_changes import Holding
from roost.seams.audit import Drift, Kind
from roost.seams.placement import Allocations, Inventory, ProviderState

NAMES_SHOWN = 5


def judge_claim(port_id: str, port: Port | None, held: Allocations) -> Drift | None:
    """Whether the port's claim is its addresses; nobody is at work on it. port: None when it does not exist."""
    wanted = claim_of(port.addresses if port else ())
    if same(held, wanted):
        return None
    if port is None:
        kind = Kind.PORT_CLAIM_STRAY
    elif not wanted:
        kind = Kind.PORT_CLAIM_IDLE
    elif covers(held, wanted):
        kind = Kind.PORT_CLAIM_LARGE
    else:
        kind = Kind.PORT_CLAIM_SMALL
    says = f"claims {_show(held)}, has {_show(wanted)}"
    return Drift(kind=kind, key=port_id, name=port.name if port else "", says=says)


def marked(item: Holding, subnet: Subnet) -> Holding:
    """The address as it has to be marked in a subnet that is not being changed.

    Where addresses follow from MACs, one in a pool was taken from it or was not: its mark alone says which.
    """
    pooled = holds(subnet.pools, item.address)
    in_pool = pooled and (item.in_pool or not uses.is_automatic(subnet))
    return Holding(item.address, in_pool, in_pool and inventory.claimed_by_ports(subnet))


def judge_marks(item: Holding, subnet: Subnet) -> Drift | None:
    """Whether it is known of an address if it is of a pool, and if its port's claim counts it."""
    wanted = marked(item, subnet)
    if item == wanted:
        return None
    says = f"is {_show_marks(item)}, should be {_show_marks(wanted)}"
    return Drift(kind=Kind.ADDRESS_WRONG, key=addressing.show(item.address), name=subnet.name or subnet.id, says=says)


def free_of(pools: Iterable[AddressRange], held: Iterable[int]) -> Ranges:
    """What of the pools is free when these addresses are held: whole ranges, none beside another, in order."""
    return subtract(pools, (AddressRange(address, address) for address in held))


def is_free_right(pools: Sequence[AddressRange], free: Sequence[AddressRange], *, held: int, overlapping: int) -> bool:
    """Whether free ranges and held addresses can be the pools, by numbers alone.

    held: how many addresses of the pools ports have; overlapping: how many of all are in a free range.
    """
    return (
        overlapping == 0
        and addressing.count(pools) - addressing.count(free) == held
        and addressing.count(join(free)) == addressing.count(free)
        and join([*pools, *free]) == join(pools)
    )


def judge_free(
    subnet_id: str, name: str, pools: Sequence[AddressRange], free: Sequence[AddressRange], held: Sequence[int]
) -> Drift | None:
    """Whether the free ranges are the pools without what is held, however they are cut."""
    wanted, joined = free_of(pools, held), join(free)
    if addressing.count(joined) == addressing.count(free) and joined == wanted:
        return None
    overlapping = sum(holds(joined, address) for address in held)
    says = f"{addressing.count(free)} free, {addressing.count(wanted)} should be; {overlapping} of them are held"
    return Drift(kind=Kind.FREE_WRONG, key=subnet_id, name=name, says=says)


def judge_provider(uuid: str, wanted: ProviderState | None, found: ProviderState | None) -> Drift | None:
    """Whether the ledger has of a segment or network what its pools make it; wanted: None when it should have none."""
    if wanted is None:
        if found is None:
            return None
        return Drift(kind=Kind.PROVIDER_STRAY, key=uuid, name=found.name, says="nothing with pools stands behind it")
    if found is None:
        return Drift(kind=Kind.PROVIDER_WRONG, key=uuid, name=wanted.name, says="is missing")
    said = []
    if found.name != wanted.name:
        said.append(f"its name is {found.name}")
    if dict(found.inventories or {}) != dict(wanted.inventories or {}):
        said.append(f"has {_totals(found)}, should have {_totals(wanted)}")
    if (wanted.traits or frozenset()) - (found.traits or frozenset()):
        said.append(f"traits {_list(found.traits or ())}, should be {_list(wanted.traits or ())}")
    if found.placement_aggregates != wanted.placement_aggregates:
        in_, should = found.placement_aggregates or (), wanted.placement_aggregates or ()
        said.append(f"in placement aggregates {_list(in_)}, should be in {_list(should)}")
    return Drift(kind=Kind.PROVIDER_WRONG, key=uuid, name=wanted.name, says="; ".join(said)) if said else None


def wanted_members(hosts: Mapping[str, frozenset[str]], sources: Sequence[ProviderSource]) -> dict[str, set[str]]:
    """Host aggregate -> hosts that should be in it; hosts: what segments.aggregates_by_host says."""
    members: dict[str, set[str]] = {segments.host_aggregate(source).uuid: set() for source in sources}
    for host, aggregates in hosts.items():
        for uuid in aggregates:
            members[uuid].add(host)
    return members


def judge_aggregate(uuid: str, name: str, wanted: set[str], found: Iterable[str] | None) -> Drift | None:
    """Whether the hosts in a host aggregate are those that should be; found: None when it does not exist."""
    if found is None:
        return Drift(kind=Kind.AGGREGATE_WRONG, key=uuid, name=name, says="is missing")
    missing, extra = sorted(wanted - set(found)), sorted(set(found) - wanted)
    if not missing and not extra:
        return None
    said = [f"{word} {_list(names)}" for word, names in (("lacks", missing), ("has besides", extra)) if names]
    return Drift(kind=Kind.AGGREGATE_WRONG, key=uuid, name=name, says="; ".join(said))


def _show_marks(item: Holding) -> str:
    return f"{'in' if item.in_pool else 'outside'} the pools and {'claimed' if item.claimed else 'not claimed'}"


def _show(claim: Allocations) -> str:
    parts = [f"{n} {name} of {uuid}" for uuid, resources in sorted(claim.items()) for name, n in resources.items()]
    return ", ".join(parts) or "nothing"


def _totals(state: ProviderState) -> str:
    totals = (state.inventories or {}).items()
    return ", ".join(f"{item.total} {name}" + _odd(item) for name, item in sorted(totals)) or "no inventory"


def _odd(item: Inventory) -> str:
    """What of an inventory is not as Roost makes it."""
    usual = asdict(Inventory(total=item.total, max_unit=item.total))
    odd = [f"{name} {value}" for name, value in asdict(item).items() if value != usual[name]]
    return f" ({', '.join(odd)})" if odd else ""


def _list(names: Iterable[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - NAMES_SHOWN} more" if len(shown) > NAMES_SHOWN else ""
    return (", ".join(shown[:NAMES_SHOWN]) or "none") + more
