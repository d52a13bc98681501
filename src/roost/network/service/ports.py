"""Ports and their bindings as clients read, make, change and delete them. How new ones are made: creations.py.

For a change the port is locked, what it needs is claimed, and one transaction writes everything. A change that needs no
claim is written in the transaction that plans it. One that needs a claim is planned in one transaction, which opens an
intent, and written in a second one, which closes it.

Addresses that come are claimed beside those that the port has, before anything is written; a release row trims the
claim afterwards. A crash between two steps leaves at most a claim that is too large. The reconciler trims it when the
intent expires, or by the release row.

The active binding is in the port's row, others wait on their hosts. One that waits is activated as a change of
`binding:host_id`. The active one becomes inactive then.
Source: Network API, extension binding-extended; Neutron, plugins/ml2/plugin.py.
"""

from collections.abc import Sequence

import asyncpg
from msgspec.structs import replace

from roost.network.errors import (
    MacAddressInUse,
    PortBindingAlreadyActive,
    PortBindingAlreadyExists,
    PortBindingNotFound,
    PortChanged,
    PortInUse,
    PortNotCompute,
    PortNotFound,
    RevisionNumberConstraintFailed,
)
from roost.network.model.ports import (
    VIF_TYPE_BOUND,
    Binding,
    Port,
    PortChanges,
    PortFilter,
    PortRequest,
    is_of_server,
    is_server_id,
)
from roost.network.rules import readdressing, requests
from roost.network.rules.capacity import claim_of
from roost.network.rules.readdressing import ChangePlan
from roost.network.rules.requests import Placing
from roost.network.service import (
    Networks,
    addresses,
    creations,
    notices,
    pick,
    pick_revision,
    releases,
    unknown_guests,
)
from roost.network.service.claims import Intents, refuse_while_recovering
from roost.network.service.notices import telling
from roost.network.service.releases import after_releases, list_claiming
from roost.network.store import addresses as address_rows
from roost.network.store import claims as claim_rows
from roost.network.store import ports as port_rows
from roost.network.store import resources
from roost.platform.batches import Batches
from roost.platform.crash import crash_point
from roost.platform.database import Connection, reading
from roost.platform.errors import RoostError

TOGETHER_MAX = 250
"""Ports made in one set."""


list_ports = reading(port_rows.list_ports)
list_page = reading(port_rows.list_page)
"""No request of clients is more frequent."""


async def get_port(networks: Networks, port_id: str) -> Port:
    """Return one port. Raises PortNotFound."""
    return pick(await list_ports(networks, PortFilter(ids=(port_id,))), PortNotFound, "Port", port_id)


async def create_port(networks: Networks, request: PortRequest) -> Port:
    """Make a user's port: see create_ports."""
    (port,) = await create_ports(networks, [request])
    return port


async def create_ports(networks: Networks, wanted: Sequence[PortRequest]) -> list[Port]:
    """Make users' ports, all or none; return them in order. A call that is cancelled or killed makes none.

    `immediate` ones have their claims and their addresses when the call returns. A single one that names neither an
    address nor a MAC waits while others are being made, and is made with all that wait.
    Raises NetworkNotFound, OverQuota, what requests.plan_addresses raises, IpAddressAlreadyAllocated,
    IpAddressGenerationFailure, MacAddressInUse, PortChanged, AddressesWithheld: the first port's error.
    """
    await refuse_while_recovering(networks)
    if len(wanted) == 1 and wanted[0].fixed_ips is None and not wanted[0].mac_address:
        if networks.creations is None:
            networks.creations = Batches(lambda batch: creations.make(networks, batch, whole=False), most=TOGETHER_MAX)
        answers = [await networks.creations.do(wanted[0])]
    else:
        answers = await creations.make(networks, wanted, whole=True)
    for answer in answers:
        if isinstance(answer, RoostError):
            raise answer
    return [answer for answer in answers if isinstance(answer, Port)]


Owner = tuple[str, bool]
"""The device that has a port, and whether it is a server of this cloud."""
_Written = tuple[Port, list[str]]
"""The port after a change, and the servers to be told."""


async def update_port(networks: Networks, port_id: str, changes: PortChanges, *, activates: bool = False) -> Port:
    """Change a port as a client, and return it.

    A port that is bound for the first time gets its address. Fixed IPs that the changes name are assigned.
    activates: the inactive binding on the host becomes the active one, and the active one becomes inactive.

    Raises AddressesWithheld, PortNotFound, RevisionNumberConstraintFailed, PortInUse while a server's build holds it,
    while the guest of another server has it, or for another host than its server's, PortChanged, what
    readdressing.apply_changes and plan_change raise, IpAddressAlreadyAllocated, IpAddressGenerationFailure,
    MacAddressInUse.
    """
    if changes.fixed_ips is not None or changes.host:
        await refuse_while_recovering(networks)
    owner = await find_owner(networks, port_id) if changes.host is not None else None
    async with Intents(networks) as intents:
        plan, written = await _begin(networks, intents, port_id, changes, owner, activates=activates)
        if written is None:
            placing = await intents.claim(plan.before, plan.placings, claim_of(plan.before.addresses))
            async with networks.database.transaction() as tx:
                await intents.resume(tx, plan.before)
                written = await _write(networks, tx, plan, [placing], activates=activates)
            crash_point("port.after-assign")
    port, servers = written
    await notices.tell_now(networks, servers)
    if plan.trims:
        crash_point("port.after-unassign")
        await releases.work_off_now(networks, [port_id])
    return port


async def delete_port(networks: Networks, port_id: str, *, revision: int | None = None) -> None:
    """Delete any port that clients see, a server's too: unassign its addresses, then give its claim back.

    An ACTIVE server loses the NIC. A build that holds the port ends in ERROR. revision: None for any.
    Raises PortNotFound, RevisionNumberConstraintFailed.
    """
    async with networks.database.transaction() as tx:
        port = await _lock_shown(tx, port_id, revision)
        if gone := readdressing.list_leaving(port, None, ()):
            await unknown_guests.hold_left(networks, tx, port, gone)
        servers = await releases.remove_ports(networks, tx, [port])
    crash_point("port.after-unassign")
    await notices.tell_now(networks, servers)
    await releases.work_off_now(networks, [port_id])


@after_releases
async def _begin(
    networks: Networks, intents: Intents, port_id: str, changes: PortChanges, owner: Owner | None, *, activates: bool
) -> tuple[ChangePlan, _Written | None]:
    """Decide what a change does and write it; where it needs a claim, only open an intent.

    Return the plan, and what was written; None where the plan is to be claimed first.
    """
    async with networks.database.transaction() as tx:
        port = await _lock_for_client(tx, port_id, changes.revision)
        if changes.device_id not in (None, "", port.device_id):
            await unknown_guests.refuse_plugged(tx, port, changes.device_id)
        device_owner = port.device_owner if changes.device_owner is None else changes.device_owner
        requests.refuse_surplus(changes.fixed_ips, device_owner, most=networks.settings.max_fixed_ips_per_port)
        if owner is not None and changes.device_id in (None, port.device_id) and changes.host != (port.host or ""):
            _refuse_host_change(port, owner)
        await list_claiming(tx, [port_id])
        if activates:
            changes = await _activation(tx, port, changes.host or "")
        changed = readdressing.apply_changes(port, changes)
        reads = changes.fixed_ips is not None or changed.host not in (None, port.host)
        state = await addresses.read_network(tx, port.network_id, changed.host or "") if reads else None
        plan = readdressing.plan_change(port, changed, changes.fixed_ips, state)
        await addresses.refuse_taken(tx, plan.placings)
        if not plan.needs_claim:
            return plan, await _write(networks, tx, plan, plan.placings, activates=activates)
        await intents.open(tx, [port_id])
        return plan, None


async def _activation(tx: Connection, port: Port, host: str) -> PortChanges:
    """Return the changes that make the port's binding on the host its active one."""
    binding = _pick_binding(port.id, host, await _list_bindings_of(tx, port))
    if binding.active:
        raise PortBindingAlreadyActive(f"Binding for port {port.id} on host {binding.host} is already active.")
    return PortChanges(host=binding.host, vnic_type=binding.vnic_type, binding_profile=binding.profile)


async def _lock_shown(tx: Connection, port_id: str, revision: int | None) -> Port:
    """Lock a port that clients see; return it. Raises PortNotFound, RevisionNumberConstraintFailed."""
    ports_shown = [port for port in (await port_rows.lock_ports(tx, [port_id])).values() if not port.hidden]
    return pick_revision(ports_shown, PortNotFound, "Port", port_id, revision)


async def _lock_for_client(tx: Connection, port_id: str, revision: int | None = None) -> Port:
    """Lock a port that a client changes; return it. Raises as _lock_shown does, and PortInUse."""
    port = await _lock_shown(tx, port_id, revision)
    if port.reserved_from is not None:
        raise PortInUse(f"Server {port.device_id} is being built with port {port_id}: wait until it is, or delete it.")
    return port


async def find_owner(networks: Networks, port_id: str) -> Owner:
    """Return the device that has the port. Call it before locking anything: it asks the compute service."""
    ports_read = await list_ports(networks, PortFilter(ids=(port_id,)))
    device_id = ports_read[0].device_id if ports_read else ""
    server_ids = [device_id] if is_server_id(device_id) else []
    return device_id, bool(server_ids and await networks.compute.get_server_states(server_ids))


def _refuse_host_change(port: Port, owner: Owner) -> None:
    """Raise PortChanged when another device has the port by now, PortInUse when the device is a server.

    A server's port is on its server's host: a client moves it with the server.
    """
    device_id, is_server = owner
    if port.device_id != device_id:
        raise PortChanged(f"Port {port.id} changed while it was being looked at: repeat the request.")
    if is_server:
        raise PortInUse(f"Port {port.id} is on {port.host} with server {port.device_id}: it moves with the server.")


async def _write(
    networks: Networks, tx: Connection, plan: ChangePlan, placings: Sequence[Placing], *, activates: bool
) -> _Written:
    """Write the planned change of the locked port. placings: what it gets, claimed.

    One statement locks the subnets of all providers concerned: a second one could lock a new subnet out of order.
    hold_left and take_back lock no others after it. Raises IpAddressAlreadyAllocated, IpAddressGenerationFailure.
    """
    port = plan.before
    renews = readdressing.renews(port, plan.after)
    touches_addresses = bool(placings or plan.dropped or renews)
    providers = {item.provider_uuid for item in port.addresses} | {placing.provider_uuid for placing in placings}
    locked = await address_rows.lock_provider_subnets(tx, sorted(providers)) if touches_addresses else {}
    async with telling(networks, tx, [port.id]):
        try:
            await resources.update(tx, "port", [plan.after])
        except asyncpg.UniqueViolationError as error:
            text = f"The mac address {plan.after.mac_address} is in use in the port's network."
            raise MacAddressInUse(text) from error
        if gone := readdressing.list_leaving(port, plan.after, plan.dropped):
            await unknown_guests.hold_left(networks, tx, port, gone)
        if plan.after.host != port.host:
            await _move_binding(tx, port, plan.after.host, activates=activates)
        if is_of_server(port.device_owner) and not is_of_server(plan.after.device_owner):
            await port_rows.delete_bindings(tx, [(port.id, None)])
        if plan.dropped:
            await addresses.take_back(tx, plan.dropped)
        for placing in placings:
            await addresses.give_one(networks, tx, plan.after, placing, locked)
        if renews:
            providers_kept = {item.provider_uuid for item in plan.after.addresses}
            subnets = [subnet for uuid in providers_kept for subnet in locked.get(uuid, ())]
            await addresses.renew_automatic(networks, tx, plan.after, subnets)
        if plan.trims:
            await claim_rows.insert_releases(tx, [port.id])
        is_told = touches_addresses or _list_told(port) != _list_told(plan.after)
        servers = await notices.note(tx, [port, plan.after]) if is_told else []
    (port_written,) = await port_rows.list_ports(tx, PortFilter(ids=(port.id,)))
    return port_written, servers


async def _move_binding(tx: Connection, port: Port, host: str | None, *, activates: bool) -> None:
    """Delete the inactive binding on the host that the port moves to. activates: the active one becomes inactive."""
    if host is not None:
        await port_rows.delete_bindings(tx, [(port.id, host)])
    if activates and port.host is not None:
        old = Binding(host=port.host, vnic_type=port.vnic_type, profile=port.binding_profile, active=False)
        await port_rows.put_binding(tx, port.id, old)


def _list_told(port: Port) -> tuple[object, ...]:
    """Return what a server shows of a port, and what its guest's host is told of it, beside the addresses."""
    return port.device_id, port.mac_address, port.port_security_enabled, port.allowed_address_pairs


async def list_bindings(networks: Networks, port_id: str) -> list[Binding]:
    """Return the port's bindings, the active one first; its host is "" while the port is unbound.

    Raises PortNotFound, PortNotCompute.
    """
    async with networks.database.transaction(snapshot=True) as tx:
        ports_read = await port_rows.list_ports(tx, PortFilter(ids=(port_id,)))
        return await _list_bindings_of(tx, pick(ports_read, PortNotFound, "Port", port_id))


async def get_binding(networks: Networks, port_id: str, host: str) -> Binding:
    """Return the port's binding on the host. Raises PortNotFound, PortNotCompute, PortBindingNotFound."""
    return _pick_binding(port_id, host, await list_bindings(networks, port_id))


async def create_binding(networks: Networks, port_id: str, wanted: Binding) -> Binding:
    """Add an inactive binding, which assigns no address.

    Its host must reach the port's addresses; if the port has none, some segment of its network.
    Raises PortNotFound, PortInUse, PortNotCompute, PortBindingAlreadyExists, HostNotConnectedToAnySegment,
    HostNotCompatibleWithFixedIps.
    """
    binding_new = replace(wanted, vif_type=VIF_TYPE_BOUND, active=False)
    async with networks.database.transaction() as tx:
        port = await _lock_for_client(tx, port_id)
        if any(binding.host == wanted.host for binding in await _list_bindings_of(tx, port)):
            raise PortBindingAlreadyExists(f"Binding for port {port_id} on host {wanted.host} already exists.")
        state = await addresses.read_network(tx, port.network_id, wanted.host)
        requests.refuse_host(port, state)
        await port_rows.put_binding(tx, port_id, binding_new)
        await resources.touch(tx, "port", [port_id])
    return binding_new


async def update_binding(
    networks: Networks, port_id: str, host: str, *, vnic_type: str | None, profile: str | None
) -> Binding:
    """Change a binding; None leaves a value as it is.

    Raises PortNotFound, PortInUse, PortNotCompute, PortBindingNotFound.
    """
    async with networks.database.transaction() as tx:
        port = await _lock_for_client(tx, port_id)
        binding = _pick_binding(port_id, host, await _list_bindings_of(tx, port))
        changed = replace(
            binding, vnic_type=vnic_type or binding.vnic_type, profile=binding.profile if profile is None else profile
        )
        if binding.active:
            new = replace(port, vnic_type=changed.vnic_type, binding_profile=changed.profile)
            async with telling(networks, tx, [port_id]):
                await resources.update(tx, "port", [new])
        else:
            await port_rows.put_binding(tx, port_id, changed)
            await resources.touch(tx, "port", [port_id])
    return changed


async def delete_binding(networks: Networks, port_id: str, host: str) -> None:
    """Delete a binding. Deleting the active one unbinds the port.

    Raises PortNotFound, PortInUse, PortNotCompute, PortBindingNotFound, PortChanged.
    """
    async with networks.database.transaction() as tx:
        port = await _lock_for_client(tx, port_id)
        binding = _pick_binding(port_id, host, await _list_bindings_of(tx, port))
        if not binding.active:
            await port_rows.delete_bindings(tx, [(port_id, host)])
            await resources.touch(tx, "port", [port_id])
            return
    try:
        await update_port(networks, port_id, PortChanges(host="", revision=port.revision))
    except RevisionNumberConstraintFailed as error:  # the caller named none
        raise PortChanged(f"Port {port_id} changed while it was being unbound: repeat the request.") from error


async def activate_binding(networks: Networks, port_id: str, host: str) -> Binding:
    """Make an inactive binding the active one, and the active one inactive.

    An unbound port whose allocation is deferred gets its address.

    Raises PortNotCompute, PortBindingNotFound, PortBindingAlreadyActive, and what update_port raises.
    """
    return (await update_port(networks, port_id, PortChanges(host=host), activates=True)).binding


async def _list_bindings_of(tx: Connection, port: Port) -> list[Binding]:
    """Return the port's bindings, the active one first; its host is "" while it is unbound. Raises PortNotCompute."""
    if not is_of_server(port.device_owner):
        raise PortNotCompute(f"Bad port request: Invalid port {port.id}. Operation only valid on compute ports.")
    return [port.binding, *await port_rows.list_inactive_bindings(tx, port.id)]


def _pick_binding(port_id: str, host: str, bindings: Sequence[Binding]) -> Binding:
    """Return the binding that is on the host. Raises PortBindingNotFound."""
    on_host = [binding for binding in bindings if binding.host == host]
    return pick(on_host, PortBindingNotFound, f"Binding for port {port_id} for host", host)
