"""NICs that a server gets and gives back while it is there. The network service does the work, at one call.

No lock of the server is held meanwhile, since the network service writes what the ports are. So a move that began in
between is looked for afterwards: it may have read the ports before, and the new one is taken off again.
"""

from roost.compute.errors import ActionRefused, PortNotOfServer
from roost.compute.model.server import NicAsked, Permissions, Requester, Server
from roost.compute.rules import actions as rules
from roost.compute.service import action_log
from roost.compute.service.actions import lock_for_action, wait_until_settled, wait_until_unplugged
from roost.compute.service.context import Compute
from roost.compute.service.servers import check_nics, find_only_network, get_server
from roost.platform.errors import RoostError
from roost.seams.compute import ServerPort
from roost.seams.network import PortAttachment


async def attach_interface(
    compute: Compute, server_id: str, nic: NicAsked | None, by: Requester, *, permissions: Permissions | None
) -> ServerPort:
    """Attach a NIC to the server, with addresses that its host reaches; return it. nic: None for the only network.

    Raises ServerNotFound, ActionRefused, ServerRefused, NicForbidden, NetworkAmbiguous, and what attach_port raises.
    """
    await wait_until_settled(compute, server_id)
    async with compute.database.transaction() as tx:
        server = await lock_for_action(tx, server_id, rules.ATTACH, is_admin=by.is_admin)
        assert server.host is not None
        await action_log.begin(
            compute, tx, server_id, rules.ATTACH.name, by, event="compute_attach_interface", host=server.host
        )
    try:
        port_id = await _attach(compute, server, nic, permissions)
    except RoostError as error:
        await _finish(compute, server_id, failure=error.told())
        raise
    await _finish(compute, server_id)
    return find_port(await get_server(compute, server_id), port_id)


async def _attach(compute: Compute, server: Server, nic: NicAsked | None, permissions: Permissions | None) -> str:
    if nic is None:
        only_of = None if permissions is None else server.project_id
        (nic,) = await find_only_network(compute, only_of, must_exist=True)
    await check_nics(compute, [nic], server.project_id, permissions)
    port_id = await compute.network.attach_port(
        PortAttachment(
            server_id=server.id,
            project_id=server.project_id,
            host=server.host or "",
            network_id=nic.network_id,
            port_id=nic.port_id,
            fixed_ip=nic.fixed_ip,
        )
    )
    try:
        async with compute.database.transaction() as tx:
            now = await lock_for_action(tx, server.id, rules.ATTACH, is_admin=True)
        if now.host != server.host:  # R32
            raise ActionRefused(f"Instance {server.id} was moved from {server.host} meanwhile: repeat the request.")
    except RoostError:
        await compute.network.detach_port(server.id, port_id)
        raise
    return port_id


async def detach_interface(compute: Compute, server: Server, port_id: str, by: Requester) -> None:
    """Take a NIC off the server. Raises ServerNotFound, ActionRefused, PortNotOfServer.

    A user's port may be another server's once the guest is without it, which is waited for a while.
    """
    port = find_port(server, port_id)
    await wait_until_settled(compute, server.id)
    async with compute.database.transaction() as tx:
        await lock_for_action(tx, server.id, rules.DETACH, is_admin=by.is_admin)
        await action_log.begin(
            compute, tx, server.id, rules.DETACH.name, by, event="compute_detach_interface", host=server.host
        )
    try:
        await compute.network.detach_port(server.id, port_id)
    except RoostError as error:
        await _finish(compute, server.id, failure=error.told())
        raise
    await _finish(compute, server.id)
    if port.preserve_on_delete:
        await wait_until_unplugged(compute, server.id)


def find_port(server: Server, port_id: str) -> ServerPort:
    """Return a NIC of the server. Raises PortNotOfServer."""
    for port in server.ports:
        if port.port_id == port_id:
            return port
    raise PortNotOfServer(f"Instance {server.id} does not have a port with id {port_id}")


async def _finish(compute: Compute, server_id: str, *, failure: str | None = None) -> None:
    async with compute.database.transaction() as tx:
        await action_log.finish(compute, tx, {server_id: failure})
