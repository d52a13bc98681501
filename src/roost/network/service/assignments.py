"""Claiming an address for a client's port and assigning it, in that order, with an intent row around both.

If this process dies in between, the intent expires and the reconciler gives the claim back.
"""

from collections.abc import Sequence

from roost.network.errors import (
    IpAddressAlreadyAllocated,
    IpAddressGenerationFailure,
    NetworkNotFound,
    PortChanged,
)
from roost.network.model.networks import Host, SubnetKind
from roost.network.model.ports import FixedIpRequest, FreeChange, Given
from roost.network.rules import addressing, capacity, requests, uses
from roost.network.rules.addressing import Demand
from roost.network.rules.requests import NetworkState, Placing
from roost.network.service import Networks, exhaustions, releases
from roost.network.store import addresses, claims, ports
from roost.network.store import networks as store
from roost.network.store import publications as publication_rows
from roost.network.store import subnets as subnet_rows
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.platform.errors import RoostError
from roost.seams.placement import (
    Allocations,
    Claimed,
    ClaimGroup,
    ConsumerClaim,
    ConsumerType,
    Refused,
    Rule,
    add_allocations,
)


async def open_intent(networks: Networks, tx: Connection, port_id: str) -> int:
    """Say that the port's claim is about to be made; returns the ticket that closes the intent.

    Raises PortChanged when somebody else is at it.
    """
    # R6: written before the claim.
    ticket = await claims.insert_intent(tx, port_id, networks.settings.intent_s)
    if ticket is None:
        raise PortChanged(f"Port {port_id} is just being given an address: repeat the request.")
    return ticket


async def refuse_taken(tx: Connection, placings: Sequence[Placing]) -> None:
    """Raise IpAddressAlreadyAllocated when a named address is held: better said before the claim than after."""
    named = [
        (demand.subnet_ids[0], addressing.show(demand.address))
        for placing in placings
        for demand in placing.demands
        if demand.address is not None
    ]
    taken = await addresses.list_taken(tx, named) if named else []
    if taken:
        raise IpAddressAlreadyAllocated(f"IP address {', '.join(taken)} already allocated: choose another.")


async def claim_any(
    networks: Networks,
    port_id: str,
    project_id: str,
    placings: Sequence[Placing],
    *,
    ticket: int,
    held: Allocations | None = None,
) -> Placing:
    """Claim for the first placing that has room, the best with most free first.

    ticket: of the port's intent. held: what the port's addresses hold already and go on to hold until it is trimmed.
    Raises IpAddressGenerationFailure, and PortChanged where somebody else claims, or may have since the intent is gone;
    the caller then abandons the claim.
    """
    usages = await networks.placement.list_usages([placing.provider_uuid for placing in placings])

    def worth(placing: Placing) -> tuple[int, int, int]:
        of_provider = usages.get(placing.provider_uuid, {})
        left = [capacity - used for capacity, used in (of_provider.get(name, (0, 0)) for name in placing.claimed)]
        return -placing.rank, len(placing.demands), min(left, default=0)

    consumers = await networks.placement.get_consumers([port_id])
    generation = consumers[port_id].generation if port_id in consumers else None
    # A generation counts only if it was read under the intent: with a later one, the claim would be instead of the one
    # that somebody else has made since, perhaps for an address that the port has by now.
    async with networks.database.connection() as connection:
        if not await claims.has_intent(connection, port_id, ticket):  # R7
            raise too_late(port_id)
    crash_point("port.before-claim")
    for placing in await _with_room(networks, sorted(placings, key=worth, reverse=True)):
        claim = add_allocations(held or {}, placing.claim)
        if not placing.claimed or await _claim(networks, port_id, project_id, claim, generation):
            crash_point("port.after-claim")
            return placing
    providers = list(dict.fromkeys(placing.provider_uuid for placing in placings))
    raise IpAddressGenerationFailure(await exhaustions.describe_claims(networks, providers))


async def assign(networks: Networks, tx: Connection, port_id: str, ticket: int, placing: Placing) -> None:
    """Assign the port the addresses that are claimed, and those that follow from its MAC, and close its intent.

    Raises PortChanged when the intent is gone, IpAddressAlreadyAllocated, IpAddressGenerationFailure; the caller then
    abandons the claim.
    """
    await close_intent(tx, port_id, ticket)
    locked = await addresses.lock_provider_subnets(tx, [placing.provider_uuid])
    await assign_claimed(networks, tx, port_id, placing, locked.get(placing.provider_uuid, ()))


async def close_intent(tx: Connection, port_id: str, ticket: int) -> None:
    """What was claimed for the port is assigned by this transaction. Raises PortChanged when the intent is gone."""
    if not await claims.delete_intent(tx, port_id, ticket):
        raise too_late(port_id)


def too_late(port_id: str) -> PortChanged:
    """The intent is gone, and the reconciler may have given back what was claimed."""
    return PortChanged(f"Port {port_id}: giving it an address took too long: repeat the request.")


def new_claim(port_id: str, project_id: str, placing: Placing) -> ConsumerClaim:
    """The claim of a port that has none yet."""
    return _consumer_claim(port_id, project_id, placing.claim, None)


async def assign_claimed(
    networks: Networks, tx: Connection, port_id: str, placing: Placing, behind: Sequence[SubnetKind]
) -> None:
    """Assign a port the addresses that it has a claim for, and those that follow from its MAC.

    behind: the subnets of the placing's provider, locked by one statement: what another finds may be new, and out of
    the order in which all lock. Raises PortChanged when the pools changed since that was planned,
    IpAddressAlreadyAllocated, IpAddressGenerationFailure.
    """
    demands = requests.demands_today(placing, behind)
    await refuse_other_pools(tx, placing)
    given, change = await hand_out(networks, tx, demands)
    for demand, item in zip(placing.demands, given, strict=True):
        if item is None:
            raise await missing(tx, placing.provider_uuid, demand)
    written = [item for item in given if item is not None]
    if not await addresses.insert(tx, written, [None] * len(written)):
        raise IpAddressAlreadyAllocated("IP address already allocated: choose another.")
    await addresses.change_free(tx, change)
    if any(uses.is_automatic(subnet) for subnet in behind):
        (port,) = (await ports.lock_ports(tx, [port_id])).values()
        await add_automatic(tx, uses.automatic(port, behind), None)


async def missing(tx: Connection, provider_uuid: str, demand: Demand) -> RoostError:
    """Why there is no address for what is demanded, though it was claimed."""
    if demand.address is not None:
        return IpAddressAlreadyAllocated(
            f"IP address {addressing.show(demand.address)} already allocated: choose another."
        )
    return IpAddressGenerationFailure(await exhaustions.describe_subnets(tx, provider_uuid, demand.subnet_ids))


async def add_automatic(tx: Connection, given: Sequence[Given], assigned_for: str | None) -> None:
    """Addresses that follow from MACs: where a port has one already, it keeps it. The subnets are locked."""
    if given:
        await addresses.insert(tx, given, [assigned_for] * len(given))


async def refuse_other_pools(tx: Connection, placing: Placing) -> None:
    """Raise PortChanged where a named address is in a pool and was not when it was planned, or the other way round."""
    planned = {(d.subnet_ids[0], d.address): d.in_pool for d in placing.demands if d.address is not None}
    if not planned:
        return
    pooled = await addresses.list_pooled(tx, list(planned))
    for (subnet_id, address), in_pool in planned.items():
        if in_pool != ((subnet_id, address) in pooled):
            raise PortChanged(
                f"The pools of subnet {subnet_id} changed around {addressing.show(address)}: repeat the request."
            )


async def assign_address(networks: Networks, port_id: str, address: str) -> None:
    """Claim and assign a named address for a port that has none; raises what plan_addresses, claim_any, assign do.

    Raises PortChanged when the port is gone or somebody else is at it.
    """
    async with releases.abandoning(networks, port_id) as tickets:
        async with networks.database.transaction() as tx:
            found = await ports.lock_ports(tx, [port_id])
            if port_id not in found:
                raise PortChanged(f"Port {port_id} was deleted meanwhile.")
            port = found[port_id]
            state, _ = await read_network(tx, port.network_id, "")
            plan = requests.plan_addresses(
                port_id,
                state,
                device_owner=port.device_owner,
                host=None,
                host_name="",
                fixed_ips=(FixedIpRequest(ip_address=address),),
            )
            await refuse_taken(tx, plan.placings)
            tickets.append(await open_intent(networks, tx, port_id))
        placing = await claim_any(networks, port_id, port.project_id, plan.placings, ticket=tickets[0])
        async with networks.database.transaction() as tx:
            now = (await ports.lock_ports(tx, [port_id])).get(port_id)
            if now is None or now.revision != port.revision:
                raise PortChanged(f"Port {port_id} changed while it was given an address: repeat the request.")
            await assign(networks, tx, port_id, tickets[0], placing)
    crash_point("port.after-assign")


async def read_network(tx: Connection, network_id: str, host_name: str) -> tuple[NetworkState, Host | None]:
    """What planning addresses needs; the network cannot be deleted before the transaction ends.

    host_name: "" without a host. Raises NetworkNotFound.
    """
    found = await store.keep_networks(tx, [network_id])
    if not found:
        raise NetworkNotFound(f"Network {network_id} could not be found.")
    subnets = tuple(await subnet_rows.list_subnets(tx, network_ids=[network_id]))
    providers = await subnet_rows.list_providers(tx, sorted({subnet.provider_uuid for subnet in subnets}))
    hosts = await store.list_hosts(tx, [host_name]) if host_name else []
    state = NetworkState(
        network=found[0],
        subnets=subnets,
        physical_networks={uuid: provider.physical_network for uuid, provider in providers.items()},
        names={uuid: provider.name for uuid, provider in providers.items()},
    )
    return state, hosts[0] if hosts else None


async def unassign(tx: Connection, dropped: Sequence[tuple[str, str]]) -> None:
    """Take these (subnet id, address) from their ports, which are locked; those in pools are free.

    What an unknown guest has is its hidden port's from then on. The ledger is to be told of what was claimed outside
    the pools, or held inside them unclaimed; `releases` gives no claim back before.
    """
    locked = await addresses.lock_subnets(tx, {subnet_id for subnet_id, _ in dropped})
    freed: dict[str, list[int]] = {}
    providers: set[str] = set()
    for item in await addresses.give_up(tx, dropped):
        subnet = locked[item.subnet_id]
        if item.address is None or item.claimed != (item.in_pool and capacity.claimed_by_ports(subnet)):
            providers.add(subnet.provider_uuid)
        if item.address is not None and item.in_pool:
            freed.setdefault(item.subnet_id, []).append(item.address)
    if providers:
        await publication_rows.want(tx, sorted(providers))
    neighbours = await addresses.list_neighbours(tx, freed)
    await addresses.change_free(tx, addressing.take_back(freed, neighbours))


async def hand_out(
    networks: Networks, tx: Connection, demands: Sequence[Demand]
) -> tuple[list[Given | None], FreeChange]:
    """Decide who gets which address; the subnets are locked, and nothing is written yet."""
    if not demands:
        return [], FreeChange((), ())
    wanted: dict[str, int] = {}
    for demand in demands:
        if demand.in_pool:
            for subnet_id in demand.subnet_ids:
                wanted[subnet_id] = wanted.get(subnet_id, 0) + 1
    named = [(d.subnet_ids[0], d.address) for d in demands if d.address is not None and d.in_pool]
    starts: dict[str, int] = {}
    if networks.settings.assignment == "spread" and len(named) < len(demands):
        pools = await subnet_rows.list_pools(tx, sorted(wanted))
        chosen = {subnet_id: addressing.choose_start(of, networks.env.random) for subnet_id, of in pools.items()}
        starts = {subnet_id: start for subnet_id, start in chosen.items() if start is not None}
    free = await addresses.list_free(tx, wanted, named, starts)
    return addressing.hand_out(demands, free, starts)


async def _with_room(networks: Networks, placings: Sequence[Placing]) -> list[Placing]:
    """The placings without those that need an address of a full subnet that is no capacity: no claim would say so.

    When all are such, they all stay: trying one says which subnet is full.
    """
    uncounted = [
        demand
        for placing in placings
        for demand in placing.demands
        if demand.in_pool and not demand.claimed and demand.address is None
    ]
    if not uncounted:
        return list(placings)
    async with networks.database.transaction() as tx:
        roomy = await addresses.list_with_room(tx, sorted({s for demand in uncounted for s in demand.subnet_ids}))
    full = {demand for demand in uncounted if not roomy.intersection(demand.subnet_ids)}
    return [placing for placing in placings if not full.intersection(placing.demands)] or list(placings)


async def _claim(networks: Networks, port_id: str, project_id: str, claim: Allocations, generation: int | None) -> bool:
    """Whether the port has this claim now, instead of any that was left over. Raises PortChanged."""
    consumer = _consumer_claim(port_id, project_id, claim, generation)
    (answer,) = await networks.placement.claim([ClaimGroup((consumer,))])
    if isinstance(answer, Refused) and any(s.rule is Rule.CONSUMER_GENERATION for s in answer.shortfalls):
        raise PortChanged(f"Port {port_id} is being claimed for by somebody else: repeat the request.")
    return isinstance(answer, Claimed)


def _consumer_claim(port_id: str, project_id: str, claim: Allocations, generation: int | None) -> ConsumerClaim:
    return ConsumerClaim(
        consumer_uuid=port_id,
        generation=generation,
        consumer_type=ConsumerType.PORT.value,
        project_id=project_id,
        user_id=project_id,
        allocations=claim,
    )
