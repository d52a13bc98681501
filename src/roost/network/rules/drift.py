"""Decides what is drift: where addresses, claims, free ranges, providers and host aggregates contradict each other.

Each kind of drift has its words for operators here. The checks of `service/audit*.py` read under locks, or while nobody
is at work; they wait and repair too.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import asdict

from roost.network.model.networks import ProviderSource
from roost.network.model.ports import FreeState, Mismarked, Port, is_of_server
from roost.network.rules import addressing, segments
from roost.network.rules.addressing import join
from roost.network.rules.capacity import claim_of
from roost.platform.drift import Drift, Kind, RepairedBy
from roost.seams.compute import ServerState
from roost.seams.placement import (
    Allocations,
    Inventory,
    ProviderState,
    covers_allocations,
    same_allocations,
    show_allocations,
)

NAMES_SHOWN = 5

# fmt: off
ADDRESS_STRAY = Kind("address-stray", "an address is of a port or subnet that does not exist", "unassigned")
ADDRESS_WRONG = Kind("address-wrong",
    "an address is not marked as what its subnet's pools make it: of them, or claimed", "marked anew")
FREE_WRONG = Kind("free-wrong", "the free ranges of a subnet are not its pools without the addresses held",
    "computed anew")
PROVIDER_WRONG = Kind("provider-wrong",
    "the provider of a segment or network is missing, or is not what its pools make it", "published again")
PROVIDER_STRAY = Kind("provider-stray", "a provider is of a segment or network that does not exist", "deleted")
AGGREGATE_WRONG = Kind("aggregate-wrong", "the hosts in a host aggregate are not those that reach its segment",
    "set again")
AGGREGATE_STRAY = Kind("aggregate-stray", "a host aggregate is of a segment that does not exist", "deleted")
PORT_STRAY = Kind("port-stray", "a port was made for, or reserved for, a server that neither runs nor is being built",
    "deleted if Roost made it, else put back as it came")
PORT_LATE = Kind("port-late", "a port was made or reserved for the build of a server that came to run without it",
    "deleted; a user's own is given back")
PORT_UNOWNED = Kind("port-unowned", "a user's port is attached to a server that does not exist",
    "detached; it keeps its addresses", RepairedBy.ASKED)
PORT_RESERVED = Kind("port-reserved",
    "a port or an address is reserved for the build of a server that nothing works on", "settled")
PORT_CLAIM_SMALL = Kind("port-claim-small", "a port has addresses that its claim does not count",
    "claimed, if there is room")
PORT_CLAIM_LARGE = Kind("port-claim-large", "a port's claim is larger than its addresses", "cut down to them")
PORT_CLAIM_IDLE = Kind("port-claim-idle", "a port without addresses has a claim, and no build or request is at work",
    "given back")
PORT_CLAIM_STRAY = Kind("port-claim-stray", "a claim is of a port that does not exist", "given back")
PORT_UNREACHED = Kind("port-unreached", "a port has addresses on a segment that its host does not reach any more",
    "by you: cable the host again, or move the server", RepairedBy.PERSON)
FLAT_CLAIM_WRONG = Kind("flat-claim-wrong",
    "an ACTIVE server's claim of addresses is not its addresses on flat networks", "claimed anew, if there is room")
# fmt: on


def judge_server_port(port: Port, server: ServerState | None) -> Drift | None:
    """Return the drift of a port that names a server as its device, if any. server: None when it does not exist."""
    going = server is not None and (server.claiming or server.unfinished)  # R9
    is_of_build = port.made_for is not None or port.reserved_from is not None
    is_reserved = port.reserved_from is not None or any(item.assigned_for is not None for item in port.addresses)
    if not going and (is_of_build or is_reserved):
        kind, says = PORT_STRAY, "neither runs nor is being built"
    elif server is None and is_of_server(port.device_owner):
        kind, says = PORT_UNOWNED, "does not exist"
    elif server is None or not is_reserved or server.unfinished:
        return None
    elif is_of_build and port.host is None:
        # The server's own ports were bound before it ran: a conductor that lost its lease made or reserved this later.
        kind, says = PORT_LATE, "runs without it"
    else:
        kind, says = PORT_RESERVED, "is done"
    return kind.drift(port.id, f"server {port.device_id} {says}", name=port.name)


def judge_claim(port_id: str, port: Port | None, held: Allocations) -> Drift | None:
    """Return the drift of a port's claim, if it is not the port's addresses. port: None if it is deleted."""
    claim = claim_of(port.addresses if port else ())
    if same_allocations(held, claim):
        return None
    if port is None:
        kind = PORT_CLAIM_STRAY
    elif not claim:
        kind = PORT_CLAIM_IDLE
    elif covers_allocations(held, claim):
        kind = PORT_CLAIM_LARGE
    else:
        kind = PORT_CLAIM_SMALL
    says = f"claims {show_allocations(held)}, has {show_allocations(claim)}"
    return kind.drift(port_id, says, name=port.name if port else "")


def judge_marks(item: Mismarked, name: str) -> Drift:
    """Return the drift of an address with wrong marks. name: of its subnet."""
    marks, marks_wanted = _show_marks(item.in_pool, item.claimed), _show_marks(item.in_pool_wanted, item.claimed_wanted)
    return ADDRESS_WRONG.drift(item.address, f"is {marks}, should be {marks_wanted}", name=name)


def _show_marks(in_pool: bool, claimed: bool) -> str:
    return f"{'in' if in_pool else 'outside'} the pools and {'claimed' if claimed else 'not claimed'}"


def judge_free(state: FreeState) -> Drift | None:
    """Return the drift, if the free ranges are not the pools without the held addresses."""
    pools, free, amount = state.pools, state.free, addressing.count(state.free)
    amount_wanted = addressing.count(pools) - state.count_held
    is_within_pools = addressing.count(join(free)) == amount and join([*pools, *free]) == join(pools)
    if is_within_pools and amount == amount_wanted and state.overlapping == 0:
        return None
    says = f"{amount} free, {amount_wanted} should be; {state.overlapping} of them are held"
    return FREE_WRONG.drift(state.subnet_id, says, name=state.name)


def judge_provider(
    uuid: str, wanted: ProviderState | None, found: ProviderState | None, *, sourced: bool
) -> Drift | None:
    """Return the drift of a provider that is not as the pools of its segment or network make it.

    wanted: None when it should not exist. found: None when it does not. sourced: its segment or network exists.
    """
    if wanted is None:
        what = "nothing with pools" if sourced else "no segment or network"
        return PROVIDER_STRAY.drift(uuid, f"{what} stands behind it", name=found.name) if found else None
    if found is None:
        return PROVIDER_WRONG.drift(uuid, "is missing", name=wanted.name)
    differences = []
    if found.name != wanted.name:
        differences.append(f"its name is {found.name}")
    if dict(found.inventories or {}) != dict(wanted.inventories or {}):
        differences.append(f"has {_show_totals(found)}, should have {_show_totals(wanted)}")
    if (wanted.traits or frozenset()) - (found.traits or frozenset()):
        differences.append(f"traits {_list(found.traits or ())}, should be {_list(wanted.traits or ())}")
    if found.placement_aggregates != wanted.placement_aggregates:
        is_in, should = found.placement_aggregates or (), wanted.placement_aggregates or ()
        differences.append(f"in placement aggregates {_list(is_in)}, should be in {_list(should)}")
    return PROVIDER_WRONG.drift(uuid, "; ".join(differences), name=wanted.name) if differences else None


def wanted_members(hosts: Mapping[str, frozenset[str]], sources: Sequence[ProviderSource]) -> dict[str, set[str]]:
    """Return host aggregate -> the hosts that should be in it. hosts: as segments.aggregates_by_host returns them."""
    members: dict[str, set[str]] = {segments.host_aggregate(source).uuid: set() for source in sources}
    for host, aggregates in hosts.items():
        for uuid in aggregates:
            members[uuid].add(host)
    return members


def judge_aggregate(uuid: str, name: str, wanted: set[str], found: Iterable[str] | None) -> Drift | None:
    """Return the drift of a host aggregate that has wrong members. found: None when the aggregate does not exist."""
    if found is None:
        return AGGREGATE_WRONG.drift(uuid, "is missing", name=name)
    changes = (("lacks", wanted - set(found)), ("has besides", set(found) - wanted))
    differences = [f"{word} {_list(names)}" for word, names in changes if names]
    return AGGREGATE_WRONG.drift(uuid, "; ".join(differences), name=name) if differences else None


def _show_totals(state: ProviderState) -> str:
    totals = (state.inventories or {}).items()
    return ", ".join(f"{item.total} {name}" + _show_odd(item) for name, item in sorted(totals)) or "no inventory"


def _show_odd(item: Inventory) -> str:
    """Return the fields of an inventory that Roost would have made otherwise, in words; empty when there are none."""
    usual = asdict(Inventory(total=item.total, max_unit=item.total))
    odd = [f"{name} {value}" for name, value in asdict(item).items() if value != usual[name]]
    return f" ({', '.join(odd)})" if odd else ""


def _list(names: Iterable[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - NAMES_SHOWN} more" if len(shown) > NAMES_SHOWN else ""
    return (", ".join(shown[:NAMES_SHOWN]) or "none") + more
