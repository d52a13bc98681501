"""Ports made for clients: claimed, then written with their addresses.

Requests that name neither an address nor a MAC, and that come while others are at work, are made together: planned,
claimed and assigned in sets. One that is refused undoes no other. Those of one request are a set of which all are made
or none: one transaction writes them, and until then intents say that what is claimed for them is on its way.
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
import structlog

from roost.network.errors import (
    IpAddressAlreadyAllocated,
    IpAddressGenerationFailure,
    MacAddressInUse,
    NetworkNotFound,
    OverQuota,
    PortChanged,
)
from roost.network.model.networks import Host, SubnetKind
from roost.network.model.ports import VIF_TYPE_BOUND, VIF_TYPE_UNBOUND, Address, FreeChange, Given, Port, PortRequest
from roost.network.rules import addressing, flat, quotas, requests, uses
from roost.network.rules.requests import NetworkState, Placing
from roost.network.service import Networks, assignments, exhaustions, notices, releases
from roost.network.service import quotas as quota_service
from roost.network.service.macs import canonical_mac, new_mac
from roost.network.service.notifications import telling
from roost.network.store import addresses, claims
from roost.network.store import networks as store
from roost.network.store import ports as port_rows
from roost.platform.batches import Batches
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.platform.errors import RoostError
from roost.seams.placement import Claimed, ClaimGroup

MAC_ROUNDS_MAX = 8
TOGETHER_MAX = 250
"""Ports made in one set."""

Left = MutableMapping[tuple[str, ...], int]
"""How many addresses are left: of a class, by (provider UUID, class); of subnets that are no capacity, by their ids."""

log = structlog.get_logger()


@dataclass
class _Making:
    """One port of a set on its way. placings: those not tried yet; placing: the one that is claimed."""

    port_id: str
    request: PortRequest
    ip_allocation: str = ""
    placings: tuple[Placing, ...] = ()
    placing: Placing | None = None
    error: RoostError | None = None


async def create(networks: Networks, request: PortRequest) -> Port:
    """See ports.create_port. At once if nothing is under way, else with all that wait."""
    if request.fixed_ips is not None or request.mac_address:
        return (await create_all(networks, [request]))[0]
    if networks.creations is None:
        networks.creations = Batches(lambda wanted: create_each(networks, wanted), most=TOGETHER_MAX)
    made = await networks.creations.do(request)
    if isinstance(made, RoostError):
        raise made
    return made


async def create_each(networks: Networks, wanted: Sequence[PortRequest]) -> list[Port | RoostError]:
    """Make each of the ports, or say why not; in order. None of them names an address or a MAC.

    What fails as a whole, or is cancelled, leaves nothing: the set may be made again one by one.
    """
    makings = [_Making(networks.env.new_uuid(), request) for request in wanted]
    async with _taking_back(networks, makings):
        made = await _plan(networks, makings)
        claiming = [making for making in makings if making.placings and making.error is None]
        if claiming:
            await _claim(networks, claiming)
            crash_point("port.after-claim")
            made |= await _write(networks, [making for making in claiming if making.placing is not None])
            crash_point("port.after-assign")
            for making in claiming:
                if making.placing is not None and making.error is not None:
                    await releases.abandon(networks, making.port_id)
        await notices.tell_now(networks, notices.servers_of(made.values()))
    return [making.error or made[making.port_id] for making in makings]


async def create_all(networks: Networks, wanted: Sequence[PortRequest]) -> list[Port]:
    """Make all of the ports, in order, or nothing at all: also when cancelled, and when this process is killed.

    Raises what ports.create_port raises, of the first that is refused.
    """
    makings = [_Making(networks.env.new_uuid(), _canonical(request)) for request in wanted]
    async with _taking_back(networks, makings):
        made = await _plan(networks, makings, whole=True)
        refused = _find_error(makings)
        claiming = [making for making in makings if making.placings]
        if claiming and refused is None:
            await _claim(networks, claiming)
            crash_point("port.after-claim")
            _refuse(makings)
            made = await _write(networks, makings, whole=True)
            crash_point("port.after-assign")
        await notices.tell_now(networks, notices.servers_of(made.values()))
    if refused is not None:
        raise refused
    return [made[making.port_id] for making in makings]


async def remove(networks: Networks, tx: Connection, found: Sequence[Port]) -> list[str]:
    """These locked ports go with their addresses, and their claims are given back. Returns the servers to be told."""
    ids = [port.id for port in found]
    async with telling(networks, tx, ids):
        await assignments.unassign(tx, [(item.subnet_id, item.address) for port in found for item in port.addresses])
        await port_rows.delete(tx, ids)
    await claims.insert_releases(tx, ids)
    return [server for port in found for server in await notices.note(tx, port, None)]


@asynccontextmanager
async def _taking_back(networks: Networks, makings: Sequence[_Making]) -> AsyncIterator[None]:
    """Leave nothing of the ports if the block fails or is cancelled."""
    try:
        yield
    except BaseException:
        await _take_back(networks, [making.port_id for making in makings])
        raise


async def _take_back(networks: Networks, port_ids: Sequence[str]) -> None:
    """Nothing of these is to be left, however far they came. If the database is away, their intents expire."""
    try:
        async with networks.database.transaction() as tx:
            found = await port_rows.lock_ports(tx, sorted(port_ids))
            await claims.delete_intents(tx, port_ids)
            servers = await remove(networks, tx, list(found.values())) if found else []
            hanging = await claims.release_hanging(tx, port_ids)
        await notices.tell_now(networks, servers)
        await releases.work_off_now(networks, [*found, *hanging])
    except RoostError as error:
        log.warning("releasing the claims of a failed request failed; the reconciler retries", reason=str(error))


def _canonical(request: PortRequest) -> PortRequest:
    if not request.mac_address:
        return request
    return msgspec.structs.replace(request, mac_address=canonical_mac(request.mac_address))


def _find_error(makings: Sequence[_Making]) -> RoostError | None:
    return next((making.error for making in makings if making.error is not None), None)


def _refuse(makings: Sequence[_Making]) -> None:
    """Raise why the first of those cannot be that cannot."""
    error = _find_error(makings)
    if error is not None:
        raise error


async def _plan(networks: Networks, makings: Sequence[_Making], *, whole: bool = False) -> dict[str, Port]:
    """Say what each needs; make those that need no address now, and open intents for the others.

    whole: nothing is written if one is refused, and no port is made before all are.
    """
    async with networks.database.transaction() as tx:
        read: dict[tuple[str, str], tuple[NetworkState, Host | None] | RoostError] = {}
        for network_id, host_name in sorted({(m.request.network_id, m.request.host or "") for m in makings}):
            try:
                read[network_id, host_name] = await assignments.read_network(tx, network_id, host_name)
            except NetworkNotFound as error:
                read[network_id, host_name] = error
        most = networks.settings.max_fixed_ips_per_port
        for making in makings:
            try:
                requests.refuse_surplus(making.request.fixed_ips, making.request.device_owner, most=most)
                _plan_one(making, read[making.request.network_id, making.request.host or ""])
                await assignments.refuse_taken(tx, making.placings)
            except RoostError as error:
                making.error = error
        await _keep_quotas(networks, tx, makings)
        if whole and _find_error(makings) is not None:
            return {}
        going = [making for making in makings if making.error is None]
        claiming = [making.port_id for making in going if making.placings]
        await claims.insert_intents(tx, claiming, networks.settings.intent_s)
        if whole and claiming:
            return {}
        making_now = [making for making in going if not making.placings]
        async with telling(networks, tx, [making.port_id for making in making_now]):
            return await _insert_all(networks, tx, making_now)


def _plan_one(making: _Making, read: tuple[NetworkState, Host | None] | RoostError) -> None:
    if isinstance(read, RoostError):
        raise read
    state, host = read
    request = making.request
    flat.refuse_port(state.network)
    plan = requests.plan_addresses(
        making.port_id, state, device_owner=request.device_owner, host=host, host_name=request.host or "",
        fixed_ips=request.fixed_ips,
    )  # fmt: skip
    making.ip_allocation, making.placings = plan.ip_allocation, plan.placings


async def _keep_quotas(networks: Networks, tx: Connection, makings: Sequence[_Making]) -> None:
    """Refuse those that their project may not have any more."""
    usages = await quota_service.lock_limited(networks, tx, "port", sorted({m.request.project_id for m in makings}))
    for making in makings:
        usage = usages.get(making.request.project_id)
        if usage is None or making.error is not None:
            continue
        reason = quotas.refusal(usage, 1)
        if reason is None:
            usages[usage.project_id] = msgspec.structs.replace(usage, used=usage.used + 1)
        else:
            making.error = OverQuota(reason)


async def _claim(networks: Networks, makings: Sequence[_Making]) -> None:
    """Claim for each of its placings in turn, the best with most free first, until one is granted."""
    tried = {making.port_id: tuple(placing.provider_uuid for placing in making.placings) for making in makings}
    left = await _list_left(networks, makings)
    for making in makings:
        # What is full is not asked, or a network that is full all over would cost a claim for each of its segments.
        making.placings = _with_room(left, making.placings)
    crash_point("port.before-claim")
    waiting = [making for making in makings if making.placings]
    while waiting:
        asked = [(making, _take_best(left, making)) for making in waiting]
        groups = [
            ClaimGroup((assignments.new_claim(making.port_id, making.request.project_id, placing),))
            for making, placing in asked
            if placing.claimed
        ]
        answers = iter(await networks.placement.claim(groups) if groups else [])
        for making, placing in asked:
            if not placing.claimed or isinstance(next(answers), Claimed):
                making.placing = placing
        waiting = [making for making in waiting if making.placing is None and making.placings]
    await _refuse_exhausted(networks, [making for making in makings if making.placing is None], tried)


async def _list_left(networks: Networks, makings: Sequence[_Making]) -> Left:
    placings = [placing for making in makings for placing in making.placings]
    usages = await networks.placement.list_usages(sorted({placing.provider_uuid for placing in placings}))
    left: Left = {(uuid, name): total - used for uuid, of in usages.items() for name, (total, used) in of.items()}
    uncounted = sum(map(_uncounted, placings), Counter[tuple[str, ...]]())
    if uncounted:
        wanted = {subnet_id: uncounted.total() for subnet_ids in uncounted for subnet_id in subnet_ids}
        async with networks.database.transaction() as tx:
            free = await addresses.list_free(tx, wanted, (), {})
        for subnet_ids in uncounted:
            left[subnet_ids] = sum(addressing.count(free.get(subnet_id, ())) for subnet_id in subnet_ids)
    return left


def _counted(placing: Placing) -> Counter[tuple[str, ...]]:
    """What is claimed for it."""
    return Counter({(placing.provider_uuid, name): amount for name, amount in placing.claimed.items()})


def _uncounted(placing: Placing) -> Counter[tuple[str, ...]]:
    """What it takes of subnets that are no capacity: no claim says whether they have room."""
    return Counter(d.subnet_ids for d in placing.demands if d.in_pool and not d.claimed and d.address is None)


def _room(left: Left, needs: Mapping[tuple[str, ...], int]) -> int:
    """How many with such needs there is still room for; for one without any there always is."""
    return min((left.get(key, 0) // amount for key, amount in needs.items()), default=1)


def _with_room(left: Left, placings: Sequence[Placing]) -> tuple[Placing, ...]:
    """When subnets that are no capacity are full for all of them, trying one says which."""
    roomy = [placing for placing in placings if _room(left, _uncounted(placing)) > 0] or placings
    return tuple(placing for placing in roomy if _room(left, _counted(placing)) > 0)


def _take_best(left: Left, making: _Making) -> Placing:
    def worth(placing: Placing) -> tuple[bool, int, int, int]:
        roomy = _room(left, _uncounted(placing)) > 0
        return roomy, -placing.rank, len(placing.demands), _room(left, _counted(placing))

    best = max(making.placings, key=worth)
    making.placings = tuple(placing for placing in making.placings if placing is not best)
    for key, amount in (_counted(best) + _uncounted(best)).items():
        left[key] = left.get(key, 0) - amount
    return best


async def _refuse_exhausted(
    networks: Networks, makings: Sequence[_Making], tried: Mapping[str, tuple[str, ...]]
) -> None:
    if not makings:
        return
    async with networks.database.transaction() as tx:
        await claims.delete_intents(tx, [making.port_id for making in makings])
    told: dict[tuple[str, ...], str] = {}
    for making in makings:
        providers = tried[making.port_id]
        if providers not in told:
            told[providers] = await exhaustions.describe_claims(networks, providers)
        making.error = IpAddressGenerationFailure(told[providers])


async def _write(networks: Networks, makings: Sequence[_Making], *, whole: bool = False) -> dict[str, Port]:
    """Write the ports with the addresses that are claimed for them; returns those that were written, by id.

    whole: raise why the first cannot be that cannot, instead of writing the others.
    """
    async with networks.database.transaction() as tx:
        kept = await store.keep(tx, sorted({m.request.network_id for m in makings}))
        for making in makings:
            if making.request.network_id not in kept:
                making.error = NetworkNotFound(f"Network {making.request.network_id} could not be found.")
        await _keep_quotas(networks, tx, makings)
        claimed = [making for making in makings if making.placing is not None]
        intents = await claims.delete_intents(tx, [making.port_id for making in claimed])
        for making in claimed:
            if making.error is None and making.port_id not in intents:
                making.error = assignments.too_late(making.port_id)
        providers = sorted({m.placing.provider_uuid for m in claimed if m.placing})
        behind = await addresses.lock_provider_subnets(tx, providers)
        await _look_again(tx, claimed, behind)
        given, change = await _hand_out(networks, tx, claimed)
        if whole:
            _refuse(makings)
        async with telling(networks, tx, [making.port_id for making in makings]):
            made = await _insert_all(networks, tx, [making for making in makings if making.error is None])
            written = [item for item in given if item.port_id in made]
            if not await addresses.insert(tx, written, [None] * len(written)):
                assert whole, "a free range held an address that a port has"
                raise IpAddressAlreadyAllocated("IP address already allocated: choose another.")
            await addresses.change_free(tx, change)
            automatic = [item for m in claimed if m.port_id in made for item in _automatic(m, made[m.port_id], behind)]
            await assignments.add_automatic(tx, automatic, None)
        held: dict[str, tuple[Address, ...]] = dict.fromkeys(made, ())
        for address in await addresses.list_of_ports(tx, list(made)):
            held[address.port_id] = (*held[address.port_id], address)
        return {port.id: msgspec.structs.replace(port, addresses=held[port.id]) for port in made.values()}


async def _look_again(tx: Connection, makings: Sequence[_Making], behind: Mapping[str, Sequence[SubnetKind]]) -> None:
    """Refuse those whose subnets changed hands, or count otherwise, since they were planned; the subnets are locked."""
    for making in makings:
        if making.error is None and making.placing is not None:
            placing = making.placing
            try:
                demands = requests.demands_today(placing, behind.get(placing.provider_uuid, ()))
                await assignments.refuse_other_pools(tx, placing)
                making.placing = msgspec.structs.replace(placing, demands=demands)
            except PortChanged as error:
                making.error = error


async def _hand_out(networks: Networks, tx: Connection, makings: Sequence[_Making]) -> tuple[list[Given], FreeChange]:
    """Decide on addresses for all that can go on; who gets none, though one was claimed, is refused."""
    while True:
        going = [making for making in makings if making.error is None]
        demands = [demand for making in going if making.placing for demand in making.placing.demands]
        given, change = await assignments.hand_out(networks, tx, demands)
        without = {d.port_id: d for d, item in zip(demands, given, strict=True) if item is None}
        if not without:
            return [item for item in given if item is not None], change
        for making in going:
            if making.port_id in without and making.placing:
                demand = without[making.port_id]
                making.error = await assignments.missing(tx, making.placing.provider_uuid, demand)


def _automatic(making: _Making, port: Port, behind: Mapping[str, Sequence[SubnetKind]]) -> list[Given]:
    assert making.placing is not None, "it was claimed"
    return uses.automatic(port, behind.get(making.placing.provider_uuid, ()))


async def _insert_all(networks: Networks, tx: Connection, makings: Sequence[_Making]) -> dict[str, Port]:
    """Write ports, each with its own MAC address or a new one; in the order of those that are named, for all.

    One that names a server of this cloud as its device is a NIC of it from now on.
    """
    made: dict[str, Port] = {}
    drafts = [_draft(networks, m.port_id, m.request, m.ip_allocation) for m in makings]
    left = sorted(drafts, key=lambda port: port.mac_address)
    for _ in range(MAC_ROUNDS_MAX):
        if not left:
            await notices.note_servers(tx, list(made.values()))
            return made
        with_macs = [
            port if port.mac_address else msgspec.structs.replace(port, mac_address=new_mac(networks.env.random))
            for port in left
        ]
        written = await port_rows.insert_all(tx, with_macs)
        made |= {port.id: port for port in with_macs if port.id in written}
        left = [port for port in left if port.id not in written]
        for port in left:
            if port.mac_address:
                raise MacAddressInUse(
                    f"The mac address {port.mac_address} is in use in network {port.network_id}: choose another."
                )
    raise MacAddressInUse("No free MAC address was found: repeat the request.")


def _draft(networks: Networks, port_id: str, request: PortRequest, ip_allocation: str) -> Port:
    now = networks.env.now()
    return Port(
        id=port_id,
        network_id=request.network_id,
        project_id=request.project_id,
        name=request.name,
        description=request.description,
        mac_address=request.mac_address or "",
        admin_state_up=request.admin_state_up,
        device_id=request.device_id,
        device_owner=request.device_owner,
        ip_allocation=ip_allocation,
        host=request.host or None,
        vnic_type=request.vnic_type,
        binding_profile=request.binding_profile,
        vif_type=VIF_TYPE_BOUND if request.host else VIF_TYPE_UNBOUND,
        tags=request.tags,
        made_for=request.made_for,
        reserved_from=None,
        revision=1,
        created_at=now,
        updated_at=now,
    )
