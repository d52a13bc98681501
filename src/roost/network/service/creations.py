"""How clients' new ports are made: planned, claimed and written in sets, all or none, or each that can be.

The ports of a set are written by one transaction. Until then intents say that a claim for them is on its way.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import structlog

from roost.network.errors import MacAddressInUse, NetworkNotFound, OverQuota
from roost.network.model.networks import SubnetKind
from roost.network.model.ports import Port, PortFilter, PortRequest, vif_type_of
from roost.network.rules import flat, port_security, requests, uses
from roost.network.rules import quotas as quota_rules
from roost.network.rules.addressing import canonical_mac
from roost.network.rules.requests import NetworkState, Placing
from roost.network.service import Networks, addresses, claims, notices, quotas, releases
from roost.network.service.claims import Intents, Want
from roost.network.service.notices import telling
from roost.network.store import addresses as address_rows
from roost.network.store import networks as network_rows
from roost.network.store import ports as port_rows
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.platform.errors import RoostError
from roost.platform.structs import copy_as

log = structlog.get_logger()


@dataclass
class _Making:
    """A port on its way. draft: what is to be written; its MAC address is "" unless the client names it.

    placings: alternatives that it may get; placing: the one that is claimed.
    """

    request: PortRequest
    draft: Port
    placings: tuple[Placing, ...] = ()
    placing: Placing | None = None
    error: RoostError | None = None


async def make(networks: Networks, wanted: Sequence[PortRequest], *, whole: bool) -> list[Port | RoostError]:
    """Make the ports: plan, claim, write. Return each, or its error. whole: raise the first error, make none.

    A call that fails or is cancelled leaves nothing: its ports may be made again one by one.
    """
    makings = [_Making(request, _draft(networks, request)) for request in wanted]
    try:
        async with Intents(networks) as intents:
            ports_written = await _plan(networks, makings, intents, whole=whole)
            if intents.tickets:
                await _claim(networks, makings)
                ports_written = await _write(networks, _going(makings, whole=whole), intents, whole=whole)
                crash_point("port.after-assign")
                unused = {making.draft.id for making in makings if making.error is not None and making.placing}
                await claims.abandon(networks, {port_id: intents.tickets[port_id] for port_id in unused})
            await notices.tell_now(networks, notices.servers_of(ports_written.values()))
    except BaseException:
        await _take_back(networks, makings)
        raise
    return [making.error or ports_written[making.draft.id] for making in makings]


async def _take_back(networks: Networks, makings: Sequence[_Making]) -> None:
    """Delete the ports that were written before their request failed or was cancelled. Intents see to their claims."""
    try:
        async with networks.database.transaction() as tx:
            ports_locked = await port_rows.lock_ports(tx, sorted(making.draft.id for making in makings))
            servers = await releases.remove_ports(networks, tx, list(ports_locked.values())) if ports_locked else []
        await notices.tell_now(networks, servers)
        await releases.work_off_now(networks, list(ports_locked))
    except RoostError as error:
        log.warning("deleting the ports of a failed request failed", reason=str(error))


def _going(makings: Sequence[_Making], *, whole: bool = False) -> list[_Making]:
    """Return those that are not refused so far. whole: raise the first port's error, if any."""
    for error in (making.error for making in makings if whole and making.error is not None):
        raise error
    return [making for making in makings if making.error is None]


async def _plan(networks: Networks, makings: Sequence[_Making], intents: Intents, *, whole: bool) -> Mapping[str, Port]:
    """Decide which addresses each port may get, and open intents for those that need some. If none does, make all.

    Return the ports that were made, by id. whole: nothing is written if one is refused.
    """
    async with networks.database.transaction() as tx:
        states: dict[tuple[str, str], NetworkState | RoostError] = {}
        for network_id, host_name in sorted({(m.draft.network_id, m.draft.host or "") for m in makings}):
            try:
                states[network_id, host_name] = await addresses.read_network(tx, network_id, host_name)
            except NetworkNotFound as error:
                states[network_id, host_name] = error
        for making in makings:
            try:
                _plan_one(networks, making, states[making.draft.network_id, making.draft.host or ""])
                await addresses.refuse_taken(tx, making.placings)
            except RoostError as error:
                making.error = error
        await _keep_quotas(networks, tx, makings, whole=whole)
        going = _going(makings, whole=whole)
        await intents.open(tx, [making.draft.id for making in going if making.placings])
        return {} if intents.tickets else await _insert_all(networks, tx, going)


def _plan_one(networks: Networks, making: _Making, state: NetworkState | RoostError) -> None:
    """Set the port's placings, and what its network decides of the draft. Raises what refuses a client's new port.

    ports.py refuses changes of ports, and rules/port_bindings.py those that servers' builds ask for.
    """
    request, owner = making.request, making.draft.device_owner
    requests.refuse_surplus(request.fixed_ips, owner, most=networks.settings.max_fixed_ips_per_port)
    if isinstance(state, RoostError):
        raise state
    flat.refuse_port(state.network)
    plan = requests.plan_addresses(making.draft.id, state, device_owner=owner, fixed_ips=request.fixed_ips)
    is_secured = port_security.is_secured(
        owner, wanted=request.port_security_enabled, network=state.network.port_security_enabled
    )
    port_security.refuse_pairs_unsecured(request.allowed_address_pairs, is_secured=is_secured)
    making.draft = msgspec.structs.replace(
        making.draft, ip_allocation=plan.ip_allocation, port_security_enabled=is_secured
    )
    making.placings = plan.placings


async def _keep_quotas(networks: Networks, tx: Connection, makings: Sequence[_Making], *, whole: bool) -> None:
    """Set the error of each port that its project's quota does not allow. whole: raise OverQuota for all together."""
    if whole:
        return await quotas.refuse_over(networks, tx, "port", Counter(making.draft.project_id for making in makings))
    going = _going(makings)
    usages = await quotas.lock_limited(networks, tx, "port", sorted({making.draft.project_id for making in going}))
    reasons = quota_rules.grant(usages, [(making.draft.project_id, 1) for making in going])
    for making, reason in zip(going, reasons, strict=True):
        making.error = None if reason is None else OverQuota(reason)


async def _claim(networks: Networks, makings: Sequence[_Making]) -> None:
    """Claim one of its placings for each port that needs some."""
    wants = [
        Want(port_id=making.draft.id, project_id=making.draft.project_id, placings=making.placings)
        for making in _going(makings)
        if making.placings
    ]
    answers = await claims.claim(networks, wants)
    for making in makings:
        answer = answers.get(making.draft.id)
        if isinstance(answer, RoostError):
            making.error = answer
        else:
            making.placing = answer


async def _write(
    networks: Networks, makings: Sequence[_Making], intents: Intents, *, whole: bool
) -> Mapping[str, Port]:
    """Close all intents, and write the ports with the addresses that are claimed for them; return these, by id."""
    async with networks.database.transaction() as tx:
        kept = await network_rows.lock_network_ids(
            tx, sorted({making.draft.network_id for making in makings}), "existence"
        )
        for making in makings:
            if making.draft.network_id not in kept:
                making.error = NetworkNotFound(f"Network {making.draft.network_id} could not be found.")
        await _keep_quotas(networks, tx, makings, whole=whole)
        errors: dict[str, RoostError] = {**await intents.close(tx)}
        placings = {
            m.draft.id: m.placing for m in _going(makings) if m.placing is not None and m.draft.id not in errors
        }
        locked = await address_rows.lock_provider_subnets(tx, sorted({p.provider_uuid for p in placings.values()}))
        errors |= await addresses.give(networks, tx, placings, locked)
        for making in _going(makings):
            making.error = errors.get(making.draft.id)
        return await _insert_all(networks, tx, _going(makings, whole=whole), locked)


async def _insert_all(
    networks: Networks,
    tx: Connection,
    makings: Sequence[_Making],
    locked: Mapping[str, Sequence[SubnetKind]] = {},
) -> Mapping[str, Port]:
    """Write ports, each with the MAC address that it names or a new one; return them by id, with their addresses.

    Their EUI-64 addresses follow from it. locked: by provider UUID, the subnets where they are. A port that names a
    server of this cloud as its device is a NIC of it from now on.
    """
    ids = [making.draft.id for making in makings]
    async with telling(networks, tx, ids):
        ports_written = await addresses.insert_ports(networks, tx, [making.draft for making in makings])
        for draft in (making.draft for making in makings if making.draft.id not in ports_written):
            if not draft.mac_address:
                raise MacAddressInUse("No free MAC address was found: repeat the request.")
            text = f"The mac address {draft.mac_address} is in use in network {draft.network_id}: choose another."
            raise MacAddressInUse(text)
        automatic = [
            item
            for making in makings
            if making.placing is not None
            for item in uses.automatic(ports_written[making.draft.id], locked.get(making.placing.provider_uuid, ()))
        ]
        await addresses.hand_out(networks, tx, (), automatic)
    await notices.note(tx, ports_written.values())
    if not locked:
        return ports_written
    return {port.id: port for port in await port_rows.list_ports(tx, PortFilter(ids=tuple(ids)))}


def _draft(networks: Networks, request: PortRequest) -> Port:
    """Return the port as it is asked for; what follows from its network is still to be decided."""
    now = networks.env.now()
    return copy_as(
        Port,
        request,
        id=networks.env.new_uuid(),
        mac_address=canonical_mac(request.mac_address) if request.mac_address else "",
        host=request.host or None,
        vif_type=vif_type_of(request.host),
        port_security_enabled=True,
        ip_allocation="",
        created_at=now,
        updated_at=now,
    )
