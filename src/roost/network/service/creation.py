"""Ports made for clients: claimed, then written with their addresses.

Requests that name neither an address nor a MAC, and that come while others are at work, are planned, claimed and
assigned in sets. One that is refused undoes no other. The ports of one request are made all or none: one transaction
writes them. Until then intents say that a claim for them is on its way.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
import structlog

from roost.network.errors import (
    MacAddressInUse,
    NetworkNotFound,
    OverQuota,
)
from roost.network.model.ports import VIF_TYPE_BOUND, VIF_TYPE_UNBOUND, Address, Port, PortRequest
from roost.network.rules import flat, port_security, quotas, requests, uses
from roost.network.rules.macs import canonical_mac
from roost.network.rules.requests import NetworkState, Placing
from roost.network.service import Networks, addresses, claims, notices, releases
from roost.network.service import quotas as quota_service
from roost.network.service.claims import Intents, Want
from roost.network.service.macs import new_mac
from roost.network.service.notifications import telling
from roost.network.store import addresses as address_rows
from roost.network.store import claims as claim_rows
from roost.network.store import networks as store
from roost.network.store import ports as port_rows
from roost.network.store import resources
from roost.platform.batches import Batches
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.platform.errors import RoostError

MAC_ROUNDS_MAX = 8
TOGETHER_MAX = 250
"""Ports made in one set."""

log = structlog.get_logger()


@dataclass
class _Making:
    """One port of a set on its way. placings: alternatives that it may get; placing: the one that is claimed."""

    port_id: str
    request: PortRequest
    ip_allocation: str = ""
    placings: tuple[Placing, ...] = ()
    placing: Placing | None = None
    error: RoostError | None = None
    is_secured: bool = True


async def create(networks: Networks, request: PortRequest) -> Port:
    """Make a port: see ports.create_port. While others are being made it waits, and is made with all that wait."""
    if request.fixed_ips is not None or request.mac_address:
        return (await create_all(networks, [request]))[0]
    if networks.creations is None:
        networks.creations = Batches(lambda wanted: create_each(networks, wanted), most=TOGETHER_MAX)
    answer = await networks.creations.do(request)
    if isinstance(answer, RoostError):
        raise answer
    return answer


async def create_each(networks: Networks, wanted: Sequence[PortRequest]) -> list[Port | RoostError]:
    """Make each of the ports, or return its error; in order. No request names an address or a MAC.

    A call that fails or is cancelled leaves nothing: its ports may be made again one by one.
    """
    return await _make(networks, wanted, whole=False)


async def create_all(networks: Networks, wanted: Sequence[PortRequest]) -> list[Port]:
    """Make all of the ports, or none; return them in order. A call that is cancelled or killed makes none.

    Raises the first port's error, of those that ports.create_port raises.
    """
    answers = await _make(networks, [_canonical(request) for request in wanted], whole=True)
    return [answer for answer in answers if isinstance(answer, Port)]


async def _make(networks: Networks, wanted: Sequence[PortRequest], *, whole: bool) -> list[Port | RoostError]:
    """Make the ports: plan, claim, write. Return each, or its error. whole: raise the first error, make none."""
    makings = [_Making(networks.env.new_uuid(), request) for request in wanted]
    async with _taking_back(networks, makings), Intents(networks) as intents:
        ports_written = await _plan(networks, makings, intents, whole=whole)
        error = _find_error(makings) if whole else None
        claiming = [making for making in makings if making.placings and making.error is None]
        if claiming and error is None:
            await _claim(networks, claiming, intents)
            if whole:
                _raise_first_error(makings)
            going = [making for making in makings if making.error is None and making.port_id not in ports_written]
            ports_written |= await _write(networks, going, intents, whole=whole)
            crash_point("port.after-assign")
            refused = [making.port_id for making in going if making.error is not None]
            await claims.abandon(networks, {port_id: intents.tickets[port_id] for port_id in refused})
        await notices.tell_now(networks, notices.servers_of(ports_written.values()))
    if error is not None:
        raise error
    return [making.error or ports_written[making.port_id] for making in makings]


async def remove(networks: Networks, tx: Connection, found: Sequence[Port]) -> list[str]:
    """Delete locked ports with their addresses, and order their claims' release. Return the servers to be told."""
    ids = [port.id for port in found]
    async with telling(networks, tx, ids):
        await addresses.take_back(tx, [item for port in found for item in port.addresses])
        await resources.delete(tx, "port", ids)
    await claim_rows.insert_releases(tx, ids)
    return [server for port in found for server in await notices.note(tx, port, None)]


@asynccontextmanager
async def _taking_back(networks: Networks, makings: Sequence[_Making]) -> AsyncIterator[None]:
    """Delete the ports that were written, if the block fails or is cancelled. Their intents see to their claims."""
    try:
        yield
    except BaseException:
        try:
            async with networks.database.transaction() as tx:
                ports_locked = await port_rows.lock_ports(tx, sorted(making.port_id for making in makings))
                servers = await remove(networks, tx, list(ports_locked.values())) if ports_locked else []
            await notices.tell_now(networks, servers)
            await releases.work_off_now(networks, list(ports_locked))
        except RoostError as error:
            log.warning("deleting the ports of a failed request failed", reason=str(error))
        raise


def _canonical(request: PortRequest) -> PortRequest:
    if not request.mac_address:
        return request
    return msgspec.structs.replace(request, mac_address=canonical_mac(request.mac_address))


def _find_error(makings: Sequence[_Making]) -> RoostError | None:
    return next((making.error for making in makings if making.error is not None), None)


def _raise_first_error(makings: Sequence[_Making]) -> None:
    """Raise the first port's error, if any."""
    error = _find_error(makings)
    if error is not None:
        raise error


async def _plan(
    networks: Networks, makings: Sequence[_Making], intents: Intents, *, whole: bool = False
) -> dict[str, Port]:
    """Decide which addresses each port may get; open intents for ports that need some, and make the others now.

    Return the ports that were made, by id. whole: nothing is written if one is refused, and no port is made yet if
    one needs a claim.
    """
    async with networks.database.transaction() as tx:
        read: dict[tuple[str, str], NetworkState | RoostError] = {}
        for network_id, host_name in sorted({(m.request.network_id, m.request.host or "") for m in makings}):
            try:
                read[network_id, host_name] = await addresses.read_network(tx, network_id, host_name)
            except NetworkNotFound as error:
                read[network_id, host_name] = error
        most = networks.settings.max_fixed_ips_per_port
        for making in makings:
            try:
                requests.refuse_surplus(making.request.fixed_ips, making.request.device_owner, most=most)
                _plan_one(making, read[making.request.network_id, making.request.host or ""])
                await addresses.refuse_taken(tx, making.placings)
            except RoostError as error:
                making.error = error
        await _keep_quotas(networks, tx, makings)
        if whole and _find_error(makings) is not None:
            return {}
        going = [making for making in makings if making.error is None]
        claiming = [making.port_id for making in going if making.placings]
        await intents.open(tx, claiming)
        if whole and claiming:
            return {}
        making_now = [making for making in going if not making.placings]
        async with telling(networks, tx, [making.port_id for making in making_now]):
            return await _insert_all(networks, tx, making_now)


def _plan_one(making: _Making, state: NetworkState | RoostError) -> None:
    if isinstance(state, RoostError):
        raise state
    request = making.request
    flat.refuse_port(state.network)
    plan = requests.plan_addresses(
        making.port_id, state, device_owner=request.device_owner, fixed_ips=request.fixed_ips
    )
    making.ip_allocation, making.placings = plan.ip_allocation, plan.placings
    making.is_secured = port_security.is_secured(
        request.device_owner, wanted=request.port_security_enabled, network=state.network.port_security_enabled
    )
    port_security.refuse_pairs_unsecured(request.allowed_address_pairs, is_secured=making.is_secured)


async def _keep_quotas(networks: Networks, tx: Connection, makings: Sequence[_Making]) -> None:
    """Set the error of each port that its project's quota does not allow."""
    usages = await quota_service.lock_limited(networks, tx, "port", sorted({m.request.project_id for m in makings}))
    going = [making for making in makings if making.error is None]
    reasons = quotas.grant(usages, [(making.request.project_id, 1) for making in going])
    for making, reason in zip(going, reasons, strict=True):
        making.error = None if reason is None else OverQuota(reason)


async def _claim(networks: Networks, makings: Sequence[_Making], intents: Intents) -> None:
    """Claim one of its placings for each port. Close the intents of those that got none."""
    wants = [Want(port_id=m.port_id, project_id=m.request.project_id, placings=m.placings) for m in makings]
    answers = await claims.claim(networks, wants)
    for making in makings:
        answer = answers[making.port_id]
        if isinstance(answer, RoostError):
            making.error = answer
        else:
            making.placing = answer
    if refused := [making.port_id for making in makings if making.placing is None]:
        async with networks.database.transaction() as tx:
            await intents.close(tx, refused)


async def _write(
    networks: Networks, makings: Sequence[_Making], intents: Intents, *, whole: bool = False
) -> dict[str, Port]:
    """Write the ports with the addresses that are claimed for them; return those that were written, by id.

    whole: raise the first port's error, if any, and write none.
    """
    async with networks.database.transaction() as tx:
        kept = await store.lock_ids(tx, sorted({m.request.network_id for m in makings}), "existence")
        for making in makings:
            if making.request.network_id not in kept:
                making.error = NetworkNotFound(f"Network {making.request.network_id} could not be found.")
        await _keep_quotas(networks, tx, makings)
        claimed = {making.port_id: making.placing for making in makings if making.placing is not None}
        intents_gone = await intents.close(tx, list(claimed))
        for making in makings:
            making.error = making.error or intents_gone.get(making.port_id)
        locked = await address_rows.lock_provider_subnets(tx, sorted({p.provider_uuid for p in claimed.values()}))
        going = {m.port_id: claimed[m.port_id] for m in makings if m.error is None and m.port_id in claimed}
        errors = await addresses.give(networks, tx, going, locked)
        for making in makings:
            making.error = making.error or errors.get(making.port_id)
        if whole:
            _raise_first_error(makings)
        async with telling(networks, tx, [making.port_id for making in makings]):
            written = await _insert_all(networks, tx, [making for making in makings if making.error is None])
            automatic = [
                item
                for port_id in written.keys() & going.keys()
                for item in uses.automatic(written[port_id], locked.get(going[port_id].provider_uuid, ()))
            ]
            await addresses.give_automatic(tx, automatic)
        by_port: dict[str, tuple[Address, ...]] = dict.fromkeys(written, ())
        for address in await address_rows.list_of_ports(tx, list(written)):
            by_port[address.port_id] = (*by_port[address.port_id], address)
        return {port.id: msgspec.structs.replace(port, addresses=by_port[port.id]) for port in written.values()}


async def _insert_all(networks: Networks, tx: Connection, makings: Sequence[_Making]) -> dict[str, Port]:
    """Write ports, each with the MAC address that it names or a new one; return them by id.

    All calls write named MAC addresses in the same order. A port that names a server of this cloud as its device is a
    NIC of it from now on.
    """
    ports_written: dict[str, Port] = {}
    drafts = [_draft(networks, making) for making in makings]
    waiting = sorted(drafts, key=lambda port: port.mac_address)
    for _ in range(MAC_ROUNDS_MAX):
        if not waiting:
            await notices.note_servers(tx, list(ports_written.values()))
            return ports_written
        with_macs = [_with_mac(port, port.mac_address or new_mac(networks.env.random)) for port in waiting]
        ids_written = await resources.insert(tx, "port", with_macs)
        ports_written |= {port.id: port for port in with_macs if port.id in ids_written}
        waiting = [port for port in waiting if port.id not in ids_written]
        for port in waiting:
            if port.mac_address:
                raise MacAddressInUse(
                    f"The mac address {port.mac_address} is in use in network {port.network_id}: choose another."
                )
    raise MacAddressInUse("No free MAC address was found: repeat the request.")


def _with_mac(port: Port, mac_address: str) -> Port:
    """Return the port with its MAC address, which its pairs have that name none."""
    pairs = port_security.with_own_mac(port.allowed_address_pairs, mac_address)
    return msgspec.structs.replace(port, mac_address=mac_address, allowed_address_pairs=pairs)


def _draft(networks: Networks, making: _Making) -> Port:
    now, request = networks.env.now(), making.request
    return Port(
        id=making.port_id,
        network_id=request.network_id,
        project_id=request.project_id,
        name=request.name,
        description=request.description,
        mac_address=request.mac_address or "",
        admin_state_up=request.admin_state_up,
        device_id=request.device_id,
        device_owner=request.device_owner,
        ip_allocation=making.ip_allocation,
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
        port_security_enabled=making.is_secured,
        allowed_address_pairs=request.allowed_address_pairs,
    )
