"""A client's change of a port: the port is locked, what it needs is claimed, and one transaction writes everything.

Addresses that come are claimed beside those that the port has, before anything is written; a release row trims the
claim afterwards. A crash between two steps leaves at most a claim that is too large. The reconciler trims it when the
intent expires, or by the release row.
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
from roost.network.rules import port_security, readdressing, requests, uses
from roost.network.rules.holdings import claim_of
from roost.network.rules.macs import canonical_mac
from roost.network.rules.port_bindings import is_of_server, is_server_id
from roost.network.rules.requests import Placing
from roost.network.rules.revisions import refuse_other_revision
from roost.network.service import Networks, addresses, automatic, leaving, notices, releases
from roost.network.service.claims import Intents
from roost.network.service.notifications import telling
from roost.network.service.recovery import refuse_while_recovering
from roost.network.service.releases import ReleasesPending, after_releases
from roost.network.store import addresses as address_rows
from roost.network.store import claims, port_bindings, resources
from roost.network.store import ports as port_rows
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.seams.placement import Allocations, add_allocations, covers_allocations, same_allocations


class _Change(Struct, frozen=True):
    """What a change does to a port.

    before: the port as it was locked. dropped: addresses that it loses. placings: alternatives for the addresses that
    it gets; empty if it gets none. needs_claim: the ledger is asked first. trims: the claim is larger than the
    addresses once they are written. renews: the addresses that follow from its MAC change. keeps_binding: the active
    binding becomes an inactive one.
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
    """Change a port as a client: see ports.update_port.

    activates: the inactive binding on the host becomes the active one, and the active one becomes inactive. Raises
    asyncpg's UniqueViolationError for a MAC address that another port has.
    """
    if changes.fixed_ips is not None or changes.host:
        await refuse_while_recovering(networks)
    owner = await find_owner(networks, port_id) if changes.host is not None else Owner()
    async with Intents(networks) as intents:
        change, servers = await _begin(networks, intents, port_id, changes, owner, activates=activates)
        if change.needs_claim:
            servers = await _claim_and_write(networks, change, intents)
    await notices.tell_now(networks, servers)
    if change.trims:
        crash_point("port.after-unassign")
        await releases.work_off_now(networks, [port_id])


@after_releases
async def _begin(
    networks: Networks, intents: Intents, port_id: str, changes: PortChanges, owner: Owner, *, activates: bool
) -> tuple[_Change, list[str]]:
    """Write a change that needs no claim; open an intent for one that does. Return it and the servers to be told."""
    async with networks.database.transaction() as tx:
        change = await _decide(networks, tx, port_id, changes, owner, activates=activates)
        if not change.needs_claim:
            return change, await _write(networks, tx, change, change.placings)
        await addresses.refuse_taken(tx, change.placings)
        await intents.open(tx, [port_id])
        return change, []


async def _decide(
    networks: Networks, tx: Connection, port_id: str, changes: PortChanges, owner: Owner, *, activates: bool
) -> _Change:
    """Lock the port; return what the change does to it. Raises ReleasesPending while its claim is being given back."""
    port = await lock_for_client(tx, port_id, changes.revision)
    if changes.device_id not in (None, "", port.device_id):
        await leaving.refuse_plugged(tx, port, changes.device_id)
    device_owner = port.device_owner if changes.device_owner is None else changes.device_owner
    requests.refuse_surplus(changes.fixed_ips, device_owner, most=networks.settings.max_fixed_ips_per_port)
    if changes.device_id in (None, port.device_id) and changes.host not in (None, port.host or ""):
        _refuse_leaving(port, owner)
    releasing, _claiming = await claims.list_busy(tx, [port_id])
    if releasing:
        raise ReleasesPending(releasing, f"The claim of port {port_id} is still being given back: repeat the request.")
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


async def lock_shown(tx: Connection, port_id: str, revision: int | None) -> Port:
    """Lock a port that clients see; return it. Raises PortNotFound, RevisionNumberConstraintFailed."""
    port = (await port_rows.lock_ports(tx, [port_id])).get(port_id)
    if port is None or port.hidden:
        raise PortNotFound(f"Port {port_id} could not be found.")
    refuse_other_revision("Port", port_id, has=port.revision, wanted=revision)
    return port


async def lock_for_client(tx: Connection, port_id: str, revision: int | None = None) -> Port:
    """Lock a port that a client changes; return it. Raises as lock_shown does, and PortInUse."""
    port = await lock_shown(tx, port_id, revision)
    if port.reserved_from is not None:
        raise PortInUse(f"Server {port.device_id} is being built with port {port_id}: wait until it is, or delete it.")
    return port


async def find_owner(networks: Networks, port_id: str) -> Owner:
    """Return who has the port. Call it before locking anything: it asks the compute service."""
    async with networks.database.transaction() as tx:
        ports_read = await port_rows.list_ports(tx, PortFilter(ids=(port_id,)))
    device_id = ports_read[0].device_id if ports_read else ""
    server_ids = [device_id] if is_server_id(device_id) else []
    return Owner(device_id, bool(server_ids and await networks.compute.get_server_states(server_ids)))


def _refuse_leaving(port: Port, owner: Owner) -> None:
    """Raise PortChanged when the port's device is not the owner's any more, PortInUse when the owner is a server.

    A server's port is on its server's host: a client moves it with the server.
    """
    if port.device_id != owner.device_id:
        raise PortChanged(f"Port {port.id} changed while it was being looked at: repeat the request.")
    if owner.is_server:
        raise PortInUse(f"Port {port.id} is on {port.host} with server {port.device_id}: it moves with the server.")


async def _claim_and_write(networks: Networks, change: _Change, intents: Intents) -> list[str]:
    """Claim beside what the port has, under its open intent; then write. Return the servers to be told."""
    port = change.before
    placing = await intents.claim(port, change.placings, claim_of(port.addresses))
    async with networks.database.transaction() as tx:
        await intents.resume(tx, port)
        servers = await _write(networks, tx, change, [placing])
    crash_point("port.after-assign")
    return servers


async def _write(networks: Networks, tx: Connection, change: _Change, placings: Sequence[Placing]) -> list[str]:
    """Write the change to the locked port. Return the servers to be told.

    One statement locks the subnets of all providers concerned: a second one could lock a new subnet out of order.
    Raises IpAddressAlreadyAllocated, IpAddressGenerationFailure.
    """
    port = change.before
    touches_addresses = bool(placings or change.dropped or change.renews)
    providers = {item.provider_uuid for item in port.addresses} | {placing.provider_uuid for placing in placings}
    locked = await address_rows.lock_provider_subnets(tx, sorted(providers)) if touches_addresses else {}
    async with telling(networks, tx, [port.id]):
        await resources.update(tx, "port", [change.port])
        await leaving.leave(networks, tx, port, change.port, change.dropped)
        if change.port.host != port.host:
            await _move_binding(tx, change)
        if is_of_server(port.device_owner) and not is_of_server(change.port.device_owner):
            await port_bindings.delete(tx, [(port.id, None)])
        if change.dropped:
            await addresses.take_back(tx, change.dropped)
        for placing in placings:
            await addresses.give_one(networks, tx, change.port, placing, locked)
        if change.renews:
            kept = tuple(item for item in port.addresses if item not in change.dropped)
            subnets = [subnet for uuid in {item.provider_uuid for item in kept} for subnet in locked.get(uuid, ())]
            await automatic.renew(tx, msgspec.structs.replace(change.port, addresses=kept), subnets)
        if change.trims:
            await claims.insert_releases(tx, [port.id])
        if not touches_addresses and _list_told(port) == _list_told(change.port):
            return []
        return await notices.note(tx, port, change.port)


async def _move_binding(tx: Connection, change: _Change) -> None:
    """Move the active binding to another host; delete the inactive one there."""
    port = change.before
    if change.port.host is not None:
        await port_bindings.delete(tx, [(port.id, change.port.host)])
    if change.keeps_binding and port.host is not None:
        old = Binding(host=port.host, vnic_type=port.vnic_type, profile=port.binding_profile, active=False)
        await port_bindings.put(tx, port.id, old)


def _list_told(port: Port) -> tuple[object, ...]:
    """Return what a server shows of a port, and what its guest's host is told of it, beside the addresses."""
    return port.device_id, port.mac_address, port.port_security_enabled, port.allowed_address_pairs


async def _plan(tx: Connection, port: Port, changes: PortChanges) -> _Change:
    changed = _changed(port, changes)
    readdressing.refuse_mac_address(port, changed.mac_address)
    if changes.fixed_ips is not None:
        return await _plan_fixed_ips(tx, port, changed, changes)
    if not changed.host or changed.host == port.host:
        return _Change(port, changed)
    state = await addresses.read_network(tx, port.network_id, changed.host)
    if port.addresses or port.ip_allocation != requests.DEFERRED or port.host is not None:
        requests.refuse_host(changed, port.addresses, state)
        return _Change(port, changed)
    plan = requests.plan_addresses(port.id, state, device_owner=changed.device_owner, fixed_ips=None)
    return _Change(port, changed, placings=plan.placings, needs_claim=bool(plan.placings))


async def _plan_fixed_ips(tx: Connection, port: Port, changed: Port, changes: PortChanges) -> _Change:
    assert changes.fixed_ips is not None
    state = await addresses.read_network(tx, port.network_id, changed.host or "")
    follows = uses.gets_automatic(changed.device_owner)
    following = {subnet.id for subnet in state.subnets if follows and uses.is_automatic(subnet)}
    matched = readdressing.match(port.addresses, changes.fixed_ips, following)
    placings: tuple[Placing, ...] = ()
    if matched.missing:
        plan = requests.plan_addresses(port.id, state, device_owner=changed.device_owner, fixed_ips=matched.missing)
        placings = plan.placings
    matched = readdressing.settle(changed, matched, placings[0] if placings else None)
    readdressing.refuse_spread(port, matched.kept, placings[0] if placings else None)
    if changed.host and changed.host != port.host:
        requests.refuse_host(changed, matched.kept, state)
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


CHANGEABLE = (
    *("name", "description", "admin_state_up", "device_id", "device_owner", "vnic_type"),
    *("port_security_enabled", "allowed_address_pairs"),
)
"""What is written as it is given."""


def _changed(port: Port, changes: PortChanges) -> Port:
    """Return the port as it is to be. Raises InvalidInput, AddressPairAndPortSecurityRequired, and of duplicates."""
    fields = {name: value for name in CHANGEABLE if (value := getattr(changes, name)) is not None}
    if changes.device_id and changes.device_id != port.made_for:
        fields["made_for"] = None  # it does not go with the server that it was made for
    if changes.binding_profile is not None:
        fields["binding_profile"] = changes.binding_profile
    if changes.mac_address is not None:
        fields["mac_address"] = canonical_mac(changes.mac_address)
    if changes.host is not None:
        fields["host"] = changes.host or None
        fields["vif_type"] = VIF_TYPE_BOUND if changes.host else VIF_TYPE_UNBOUND
    changed = msgspec.structs.replace(port, **fields)
    if changes.allowed_address_pairs is not None:
        pairs = port_security.with_own_mac(changes.allowed_address_pairs, changed.mac_address)
        changed = msgspec.structs.replace(changed, allowed_address_pairs=pairs)
    port_security.refuse_pairs_unsecured(changed.allowed_address_pairs, is_secured=changed.port_security_enabled)
    return changed
