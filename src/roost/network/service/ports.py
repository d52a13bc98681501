"""Ports as clients make, change and delete them."""

from collections.abc import Sequence

import asyncpg
import msgspec

from roost.network import flat, requests
from roost.network.errors import (
    IpAddressAlreadyAllocated,
    IpAddressGenerationFailure,
    MacAddressInUse,
    NetworkNotFound,
    OverQuota,
    PortChanged,
    PortNotFound,
)
from roost.network.model import (
    VIF_TYPE_BOUND,
    VIF_TYPE_UNBOUND,
    Port,
    PortChanges,
    PortFilter,
    PortRequest,
)
from roost.network.requests import AddressPlan
from roost.network.revisions import refuse_other_revision
from roost.network.service import Networks, assignments, port_updates, quotas, releases
from roost.network.service.bulk import create_all
from roost.network.service.macs import canonical_mac, new_mac
from roost.network.store import claims
from roost.network.store import networks as store
from roost.network.store import ports as port_rows
from roost.platform.crash import crash_point
from roost.platform.database import Connection

MAC_ROUNDS_MAX = 8


async def list_ports(networks: Networks, wanted: PortFilter) -> list[Port]:
    """Ports with their addresses, by id."""
    async with networks.database.transaction(snapshot=True) as tx:
        return await port_rows.list_ports(tx, wanted)


async def get_port(networks: Networks, port_id: str) -> Port:
    """One port. Raises PortNotFound."""
    found = await list_ports(networks, PortFilter(ids=(port_id,)))
    if not found:
        raise PortNotFound(f"Port {port_id} could not be found.")
    return found[0]


async def create_port(networks: Networks, request: PortRequest) -> Port:
    """Make a user's port; an `immediate` one has its claim and its addresses when the call returns.

    Raises NetworkNotFound, OverQuota, what requests.plan_addresses raises, IpAddressAlreadyAllocated,
    IpAddressGenerationFailure, MacAddressInUse, PortChanged.
    """
    port_id = networks.env.new_uuid()
    async with networks.database.transaction() as tx:
        state, host = await assignments.read_network(tx, request.network_id, request.host or "")
        flat.refuse_port(state.network)
        limited = await quotas.refuse_over(networks, tx, "port", {request.project_id: 1})
        plan = requests.plan_addresses(
            port_id,
            state,
            device_owner=request.device_owner,
            host=host,
            host_name=request.host or "",
            fixed_ips=request.fixed_ips,
        )
        await assignments.refuse_taken(tx, plan.placings)
        if plan.placings:
            await assignments.open_intent(networks, tx, port_id, 0)
        else:
            await _insert(networks, tx, _draft(networks, port_id, request, plan))
    if plan.placings:
        await _create_with_address(networks, port_id, request, plan, limited=limited)
    return await get_port(networks, port_id)


async def create_ports(networks: Networks, wanted: Sequence[PortRequest]) -> list[Port]:
    """Make users' ports, all or none. Raises what create_port raises."""
    await quotas.refuse_many(networks, "port", [request.project_id for request in wanted])
    return await create_all(
        wanted, lambda request: create_port(networks, request), lambda port: delete_port(networks, port.id)
    )


async def update_port(networks: Networks, port_id: str, changes: PortChanges) -> Port:
    """Change a port as a client; one that is bound for the first time gets its address, as do named fixed_ips.

    Raises PortNotFound, RevisionNumberConstraintFailed, PortInUse while a server's build holds it, PortBound,
    MacAddressInUse, what requests.plan_addresses and readdressing raise, IpAddressAlreadyAllocated,
    IpAddressGenerationFailure, PortChanged.
    """
    try:
        await port_updates.update_port(networks, port_id, changes)
    except asyncpg.UniqueViolationError as error:
        raise MacAddressInUse(f"The mac address {changes.mac_address} is in use in the port's network.") from error
    return await get_port(networks, port_id)


async def delete_port(networks: Networks, port_id: str, *, revision: int | None = None) -> None:
    """Delete any port, a server's too: its addresses are unassigned, then its claim is given back.

    revision: the one it must have. Raises PortNotFound, RevisionNumberConstraintFailed.
    """
    async with networks.database.transaction() as tx:
        found = await port_rows.lock_ports(tx, [port_id])
        if port_id not in found:
            raise PortNotFound(f"Port {port_id} could not be found.")
        refuse_other_revision("Port", port_id, has=found[port_id].revision, wanted=revision)
        await assignments.unassign(tx, [(item.subnet_id, item.address) for item in found[port_id].addresses])
        await port_rows.delete(tx, [port_id])
        await claims.insert_releases(tx, [port_id])
    crash_point("port.after-unassign")
    await releases.work_off_now(networks, [port_id])


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
                await quotas.refuse_over(networks, tx, "port", {request.project_id: 1})
            await _insert(networks, tx, _draft(networks, port_id, request, plan))
            await assignments.assign(networks, tx, port_id, placing)
    except (
        PortChanged,
        IpAddressAlreadyAllocated,
        IpAddressGenerationFailure,
        MacAddressInUse,
        NetworkNotFound,
        OverQuota,
    ):
        await releases.abandon(networks, port_id)
        raise
    crash_point("port.after-assign")


async def _insert(networks: Networks, tx: Connection, port: Port) -> None:
    given = bool(port.mac_address)
    for _ in range(MAC_ROUNDS_MAX):
        mac = port.mac_address if given else new_mac(networks.env.random)
        if await port_rows.insert(tx, msgspec.structs.replace(port, mac_address=mac)):
            return
        if given:
            break
    raise MacAddressInUse(f"The mac address {mac} is in use in network {port.network_id}: choose another.")


def _draft(networks: Networks, port_id: str, request: PortRequest, plan: AddressPlan) -> Port:
    now = networks.env.now()
    return Port(
        id=port_id,
        network_id=request.network_id,
        project_id=request.project_id,
        name=request.name,
        description=request.description,
        mac_address=canonical_mac(request.mac_address) if request.mac_address else "",
        admin_state_up=request.admin_state_up,
        device_id=request.device_id,
        device_owner=request.device_owner,
        ip_allocation=plan.ip_allocation,
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
