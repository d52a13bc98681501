"""A client's change of a port: what it has is locked, what it needs is claimed, and all of it is written at once.

Addresses that come are claimed beside those that the port has, before anything is written; a release row trims the
claim afterwards. Between any two steps a crash leaves at most a claim that is too large: the intent's expiry, or the
release row, sees to it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from roost.network.errors import (
    PortChanged,
    PortInUse,
    PortNotFound,
)
from roost.network.model.networks import SubnetKind
from roost.network.model.ports import VIF_TYPE_BOUND, VIF_TYPE_UNBOUND, Address, Binding, Port, PortChanges, PortFilter
from roost.network.rules import readdressing, requests, uses
from roost.network.rules.holdings import claim_of
from roost.network.rules.port_bindings import is_of_server
from roost.network.rules.requests import Placing
from roost.network.rules.revisions import refuse_other_revision
from roost.network.service import Networks, assignments, automatic, notices, releases
from roost.network.service.macs import canonical_mac
from roost.network.service.notifications import telling
from roost.network.store import addresses, claims, port_bindings
from roost.network.store import ports as port_rows
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.seams.placement import Allocations, add_allocations, covers_allocations, same_allocations

RELEASE_ROUNDS_MAX = 8


class _Change(Struct, frozen=True):
    """What becomes of a port. dropped: addresses that go. placings: alternatives for those that come, none for none.

    needs_claim: the ledger has to be asked first. trims: the claim is larger than what is left when all is written.
    renews: the addresses that follow from its MAC are others. keeps_binding: the active one becomes inactive.
    """

    port: Port
    dropped: tuple[Address, ...] = ()
    placings: tuple[Placing, ...] = ()
    needs_claim: bool = False
    trims: bool = False
    renews: bool = False
    keeps_binding: bool = False


Activating = Callable[[Connection, Port], Awaitable[PortChanges]]


class Owner(Struct, frozen=True):
    """Who has a port; is_server: a server of this cloud."""

    device_id: str = ""
    is_server: bool = False


async def update_port(
    networks: Networks, port_id: str, changes: PortChanges, *, activating: Activating | None = None
) -> None:
    """See ports.update_port. Raises asyncpg's UniqueViolationError for a MAC address that another port has.

    activating: an inactive binding; says under the port's lock what is changed. The active one becomes inactive.
    """
    owner = await find_owner(networks, port_id) if changes.host is not None else Owner()
    async with releases.abandoning(networks, port_id) as tickets:
        port, change, servers = await _begin(networks, port_id, changes, owner, activating, tickets)
        if tickets:
            servers = await _claim_and_write(networks, port, change, tickets[0])
    await notices.tell_now(networks, servers)
    if change.trims:
        crash_point("port.after-unassign")
        await releases.work_off_now(networks, [port_id])


async def _begin(
    networks: Networks,
    port_id: str,
    changes: PortChanges,
    owner: Owner,
    activating: Activating | None,
    tickets: list[int],
) -> tuple[Port, _Change, list[str]]:
    """The port as it is, what becomes of it, and the servers that are to be told of what is written already.

    Where a claim is needed first, nothing is written, and the ticket of its intent goes to the tickets.
    """
    for _ in range(RELEASE_ROUNDS_MAX):
        async with networks.database.transaction() as tx:
            port = await lock_for_client(tx, port_id, changes.revision)
            device_owner = port.device_owner if changes.device_owner is None else changes.device_owner
            most = networks.settings.max_fixed_ips_per_port
            requests.refuse_surplus(changes.fixed_ips, device_owner, most=most)
            if changes.device_id in (None, port.device_id) and changes.host not in (None, port.host or ""):
                _refuse_leaving(port, owner)
            releasing, _claiming = await claims.list_busy(tx, [port_id])
            if not releasing:
                if activating is not None:
                    changes = await activating(tx, port)
                change = await _plan(tx, port, changes)
                change = msgspec.structs.replace(
                    change,
                    renews=readdressing.renews(port, change.port),
                    keeps_binding=activating is not None,
                )
                if not change.needs_claim:
                    locked = await _lock_subnets(tx, port, change, change.placings)
                    return port, change, await _write(networks, tx, port, change, change.placings, locked)
                await assignments.refuse_taken(tx, change.placings)
                tickets.append(await assignments.open_intent(networks, tx, port_id))
                return port, change, []
        await releases.work_off(networks, [port_id])
    raise PortChanged(f"The claim of port {port_id} is still being given back: repeat the request.")


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


async def _claim_and_write(networks: Networks, port: Port, change: _Change, ticket: int) -> list[str]:
    """ticket: of the port's intent, which is open."""
    held = claim_of(port.addresses)
    placing = await assignments.claim_any(networks, port.id, port.project_id, change.placings, ticket=ticket, held=held)
    async with networks.database.transaction() as tx:
        found = await port_rows.lock_ports(tx, [port.id])
        now = found.get(port.id)
        if now is None or now.revision != port.revision:
            raise PortChanged(f"Port {port.id} changed while it was given an address: repeat the request.")
        await assignments.close_intent(tx, port.id, ticket)
        locked = await _lock_subnets(tx, port, change, [placing])
        servers = await _write(networks, tx, port, change, [placing], locked)
    crash_point("port.after-assign")
    return servers


async def _lock_subnets(
    tx: Connection, port: Port, change: _Change, placings: Sequence[Placing]
) -> dict[str, tuple[SubnetKind, ...]]:
    """Those of all providers concerned, by provider: all at once, by id, for one that came since may be before one that
    is locked already. None if no address is.
    """
    if not (placings or change.dropped or change.renews):
        return {}
    providers = {item.provider_uuid for item in port.addresses}
    providers.update(placing.provider_uuid for placing in placings)
    return await addresses.lock_provider_subnets(tx, sorted(providers))


async def _write(
    networks: Networks,
    tx: Connection,
    port: Port,
    change: _Change,
    placings: Sequence[Placing],
    locked: Mapping[str, tuple[SubnetKind, ...]],
) -> list[str]:
    """Everything at once; the port and the subnets are locked. Returns the servers that are to be told.

    Raises IpAddressAlreadyAllocated, IpAddressGenerationFailure.
    """
    async with telling(networks, tx, [port.id]):
        await port_rows.update(tx, change.port)
        if change.port.host != port.host:
            await _move_binding(tx, port, change)
        if is_of_server(port.device_owner) and not is_of_server(change.port.device_owner):
            await port_bindings.delete_all(tx, port.id)
        if change.dropped:
            await assignments.unassign(tx, [(item.subnet_id, item.address) for item in change.dropped])
        for placing in placings:
            await assignments.assign_claimed(networks, tx, port.id, placing, locked.get(placing.provider_uuid, ()))
        if change.renews:
            kept = tuple(item for item in port.addresses if item not in change.dropped)
            behind = [subnet for uuid in {item.provider_uuid for item in kept} for subnet in locked.get(uuid, ())]
            await automatic.renew(tx, msgspec.structs.replace(change.port, addresses=kept), behind)
        if change.trims:
            await claims.insert_releases(tx, [change.port.id])
        if not (change.dropped or placings or change.renews) and _shown(port) == _shown(change.port):
            return []
        return await notices.note(tx, port, change.port)


async def _move_binding(tx: Connection, port: Port, change: _Change) -> None:
    """The active binding goes to another host: an inactive one there is no more."""
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
        return _Change(changed)
    state, host = await assignments.read_network(tx, port.network_id, changed.host)
    if port.addresses or port.ip_allocation != requests.DEFERRED or port.host is not None:
        requests.refuse_host(changed, port.addresses, state, host=host, host_name=changed.host)
        return _Change(changed)
    plan = requests.plan_addresses(
        port.id, state, device_owner=changed.device_owner, host=host, host_name=changed.host, fixed_ips=None
    )
    return _Change(changed, placings=plan.placings, needs_claim=bool(plan.placings))


async def _plan_fixed_ips(tx: Connection, port: Port, changed: Port, changes: PortChanges) -> _Change:
    assert changes.fixed_ips is not None
    host_name = changed.host or ""
    state, host = await assignments.read_network(tx, port.network_id, host_name)
    follows = uses.gets_automatic(changed.device_owner)
    following = {subnet.id for subnet in state.subnets if follows and uses.is_automatic(subnet)}
    matched = readdressing.match(port.addresses, changes.fixed_ips, following)
    placings: tuple[Placing, ...] = ()
    if matched.wanted:
        plan = requests.plan_addresses(
            port.id,
            state,
            device_owner=changed.device_owner,
            host=host,
            host_name=host_name,
            fixed_ips=matched.wanted,
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
        await assignments.refuse_taken(tx, placings)
    return _Change(
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
