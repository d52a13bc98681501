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
from roost.network.model.networks import Host
from roost.network.model.ports import VIF_TYPE_BOUND, VIF_TYPE_UNBOUND, Address, Port, PortRequest
from roost.network.rules import flat, port_security, quotas, requests
from roost.network.rules.macs import canonical_mac
from roost.network.rules.requests import NetworkState, Placing
from roost.network.service import Networks, addresses, notices, releases
from roost.network.service import quotas as quota_service
from roost.network.service.addresses import Want
from roost.network.service.macs import new_mac
from roost.network.service.notifications import telling
from roost.network.store import addresses as address_rows
from roost.network.store import claims
from roost.network.store import networks as store
from roost.network.store import ports as port_rows
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
    makings = [_Making(networks.env.new_uuid(), request) for request in wanted]
    async with _taking_back(networks, makings):
        ports_written = await _plan(networks, makings)
        claiming = [making for making in makings if making.placings and making.error is None]
        if claiming:
            await _claim(networks, claiming)
            ports_written |= await _write(networks, [making for making in claiming if making.placing is not None])
            crash_point("port.after-assign")
            for making in claiming:
                if making.placing is not None and making.error is not None:
                    await releases.abandon(networks, making.port_id)
        await notices.tell_now(networks, notices.servers_of(ports_written.values()))
    return [making.error or ports_written[making.port_id] for making in makings]


async def create_all(networks: Networks, wanted: Sequence[PortRequest]) -> list[Port]:
    """Make all of the ports, or none; return them in order. A call that is cancelled or killed makes none.

    Raises the first port's error, of those that ports.create_port raises.
    """
    makings = [_Making(networks.env.new_uuid(), _canonical(request)) for request in wanted]
    async with _taking_back(networks, makings):
        ports_written = await _plan(networks, makings, whole=True)
        error = _find_error(makings)
        claiming = [making for making in makings if making.placings]
        if claiming and error is None:
            await _claim(networks, claiming)
            _raise_first_error(makings)
            ports_written = await _write(networks, makings, whole=True)
            crash_point("port.after-assign")
        await notices.tell_now(networks, notices.servers_of(ports_written.values()))
    if error is not None:
        raise error
    return [ports_written[making.port_id] for making in makings]


async def remove(networks: Networks, tx: Connection, found: Sequence[Port]) -> list[str]:
    """Delete locked ports with their addresses, and order their claims' release. Return the servers to be told."""
    ids = [port.id for port in found]
    async with telling(networks, tx, ids):
        await addresses.take_back(tx, [(item.subnet_id, item.address) for port in found for item in port.addresses])
        await port_rows.delete(tx, ids)
    await claims.insert_releases(tx, ids)
    return [server for port in found for server in await notices.note(tx, port, None)]


@asynccontextmanager
async def _taking_back(networks: Networks, makings: Sequence[_Making]) -> AsyncIterator[None]:
    """Take the ports back if the block fails or is cancelled."""
    try:
        yield
    except BaseException:
        await _take_back(networks, [making.port_id for making in makings])
        raise


async def _take_back(networks: Networks, port_ids: Sequence[str]) -> None:
    """Delete the ports, their intents and their claims, as far as they came. Without the database, intents expire."""
    try:
        async with networks.database.transaction() as tx:
            ports_locked = await port_rows.lock_ports(tx, sorted(port_ids))
            await claims.delete_intents(tx, port_ids)
            servers = await remove(networks, tx, list(ports_locked.values())) if ports_locked else []
            hanging = await claims.release_hanging(tx, port_ids)
        await notices.tell_now(networks, servers)
        await releases.work_off_now(networks, [*ports_locked, *hanging])
    except RoostError as error:
        log.warning("releasing the claims of a failed request failed; the reconciler retries", reason=str(error))


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


async def _plan(networks: Networks, makings: Sequence[_Making], *, whole: bool = False) -> dict[str, Port]:
    """Decide which addresses each port may get; open intents for ports that need some, and make the others now.

    Return the ports that were made, by id. whole: one refusal writes nothing, and no port is made before all can be.
    """
    async with networks.database.transaction() as tx:
        read: dict[tuple[str, str], tuple[NetworkState, Host | None] | RoostError] = {}
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
    making.is_secured = port_security.is_secured(
        request.device_owner, wanted=request.port_security_enabled, network=state.network.port_security_enabled
    )
    port_security.refuse_pairs_unsecured(request.allowed_address_pairs, is_secured=making.is_secured)


async def _keep_quotas(networks: Networks, tx: Connection, makings: Sequence[_Making]) -> None:
    """Set the error of each port that its project's quota does not allow."""
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
    """Claim one of its placings for each port. Delete the intents of those that got none."""
    wants = [Want(port_id=m.port_id, project_id=m.request.project_id, placings=m.placings) for m in makings]
    answers = await addresses.claim(networks, wants)
    for making in makings:
        answer = answers[making.port_id]
        if isinstance(answer, RoostError):
            making.error = answer
        else:
            making.placing = answer
    if refused := [making.port_id for making in makings if making.placing is None]:
        async with networks.database.transaction() as tx:
            await claims.delete_intents(tx, refused)


async def _write(networks: Networks, makings: Sequence[_Making], *, whole: bool = False) -> dict[str, Port]:
    """Write the ports with the addresses that are claimed for them; return those that were written, by id.

    whole: raise the first port's error, if any, and write none.
    """
    async with networks.database.transaction() as tx:
        kept = await store.keep(tx, sorted({m.request.network_id for m in makings}))
        for making in makings:
            if making.request.network_id not in kept:
                making.error = NetworkNotFound(f"Network {making.request.network_id} could not be found.")
        await _keep_quotas(networks, tx, makings)
        claimed = {making.port_id: making.placing for making in makings if making.placing is not None}
        intents = await claims.delete_intents(tx, list(claimed))
        for making in makings:
            if making.error is None and making.port_id in claimed.keys() - intents:
                making.error = addresses.too_late(making.port_id)
        locked = await address_rows.lock_provider_subnets(tx, sorted({p.provider_uuid for p in claimed.values()}))
        going = {m.port_id: claimed[m.port_id] for m in makings if m.error is None and m.port_id in claimed}
        errors = await addresses.give(networks, tx, going, locked)
        for making in makings:
            making.error = making.error or errors.get(making.port_id)
        if whole:
            _raise_first_error(makings)
        async with telling(networks, tx, [making.port_id for making in makings]):
            written = await _insert_all(networks, tx, [making for making in makings if making.error is None])
            for port_id in written.keys() & going.keys():
                await addresses.give_automatic(tx, [written[port_id]], locked.get(going[port_id].provider_uuid, ()))
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
        ids_written = await port_rows.insert_all(tx, with_macs)
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
