"""Ports as clients make, change and delete them."""

from collections.abc import Sequence

import asyncpg

from roost.network.errors import MacAddressInUse, PortNotFound
from roost.network.model.networks import ListQuery, ListRow
from roost.network.model.ports import Port, PortChanges, PortFilter, PortRequest
from roost.network.service import Networks, creation, leaving, notices, port_updates, quotas, releases
from roost.network.service.recovery import refuse_while_recovering
from roost.network.store import ports as port_rows
from roost.platform.crash import crash_point


async def list_ports(networks: Networks, wanted: PortFilter) -> list[Port]:
    """Return ports with their addresses, by id."""
    async with networks.database.connection() as connection:
        return await port_rows.list_ports(connection, wanted)


async def list_page(networks: Networks, query: ListQuery) -> list[tuple[ListRow, Port]]:
    """Return a page of ports as clients list them, with their addresses. No request of clients is more frequent."""
    async with networks.database.connection() as connection:
        return await port_rows.list_page(connection, query)


async def get_port(networks: Networks, port_id: str) -> Port:
    """Return one port. Raises PortNotFound."""
    ports_read = await list_ports(networks, PortFilter(ids=(port_id,)))
    if not ports_read:
        raise PortNotFound(f"Port {port_id} could not be found.")
    return ports_read[0]


async def create_port(networks: Networks, request: PortRequest) -> Port:
    """Make a user's port. An `immediate` one has its claim and its addresses when the call returns.

    Raises NetworkNotFound, OverQuota, what requests.plan_addresses raises, IpAddressAlreadyAllocated,
    IpAddressGenerationFailure, MacAddressInUse, PortChanged, AddressesWithheld.
    """
    await refuse_while_recovering(networks)
    return await creation.create(networks, request)


async def create_ports(networks: Networks, wanted: Sequence[PortRequest]) -> list[Port]:
    """Make users' ports, all or none; return them in order. Raises what create_port raises."""
    if len(wanted) == 1:
        return [await create_port(networks, wanted[0])]
    await refuse_while_recovering(networks)
    await quotas.refuse_many(networks, "port", [request.project_id for request in wanted])
    return await creation.create_all(networks, wanted)


async def update_port(networks: Networks, port_id: str, changes: PortChanges) -> Port:
    """Change a port as a client.

    A port that is bound for the first time gets its address. Fixed IPs that the changes name are assigned.

    Raises PortNotFound, RevisionNumberConstraintFailed, PortInUse while a server's build holds it, PortBound,
    MacAddressInUse, what requests.plan_addresses and readdressing raise, IpAddressAlreadyAllocated,
    IpAddressGenerationFailure, PortChanged, AddressesWithheld.
    """
    try:
        await port_updates.update_port(networks, port_id, changes)
    except asyncpg.UniqueViolationError as error:
        raise MacAddressInUse(f"The mac address {changes.mac_address} is in use in the port's network.") from error
    return await get_port(networks, port_id)


async def delete_port(networks: Networks, port_id: str, *, revision: int | None = None) -> None:
    """Delete any port that clients see, a server's too: unassign its addresses, then give its claim back.

    An ACTIVE server loses the NIC. A build that holds the port ends in ERROR.

    revision: None for any. Raises PortNotFound, RevisionNumberConstraintFailed.
    """
    async with networks.database.transaction() as tx:
        port = await port_updates.lock_shown(tx, port_id, revision)
        await leaving.leave(networks, tx, port, None)
        servers = await creation.remove(networks, tx, [port])
    crash_point("port.after-unassign")
    await notices.tell_now(networks, servers)
    await releases.work_off_now(networks, [port_id])
