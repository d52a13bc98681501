"""A client's change of a port: what it has is locked, what it needs is claimed, and all of it is written at once.

Addresses that come are claimed beside those that the port has, before anything is written; a release row trims the
claim afterwards. Between any two steps a crash leaves at most a claim that is too large: the intent's expiry, or the
release row, sees to it.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from roost.network.errors import (
    PortBindingAlreadyActive,
    PortBindingNotFound,
    PortChanged,
    PortInUse,
    PortNotCompute,
    PortNotFound,
)
from roost.network.model.ports import VIF_TYPE_BOUND, VIF_TYPE_UNBOUND, Address, Binding, Port, PortChanges, PortFilter
from roost.network.rules import readdressing, requests, uses
from roost.network.rules.holdings import claim_of
from roost.network.rules.port_bindings import is_of_server
from roost.network.rules.requests import Placing
from roost.network.rules.revisions import refuse_other_revision
from roost.network.service import Networks, addresses, automatic, notices, releases
from roost.network.service.addresses import Intents, Want
from roost.network.service.macs import canonical_mac
from roost.network.service.notifications import telling
from roost.network.store import addresses as address_rows
from roost.network.store import claims, port_bindings
from roost.network.store import ports as port_rows
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.seams.placement import Allocations, add_allocations, covers_allocations, same_allocations

RELEASE_ROUNDS_MAX = 8


class _Change(Struct, frozen=True):
    """What becomes of a port. dropped: addresses that go. placings: alternatives for those that come, none for none.

    before: the port as it was locked. needs_claim: the ledger has to be asked first. trims: the claim is larger than
    what is left when all is written. renews: the addresses that follow from its MAC are others. keeps_binding: the
    active one becomes inactive.
    """

    before: Port
    port: Port
    dropped: tuple[Address, ...] = ()
    placings: tuple[Placing, ...] = ()
    needs_claim: bool = False
    trims: bool = False
    renews: bool = False
    keeps_binding: bool = False


class Owner(Struct, frozen=True):
    """Who has a port; is_server: a server of this cloud."""

    device_id: str = ""
    is_server: bool = False


async def update_port(networks: Networks, port_id: str, changes: PortChanges, *, activates: bool = False) -> None:
    """See ports.update_port. Raises asyncpg's UniqueViolationError for a MAC address that another port has.

    activates: the inactive binding on the host becomes the active one, and that inactive.
    """
    owner = await find_owner(networks, port_id) if changes.host is not None else Owner()
    async with Intents(networks) as intents:
        for _ in range(RELEASE_ROUNDS_MAX):
            async with networks.database.transaction() as tx:
                change = await _decide(networks, tx, port_id, changes, owner, activates=activates)
                servers: list[str] = []
                if change is not None and change.needs_claim:
                    await addresses.refuse_taken(tx, change.placings)
                    await intents.open(tx, port_id)
                elif change is not None:
                    servers = await _write(networks, tx, change, change.placings)
            if change is not None:
                break
            await releases.work_off(networks, [port_id])
        else:
            raise PortChanged(f"The claim of port {port_id} is still being given back: repeat the request.")
        if change.needs_claim:
            servers = await _claim_and_write(networks, change, intents)
    await notices.tell_now(networks, servers)
    if change.trims:
        crash_point("port.after-unassign")
        await releases.work_off_now(networks, [port_id])


async def _decide(
    networks: Networks, tx: Connection, port_id: str, changes: PortChanges, owner: Owner, *, activates: bool
) -> _Change | None:
    """Lock the port; return what becomes of it, None while its claim is being given back."""
    port = await lock_for_client(tx, port_id, changes.revision)
    device_owner = port.device_owner if changes.device_owner is None else changes.device_owner
    requests.refuse_surplus(changes.fixed_ips, device_owner, most=networks.settings.max_fixed_ips_per_port)
    if changes.device_id in (None, port.device_id) and changes.host not in (None, port.host or ""):
        _refuse_leaving(port, owner)
    releasing, _claiming = await claims.list_busy(tx, [port_id])
    if releasing:
        return None
    if activates:
        binding = binding_on(port_id, changes.host or "", await list_bindings(tx, port))
        if binding.active:
            raise PortBindingAlreadyActive(f"Binding for port {port_id} on host {binding.host} is already active.")
        changes = PortChanges(host=binding.host, vnic_type=binding.vnic_type, binding_profile=binding.profile)
    change = await _plan(tx, port, changes)
    renews = readdressing.renews(port, change.port)
    return msgspec.structs.replace(change, renews=renews, keeps_binding=activates)


async def list_bindings(tx: Connection, port: Port) -> list[Binding]:
    """Return the port's bindings, the active one first; its host is "" while it is unbound. Raises PortNotCompute."""
    if not is_of_server(port.device_owner):
        raise PortNotCompute(f"Bad port request: Invalid port {port.id}. Operation only valid on compute ports.")
    active = Binding(
        host=port.host or "", vnic_type=port.vnic_type, profile=port.binding_profile, vif_type=port.vif_type
    )
    return [active, *await port_bindings.list_inactive(tx, port.id)]


def binding_on(port_id: str, host: str, bindings: Sequence[Binding]) -> Binding:
    """Return the binding that is on the host. Raises PortBindingNotFound."""
    for binding in bindings:
        if binding.host == host:
            return binding
    raise PortBindingNotFound(f"Binding for port {port_id} for host {host} could not be found.")


async def lock_for_client(tx: Connection, port_id: str, revision: int | None = None) -> Port:
    """The port, locked for a change of a client's. Raises PortNotFound, RevisionNumberConstraintFailed, PortInUse."""
    found = await port_rows.lock_ports(tx, [port_id])
    if port_id not in found or found[port_id].hidden:
        raise PortNotFound(f"Port {port_id} could not be found.")
    port = found[port_id]
    refuse_other_revision("Port", port_id, has=port.revision, wanted=revision)
    if port.reserved_from is not None:
        raise PortInUse(f"Server {port.device_id} is being built with port {port_id}: wait until it is, or delete it.")
    return port


async def find_owner(networks: Networks, port_id: str) -> Owner:
    """The server of this cloud that has the port: the compute service is asked before anything is locked."""
    async with networks.database.transaction() as tx:
        found = await port_rows.list_ports(tx, PortFilter(ids=(port_id,)))
    device_id = found[0].device_id if found else ""
    asked = [device_id] if notices.is_server_id(device_id) else []
    return Owner(device_id, bool(asked and await networks.compute.get_server_states(asked)))


def _refuse_leaving(port: Port, owner: Owner) -> None:
    """Raise PortInUse where a client would put a server's port on another host than its server.

    Raises PortChanged when the port has changed hands since the owner was looked for.
    """
    if port.device_id != owner.device_id:
        raise PortChanged(f"Port {port.id} changed while it was being looked at: repeat the request.")
    if owner.is_server:
        raise PortInUse(f"Port {port.id} is on {port.host} with server {port.device_id}: it moves with the server.")


async def _claim_and_write(networks: Networks, change: _Change, intents: Intents) -> list[str]:
    """Claim beside what the port has, under its open intent, then write. Returns the servers that are to be told."""
    port = change.before
    want = Want(
        port_id=port.id,
        project_id=port.project_id,
        placings=change.placings,
        held=claim_of(port.addresses),
        ticket=intents.tickets[port.id],
    )
    placing = await addresses.claim_one(networks, want)
    async with networks.database.transaction() as tx:
        now = (await port_rows.lock_ports(tx, [port.id])).get(port.id)
        if now is None or now.revision != port.revision:
            raise PortChanged(f"Port {port.id} changed while it was given an address: repeat the request.")
        await intents.close(tx, port.id)
        servers = await _write(networks, tx, change, [placing])
    crash_point("port.after-assign")
    return servers


async def _write(networks: Networks, tx: Connection, change: _Change, placings: Sequence[Placing]) -> list[str]:
    """Write everything at once; the port is locked. Returns the servers that are to be told.

    The subnets of all providers concerned are locked by one statement: one that came since may be before one that is
    locked already. Raises IpAddressAlreadyAllocated, IpAddressGenerationFailure.
    """
    port = change.before
    touches_addresses = bool(placings or change.dropped or change.renews)
    providers = {item.provider_uuid for item in port.addresses} | {placing.provider_uuid for placing in placings}
    locked = await address_rows.lock_provider_subnets(tx, sorted(providers)) if touches_addresses else {}
    async with telling(networks, tx, [port.id]):
        await port_rows.update(tx, change.port)
        if change.port.host != port.host:
            await _move_binding(tx, change)
        if is_of_server(port.device_owner) and not is_of_server(change.port.device_owner):
            await port_bindings.delete_all(tx, port.id)
        if change.dropped:
            await addresses.take_back(tx, [(item.subnet_id, item.address) for item in change.dropped])
        for placing in placings:
            await addresses.give_one(networks, tx, change.port, placing, locked)
        if change.renews:
            kept = tuple(item for item in port.addresses if item not in change.dropped)
            behind = [subnet for uuid in {item.provider_uuid for item in kept} for subnet in locked.get(uuid, ())]
            await automatic.renew(tx, msgspec.structs.replace(change.port, addresses=kept), behind)
        if change.trims:
            await claims.insert_releases(tx, [port.id])
        if not touches_addresses and _shown(port) == _shown(change.port):
            return []
        return await notices.note(tx, port, change.port)


async def _move_binding(tx: Connection, change: _Change) -> None:
    """Move the active binding to another host, where an inactive one is no more."""
    port = change.before
    if change.port.host is not None:
        await port_bindings.delete(tx, port.id, [change.port.host])
    if change.keeps_binding and port.host is not None:
        old = Binding(host=port.host, vnic_type=port.vnic_type, profile=port.binding_profile, active=False)
        await port_bindings.put(tx, port.id, old)


def _shown(port: Port) -> tuple[str, str]:
    """What of a port a server shows, beside the addresses."""
    return port.device_id, port.mac_address


async def _plan(tx: Connection, port: Port, changes: PortChanges) -> _Change:
    changed = _changed(port, changes)
    readdressing.refuse_mac_address(port, changed.mac_address)
    if changes.fixed_ips is not None:
        return await _plan_fixed_ips(tx, port, changed, changes)
    if not changed.host or changed.host == port.host:
        return _Change(port, changed)
    state, host = await addresses.read_network(tx, port.network_id, changed.host)
    if port.addresses or port.ip_allocation != requests.DEFERRED or port.host is not None:
        requests.refuse_host(changed, port.addresses, state, host=host, host_name=changed.host)
        return _Change(port, changed)
    plan = requests.plan_addresses(
        port.id, state, device_owner=changed.device_owner, host=host, host_name=changed.host, fixed_ips=None
    )
    return _Change(port, changed, placings=plan.placings, needs_claim=bool(plan.placings))


async def _plan_fixed_ips(tx: Connection, port: Port, changed: Port, changes: PortChanges) -> _Change:
    assert changes.fixed_ips is not None
    host_name = changed.host or ""
    state, host = await addresses.read_network(tx, port.network_id, host_name)
    follows = uses.gets_automatic(changed.device_owner)
    following = {subnet.id for subnet in state.subnets if follows and uses.is_automatic(subnet)}
    matched = readdressing.match(port.addresses, changes.fixed_ips, following)
    placings: tuple[Placing, ...] = ()
    if matched.missing:
        plan = requests.plan_addresses(
            port.id,
            state,
            device_owner=changed.device_owner,
            host=host,
            host_name=host_name,
            fixed_ips=matched.missing,
        )
        placings = plan.placings
    matched = readdressing.settle(changed, matched, placings[0] if placings else None)
    readdressing.refuse_spread(port, matched.kept, placings[0] if placings else None)
    if host_name and host_name != port.host:
        requests.refuse_host(changed, matched.kept, state, host=host, host_name=host_name)
    coming: Allocations = placings[0].claim if placings else {}
    holds, final = claim_of(port.addresses), add_allocations(claim_of(matched.kept), coming)
    needs_claim = not covers_allocations(holds, final)
    if needs_claim:
        holds = add_allocations(holds, coming)
    else:
        await addresses.refuse_taken(tx, placings)
    return _Change(
        port,
        changed,
        dropped=matched.dropped,
        placings=placings,
        needs_claim=needs_claim,
        trims=not same_allocations(holds, final),
    )


def _changed(port: Port, changes: PortChanges) -> Port:
    fields = {
        name: value
        for name in ("name", "description", "admin_state_up", "device_id", "device_owner", "vnic_type")
        if (value := getattr(changes, name)) is not None
    }
    if changes.device_id and changes.device_id != port.made_for:
        fields["made_for"] = None  # it does not go with the server that it was made for
    if changes.binding_profile is not None:
        fields["binding_profile"] = changes.binding_profile
    if changes.mac_address is not None:
        fields["mac_address"] = canonical_mac(changes.mac_address)
    if changes.host is not None:
        fields["host"] = changes.host or None
        fields["vif_type"] = VIF_TYPE_BOUND if changes.host else VIF_TYPE_UNBOUND
    return msgspec.structs.replace(port, **fields)
