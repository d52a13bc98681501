"""Addresses of ports: claimed, given and taken back, in sets.

An address is planned (rules/requests.py), claimed in the ledger, and given. An intent is written with the plan: it says
that a claim is on its way. The transaction that gives the addresses closes the intent. If the process dies in between,
the intent expires, and the reconciler gives the claim back. Addresses are taken back before their claims: see releases.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from types import TracebackType

import structlog
from msgspec import Struct

from roost.network.errors import (
    IpAddressAlreadyAllocated,
    IpAddressGenerationFailure,
    NetworkNotFound,
    PortChanged,
)
from roost.network.model.networks import Host, SubnetKind
from roost.network.model.ports import Given, Port
from roost.network.rules import addressing, capacity, requests, uses
from roost.network.rules.addressing import Demand
from roost.network.rules.requests import NetworkState, Placing
from roost.network.service import Networks, exhaustions, releases
from roost.network.store import addresses as store
from roost.network.store import claims
from roost.network.store import networks as network_rows
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
    Rule,
    add_allocations,
)

AddressesLeft = MutableMapping[tuple[str, ...], int]
"""(provider UUID, resource class) -> addresses left; of subnets that are no capacity: their ids -> addresses left."""

log = structlog.get_logger()


class Want(Struct, frozen=True, kw_only=True):
    """What a port is to get.

    placings: alternatives, of which it gets one. claim_held: the claim of the addresses that it has, which stays until
    it is trimmed. ticket: of the open intent of an existing port; None for a port that is still to be made.
    """

    port_id: str
    project_id: str
    placings: tuple[Placing, ...]
    claim_held: Allocations = {}
    ticket: int | None = None


class Intents:
    """Open intents of existing ports. A block that fails or is cancelled leaves no intent and no claim.

    Without the database the intents expire. A commit whose answer is lost opens an intent too, so a ticket is kept as
    soon as its row is written.
    """

    def __init__(self, networks: Networks) -> None:
        self.tickets: dict[str, int] = {}
        self._networks = networks

    async def open(self, tx: Connection, port_id: str) -> None:
        """Say that a claim for the port is about to be made (R6). Raises PortChanged when somebody else makes one."""
        ticket = await claims.insert_intent(tx, port_id, self._networks.settings.intent_s)
        if ticket is None:
            raise PortChanged(f"Port {port_id} is just being given an address: repeat the request.")
        self.tickets[port_id] = ticket

    async def close(self, tx: Connection, port_id: str) -> None:
        """Say that this transaction gives what was claimed. Raises PortChanged when the intent is gone."""
        if not await claims.delete_intent(tx, port_id, self.tickets[port_id]):
            raise too_late(port_id)

    async def __aenter__(self) -> "Intents":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            return
        try:
            for port_id, ticket in self.tickets.items():
                await releases.abandon(self._networks, port_id, ticket)
        except RoostError as failure:
            ports = list(self.tickets)
            log.warning("releasing ports' claims failed; the reconciler retries", ports=ports, reason=str(failure))


def too_late(port_id: str) -> PortChanged:
    """Return the error of a port whose intent is gone: the reconciler may have given its claim back."""
    return PortChanged(f"Port {port_id}: giving it an address took too long: repeat the request.")


async def read_network(tx: Connection, network_id: str, host_name: str) -> tuple[NetworkState, Host | None]:
    """Return what planning addresses needs. The network cannot be deleted before the transaction ends.

    host_name: "" without a host. Raises NetworkNotFound.
    """
    networks_kept = await network_rows.keep_networks(tx, [network_id])
    if not networks_kept:
        raise NetworkNotFound(f"Network {network_id} could not be found.")
    subnets = tuple(await subnet_rows.list_subnets(tx, network_ids=[network_id]))
    providers = await subnet_rows.list_providers(tx, sorted({subnet.provider_uuid for subnet in subnets}))
    hosts = await network_rows.list_hosts(tx, [host_name]) if host_name else []
    state = NetworkState(
        network=networks_kept[0],
        subnets=subnets,
        physical_networks={uuid: provider.physical_network for uuid, provider in providers.items()},
        names={uuid: provider.name for uuid, provider in providers.items()},
    )
    return state, hosts[0] if hosts else None


async def refuse_taken(tx: Connection, placings: Sequence[Placing]) -> None:
    """Raise IpAddressAlreadyAllocated when a named address is taken already. Call it before the claim."""
    named = [
        (demand.subnet_ids[0], addressing.show(demand.address))
        for placing in placings
        for demand in placing.demands
        if demand.address is not None
    ]
    taken = await store.list_taken(tx, named) if named else []
    if taken:
        raise IpAddressAlreadyAllocated(f"IP address {', '.join(taken)} already allocated: choose another.")


async def claim_one(networks: Networks, want: Want) -> Placing:
    """Claim for one port; return the placing that is claimed. Raises the error that `claim` returns."""
    (answer,) = (await claim(networks, [want])).values()
    if isinstance(answer, RoostError):
        raise answer
    return answer


async def claim(networks: Networks, wants: Sequence[Want]) -> dict[str, Placing | RoostError]:
    """Claim one of its placings for each port; return by port id the placing, or the error.

    The best placings are tried first, of equals that with most free. IpAddressGenerationFailure: there is no room.
    PortChanged: somebody else claims for the port, or its intent is gone; the caller then abandons the claim.
    """
    addresses_left = await _list_addresses_left(networks, wants)
    generations = await _read_generations(networks, [want for want in wants if want.ticket is not None])
    answers: dict[str, Placing | RoostError] = {
        want.port_id: too_late(want.port_id)
        for want in wants
        if want.ticket is not None and want.port_id not in generations
    }
    # What is full is not claimed, or a network that is full all over would cost a claim for each of its segments.
    untried = {want.port_id: _with_room(addresses_left, want.placings) for want in wants}
    crash_point("port.before-claim")
    waiting = [want for want in wants if want.port_id not in answers and untried[want.port_id]]
    while waiting:
        placings = {want.port_id: _take_best(addresses_left, untried, want.port_id) for want in waiting}
        claiming = [want for want in waiting if placings[want.port_id].claimed]
        groups = [
            ClaimGroup((_consumer_claim(want, placings[want.port_id], generations.get(want.port_id)),))
            for want in claiming
        ]
        results = await networks.placement.claim(groups) if groups else []
        refusals = {
            want.port_id: result
            for want, result in zip(claiming, results, strict=True)
            if not isinstance(result, Claimed)
        }
        for want in waiting:
            refusal = refusals.get(want.port_id)
            if refusal is None:
                answers[want.port_id] = placings[want.port_id]
            elif any(shortfall.rule is Rule.CONSUMER_GENERATION for shortfall in refusal.shortfalls):
                text = f"Port {want.port_id} is being claimed for by somebody else: repeat the request."
                answers[want.port_id] = PortChanged(text)
        waiting = [want for want in waiting if want.port_id not in answers and untried[want.port_id]]
    crash_point("port.after-claim")
    return answers | await _describe_exhausted(networks, [want for want in wants if want.port_id not in answers])


async def _read_generations(networks: Networks, wants: Sequence[Want]) -> dict[str, int | None]:
    """Return the consumers' generations of the ports whose intents are still open; None for no consumer.

    A generation counts only if it was read under the intent. A claim with a later one would replace a claim that
    somebody else has made since. The port may have that claim's address by now.
    """
    if not wants:
        return {}
    consumers = await networks.placement.get_consumers([want.port_id for want in wants])
    async with networks.database.connection() as connection:
        tickets = await claims.list_tickets(connection, [want.port_id for want in wants])  # R7
    return {
        want.port_id: consumers[want.port_id].generation if want.port_id in consumers else None
        for want in wants
        if tickets.get(want.port_id) == want.ticket
    }


def _consumer_claim(want: Want, placing: Placing, generation: int | None) -> ConsumerClaim:
    return ConsumerClaim(
        consumer_uuid=want.port_id,
        generation=generation,
        consumer_type=ConsumerType.PORT.value,
        project_id=want.project_id,
        user_id=want.project_id,
        allocations=add_allocations(want.claim_held, placing.claim),
    )


async def _list_addresses_left(networks: Networks, wants: Sequence[Want]) -> AddressesLeft:
    placings = [placing for want in wants for placing in want.placings]
    usages = await networks.placement.list_usages(sorted({placing.provider_uuid for placing in placings}))
    addresses_left: AddressesLeft = {
        (uuid, name): total - used for uuid, by_class in usages.items() for name, (total, used) in by_class.items()
    }
    uncounted = sum(map(_uncounted, placings), Counter[tuple[str, ...]]())
    if uncounted:
        amounts = {subnet_id: uncounted.total() for subnet_ids in uncounted for subnet_id in subnet_ids}
        async with networks.database.transaction() as tx:
            free = await store.list_free(tx, amounts, (), {})
        for subnet_ids in uncounted:
            addresses_left[subnet_ids] = sum(addressing.count(free.get(subnet_id, ())) for subnet_id in subnet_ids)
    return addresses_left


def _counted(placing: Placing) -> Counter[tuple[str, ...]]:
    """Return what a placing takes of its provider, by (provider UUID, resource class)."""
    return Counter({(placing.provider_uuid, name): amount for name, amount in placing.claimed.items()})


def _uncounted(placing: Placing) -> Counter[tuple[str, ...]]:
    """Return what a placing takes of subnets that are no capacity, by their ids: no claim says if they have room."""
    return Counter(d.subnet_ids for d in placing.demands if d.in_pool and not d.claimed and d.address is None)


def _room(addresses_left: AddressesLeft, needs: Mapping[tuple[str, ...], int]) -> int:
    """Return how many ports with such needs there is still room for; 1 if they need nothing."""
    return min((addresses_left.get(key, 0) // amount for key, amount in needs.items()), default=1)


def _with_room(addresses_left: AddressesLeft, placings: Sequence[Placing]) -> list[Placing]:
    """Return the placings that have room.

    When no placing has room in subnets that are no capacity, none is left out for it: trying one says which is full.
    """
    roomy = [placing for placing in placings if _room(addresses_left, _uncounted(placing)) > 0] or placings
    return [placing for placing in roomy if _room(addresses_left, _counted(placing)) > 0]


def _take_best(addresses_left: AddressesLeft, untried: Mapping[str, list[Placing]], port_id: str) -> Placing:
    def worth(placing: Placing) -> tuple[bool, int, int, int]:
        roomy = _room(addresses_left, _uncounted(placing)) > 0
        return roomy, -placing.rank, len(placing.demands), _room(addresses_left, _counted(placing))

    best = max(untried[port_id], key=worth)
    untried[port_id].remove(best)
    for key, amount in (_counted(best) + _uncounted(best)).items():
        addresses_left[key] = addresses_left.get(key, 0) - amount
    return best


async def _describe_exhausted(networks: Networks, wants: Sequence[Want]) -> dict[str, Placing | RoostError]:
    texts: dict[tuple[str, ...], str] = {}
    answers: dict[str, Placing | RoostError] = {}
    for want in wants:
        providers = tuple(dict.fromkeys(placing.provider_uuid for placing in want.placings))
        if providers not in texts:
            texts[providers] = await exhaustions.describe_claims(networks, providers)
        answers[want.port_id] = IpAddressGenerationFailure(texts[providers])
    return answers


async def give(
    networks: Networks, tx: Connection, placings: Mapping[str, Placing], locked: Mapping[str, Sequence[SubnetKind]]
) -> dict[str, RoostError]:
    """Give ports the addresses that they have claims for; return by port id the error of each that gets none.

    locked: by provider UUID, the subnets of the placings' providers. One statement locks them all: a second
    one could lock a new subnet out of order. Raises IpAddressAlreadyAllocated.
    """
    errors: dict[str, RoostError] = {}
    demands: list[Demand] = []
    for port_id, placing in placings.items():
        try:
            demands_now = requests.demands_today(placing, locked.get(placing.provider_uuid, ()))
            await _refuse_other_pools(tx, placing)
            demands += demands_now
        except PortChanged as error:
            errors[port_id] = error
    handed_out = await hand_out(networks, tx, demands)
    for demand, item in zip(demands, handed_out, strict=True):
        if item is None and demand.port_id not in errors:
            errors[demand.port_id] = await _missing(tx, placings[demand.port_id].provider_uuid, demand)
    return errors


async def give_one(
    networks: Networks, tx: Connection, port: Port, placing: Placing, locked: Mapping[str, Sequence[SubnetKind]]
) -> None:
    """Give a locked port the addresses that it has a claim for, and those that follow from its MAC there.

    Raises the error that `give` returns.
    """
    for error in (await give(networks, tx, {port.id: placing}, locked)).values():
        raise error
    await give_automatic(tx, [port], locked.get(placing.provider_uuid, ()))


async def give_automatic(tx: Connection, ports: Iterable[Port], subnets: Sequence[SubnetKind]) -> list[Given]:
    """Give ports the addresses that follow from their MACs in these locked subnets, and return these addresses.

    A port keeps an address that it has in a subnet already.
    """
    addresses_given = [item for port in ports for item in uses.automatic(port, subnets)]
    if addresses_given:
        await store.insert(tx, addresses_given, [None] * len(addresses_given))
    return addresses_given


async def hand_out(
    networks: Networks, tx: Connection, demands: Sequence[Demand], server_by_port: Mapping[str, str | None] = {}
) -> list[Given | None]:
    """Give each demand an address; return the addresses in order. The caller has locked the subnets.

    None: one of the port's demands has no address left, and the port gets nothing. server_by_port: whose build assigns
    the addresses, until it settles. Raises IpAddressAlreadyAllocated for a taken address outside the pools.
    """
    if not demands:
        return []
    amounts: dict[str, int] = {}
    for demand in demands:
        if demand.in_pool:
            for subnet_id in demand.subnet_ids:
                amounts[subnet_id] = amounts.get(subnet_id, 0) + 1
    named = [(d.subnet_ids[0], d.address) for d in demands if d.address is not None and d.in_pool]
    starts: dict[str, int] = {}
    if networks.settings.assignment == "spread" and len(named) < len(demands):
        pools = await subnet_rows.list_pools(tx, sorted(amounts))
        chosen = {subnet_id: addressing.choose_start(item, networks.env.random) for subnet_id, item in pools.items()}
        starts = {subnet_id: start for subnet_id, start in chosen.items() if start is not None}
    free = await store.list_free(tx, amounts, named, starts)
    answers, change = addressing.hand_out(demands, free, starts)
    written = [item for item in answers if item is not None]
    if not await store.insert(tx, written, [server_by_port.get(item.port_id) for item in written]):
        raise IpAddressAlreadyAllocated("IP address already allocated: choose another.")
    await store.change_free(tx, change)
    return answers


async def _missing(tx: Connection, provider_uuid: str, demand: Demand) -> RoostError:
    """Return the error of a demand that was claimed and has no address."""
    if demand.address is not None:
        return IpAddressAlreadyAllocated(
            f"IP address {addressing.show(demand.address)} already allocated: choose another."
        )
    return IpAddressGenerationFailure(await exhaustions.describe_subnets(tx, provider_uuid, demand.subnet_ids))


async def _refuse_other_pools(tx: Connection, placing: Placing) -> None:
    """Raise PortChanged where a named address has entered or left the pools since it was planned."""
    planned = {(d.subnet_ids[0], d.address): d.in_pool for d in placing.demands if d.address is not None}
    if not planned:
        return
    pooled = await store.list_pooled(tx, list(planned))
    for (subnet_id, address), in_pool in planned.items():
        if in_pool != ((subnet_id, address) in pooled):
            raise PortChanged(
                f"The pools of subnet {subnet_id} changed around {addressing.show(address)}: repeat the request."
            )


async def take_back(tx: Connection, dropped: Sequence[tuple[str, str]]) -> None:
    """Take addresses from their ports, which are locked; those in pools become free. dropped: (subnet id, address).

    An address that an unknown guest has becomes its hidden port's. Providers become due for publication whose addresses
    were claimed outside the pools, or held inside them unclaimed; `releases` gives no claim back before.
    """
    locked = await store.lock_subnets(tx, {subnet_id for subnet_id, _ in dropped})
    freed: dict[str, list[int]] = {}
    providers: set[str] = set()
    for item in await store.give_up(tx, dropped):
        subnet = locked[item.subnet_id]
        if item.address is None or item.claimed != (item.in_pool and capacity.claimed_by_ports(subnet)):
            providers.add(subnet.provider_uuid)
        if item.address is not None and item.in_pool:
            freed.setdefault(item.subnet_id, []).append(item.address)
    if providers:
        await publication_rows.want(tx, sorted(providers))
    neighbours = await store.list_neighbours(tx, freed)
    await store.change_free(tx, addressing.take_back(freed, neighbours))
