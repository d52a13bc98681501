"""Ports made for clients: claimed, then written with their addresses.

Requests that name neither an address nor a MAC, and that come while others are at work, are made together: planned,
claimed and assigned in sets. One that is refused undoes no other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from roost.network import flat, quotas, requests, uses
from roost.network.addressing import FreeChange, Given
from roost.network.errors import (
    IpAddressGenerationFailure,
    MacAddressInUse,
    NetworkNotFound,
    OverQuota,
    PortChanged,
)
from roost.network.model import VIF_TYPE_BOUND, VIF_TYPE_UNBOUND, Host, Port, PortFilter, PortRequest, SubnetKind
from roost.network.requests import AddressPlan, NetworkState, Placing
from roost.network.service import Networks, assignments, exhaustions, releases
from roost.network.service import quotas as quota_service
from roost.network.service.macs import canonical_mac, new_mac
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


@dataclass
class _Making:
    """One port of a set on its way. placings: those not tried yet; placing: the one that is claimed."""

    port_id: str
    request: PortRequest
    ip_allocation: str = ""
    placings: tuple[Placing, ...] = ()
    placing: Placing | None = None
    alone: bool = False
    error: RoostError | None = None


async def create(networks: Networks, request: PortRequest) -> Port:
    """See ports.create_port. At once if nothing is under way, else with all that wait."""
    if not names_nothing(request):
        return await _create_alone(networks, request)
    if networks.creations is None:
        networks.creations = Batches(lambda wanted: create_each(networks, wanted), most=TOGETHER_MAX)
    made = await networks.creations.do(request)
    if isinstance(made, RoostError):
        raise made
    return made


async def create_each(networks: Networks, wanted: Sequence[PortRequest]) -> list[Port | RoostError]:
    """Make each of the ports, or say why not; in order. None of them names an address or a MAC."""
    makings = [_Making(networks.env.new_uuid(), request) for request in wanted]
    made = await _plan(networks, makings)
    claiming = [making for making in makings if making.placings and not making.alone and making.error is None]
    if claiming:
        await _claim(networks, claiming)
        crash_point("port.after-claim")
        made |= await _write(networks, [making for making in claiming if making.placing is not None])
        crash_point("port.after-assign")
        for making in claiming:
            if making.placing is not None and making.error is not None:
                await releases.abandon(networks, making.port_id)
    answers: list[Port | RoostError] = []
    for making in makings:
        if making.alone:
            try:
                answers.append(await _create_alone(networks, making.request))
            except RoostError as error:
                answers.append(error)
        else:
            answers.append(making.error or made[making.port_id])
    return answers


def names_nothing(request: PortRequest) -> bool:
    """Whether its addresses and its MAC are all Roost's choice, so that it can be made in a set."""
    return request.fixed_ips is None and not request.mac_address


async def _plan(networks: Networks, makings: Sequence[_Making]) -> dict[str, Port]:
    """Say what each needs; make those that need no address now, and open intents for the others."""
    async with networks.database.transaction() as tx:
        read: dict[tuple[str, str], tuple[NetworkState, Host | None] | RoostError] = {}
        for network_id, host_name in sorted({(m.request.network_id, m.request.host or "") for m in makings}):
            try:
                read[network_id, host_name] = await assignments.read_network(tx, network_id, host_name)
            except NetworkNotFound as error:
                read[network_id, host_name] = error
        for making in makings:
            _plan_one(making, read[making.request.network_id, making.request.host or ""])
        await _keep_quotas(networks, tx, makings)
        going = [making for making in makings if making.error is None and not making.alone]
        await claims.insert_intents(tx, [m.port_id for m in going if m.placings], networks.settings.intent_s)
        return await _insert_all(networks, tx, [making for making in going if not making.placings])


def _plan_one(making: _Making, read: tuple[NetworkState, Host | None] | RoostError) -> None:
    if isinstance(read, RoostError):
        making.error = read
        return
    state, host = read
    request = making.request
    try:
        flat.refuse_port(state.network)
        plan = requests.plan_addresses(
            making.port_id, state, device_owner=request.device_owner, host=host, host_name=request.host or "",
            fixed_ips=None,
        )  # fmt: skip
    except RoostError as error:
        making.error = error
        return
    making.ip_allocation, making.placings = plan.ip_allocation, plan.placings
    # No claim says whether a subnet that is no capacity has room.
    making.alone = any(demand.in_pool and not demand.claimed for one in plan.placings for demand in one.demands)


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
    usages = await networks.placement.list_usages(sorted({uuid for uuids in tried.values() for uuid in uuids}))
    left = {(uuid, name): total - used for uuid, found in usages.items() for name, (total, used) in found.items()}
    for making in makings:
        # What is full is not asked, or a network that is full all over would cost a claim for each of its segments.
        making.placings = tuple(placing for placing in making.placings if _room(left, placing) > 0)
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


def _room(left: Mapping[tuple[str, str], int], placing: Placing) -> int:
    """How many such placings its provider still has room for; one of which nothing is capacity always has some."""
    return min((left.get((placing.provider_uuid, name), 0) // n for name, n in placing.claimed.items()), default=1)


def _take_best(left: dict[tuple[str, str], int], making: _Making) -> Placing:
    best = max(making.placings, key=lambda placing: (-placing.rank, len(placing.demands), _room(left, placing)))
    making.placings = tuple(placing for placing in making.placings if placing is not best)
    for name, amount in best.claimed.items():
        left[best.provider_uuid, name] = left.get((best.provider_uuid, name), 0) - amount
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


async def _write(networks: Networks, makings: Sequence[_Making]) -> dict[str, Port]:
    """Write the ports with the addresses that are claimed for them; returns those that were written, by id."""
    async with networks.database.transaction() as tx:
        kept = {one.id for one in await store.keep_networks(tx, sorted({m.request.network_id for m in makings}))}
        for making in makings:
            if making.request.network_id not in kept:
                making.error = NetworkNotFound(f"Network {making.request.network_id} could not be found.")
        await _keep_quotas(networks, tx, makings)
        intents = await claims.delete_intents(tx, [making.port_id for making in makings])
        for making in makings:
            if making.error is None and making.port_id not in intents:
                making.error = assignments.too_late(making.port_id)
        providers = sorted({m.placing.provider_uuid for m in makings if m.placing})
        behind = await addresses.lock_provider_subnets(tx, providers)
        _look_again(makings, behind)
        given, change = await _hand_out(networks, tx, makings)
        made = await _insert_all(networks, tx, [making for making in makings if making.error is None])
        written = [item for item in given if item.port_id in made]
        inserted = await addresses.insert(tx, written, [None] * len(written))
        assert inserted, "a free range held an address that a port has"
        await addresses.change_free(tx, change)
        automatic = [item for m in makings if m.port_id in made for item in _automatic(m, made[m.port_id], behind)]
        await assignments.add_automatic(tx, automatic, None)
        return {port.id: port for port in await port_rows.list_ports(tx, PortFilter(ids=tuple(made)))}


def _look_again(makings: Sequence[_Making], behind: Mapping[str, Sequence[SubnetKind]]) -> None:
    """Refuse those whose subnets changed hands, or count otherwise, since they were planned; the subnets are locked."""
    for making in makings:
        if making.error is None and making.placing is not None:
            placing = making.placing
            try:
                demands = requests.demands_today(placing, behind.get(placing.provider_uuid, ()))
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
                subnet_ids = without[making.port_id].subnet_ids
                told = await exhaustions.describe_subnets(tx, making.placing.provider_uuid, subnet_ids)
                making.error = IpAddressGenerationFailure(told)


def _automatic(making: _Making, port: Port, behind: Mapping[str, Sequence[SubnetKind]]) -> list[Given]:
    assert making.placing is not None, "it was claimed"
    return uses.automatic(port, behind.get(making.placing.provider_uuid, ()))


async def _insert_all(networks: Networks, tx: Connection, makings: Sequence[_Making]) -> dict[str, Port]:
    """Write ports, each with a new MAC address."""
    made: dict[str, Port] = {}
    left = {m.port_id: _draft(networks, m.port_id, m.request, m.ip_allocation) for m in makings}
    for _ in range(MAC_ROUNDS_MAX):
        if not left:
            return made
        drafts = [msgspec.structs.replace(port, mac_address=new_mac(networks.env.random)) for port in left.values()]
        written = await port_rows.insert_all(tx, drafts)
        made |= {port.id: port for port in drafts if port.id in written}
        left = {port_id: port for port_id, port in left.items() if port_id not in written}
    raise MacAddressInUse("No free MAC address was found: repeat the request.")


async def _create_alone(networks: Networks, request: PortRequest) -> Port:
    """One that names an address or a MAC, or whose address may be on a subnet that is no capacity."""
    if request.mac_address:  # before anything is claimed
        request = msgspec.structs.replace(request, mac_address=canonical_mac(request.mac_address))
    port_id = networks.env.new_uuid()
    async with networks.database.transaction() as tx:
        state, host = await assignments.read_network(tx, request.network_id, request.host or "")
        flat.refuse_port(state.network)
        limited = await quota_service.refuse_over(networks, tx, "port", {request.project_id: 1})
        plan = requests.plan_addresses(
            port_id, state, device_owner=request.device_owner, host=host, host_name=request.host or "",
            fixed_ips=request.fixed_ips,
        )  # fmt: skip
        await assignments.refuse_taken(tx, plan.placings)
        if plan.placings:
            await assignments.open_intent(networks, tx, port_id, 0)
        else:
            await _insert(networks, tx, _draft(networks, port_id, request, plan.ip_allocation))
    if plan.placings:
        await _create_with_address(networks, port_id, request, plan, limited=limited)
    async with networks.database.transaction(snapshot=True) as tx:
        found = await port_rows.list_ports(tx, PortFilter(ids=(port_id,)))
    if not found:
        raise PortChanged(f"Port {port_id} was deleted as soon as it was made.")
    return found[0]


async def _create_with_address(
    networks: Networks, port_id: str, request: PortRequest, plan: AddressPlan, *, limited: bool
) -> None:
    """limited: the project has a quota; others may have made ports for it since it was looked at."""
    placing = await assignments.claim_any(networks, port_id, request.project_id, plan.placings)
    try:
        async with networks.database.transaction() as tx:
            if not await store.keep_networks(tx, [request.network_id]):
                raise NetworkNotFound(f"Network {request.network_id} could not be found.")
            if limited:
                await quota_service.refuse_over(networks, tx, "port", {request.project_id: 1})
            await _insert(networks, tx, _draft(networks, port_id, request, plan.ip_allocation))
            await assignments.assign(networks, tx, port_id, placing)
    except RoostError:  # whatever it is that was seen after the claim
        await releases.abandon(networks, port_id)
        raise
    crash_point("port.after-assign")


async def _insert(networks: Networks, tx: Connection, port: Port) -> None:
    given = bool(port.mac_address)
    for _ in range(MAC_ROUNDS_MAX):
        mac = port.mac_address if given else new_mac(networks.env.random)
        if await port_rows.insert_all(tx, [msgspec.structs.replace(port, mac_address=mac)]):
            return
        if given:
            break
    raise MacAddressInUse(f"The mac address {mac} is in use in network {port.network_id}: choose another.")


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
        made_for=None,
        reserved_from=None,
        revision=1,
        created_at=now,
        updated_at=now,
    )
