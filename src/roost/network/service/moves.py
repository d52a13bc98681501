"""What the conductor asks of the ports of servers that move: their present state, and bindings beside the active one.

No port of a server that runs is reserved. Whoever changes one raises its revision.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from roost.network.model.ports import VIF_TYPE_BOUND, Port, PortFilter
from roost.network.rules import port_bindings, segments
from roost.network.rules.capacity import claim_while_readdressed
from roost.network.service import Networks, addresses, builds, releases
from roost.network.service.notices import telling
from roost.network.service.releases import after_releases, list_claiming
from roost.network.store import addresses as address_rows
from roost.network.store import claims, ports, resources
from roost.network.store import networks as network_rows
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.seams import network as seam
from roost.seams.placement import ConsumerState, covers_allocations


@after_releases
async def read_ports(networks: Networks, servers: Sequence[seam.ServerNics]) -> list[seam.EnsuredPorts]:
    """See MoveClient.read_ports. Repeated after the ports' releases: no claim of theirs is being given back (R41)."""
    async with networks.database.connection() as connection:
        known = await network_rows.list_networks(connection, builds.list_network_ids(servers))
        pools = await builds.list_pools(connection, known)
        server_ids = tuple(server.server_id for server in servers)
        ports_read = await ports.list_ports(connection, PortFilter(device_ids=server_ids, hidden=True))
        await list_claiming(connection, [port.id for port in ports_read])
    answers = []
    for server in servers:
        order = [nic.port_id_of(server.server_id) for nic in server.nics]
        own = (server.server_id, server.project_id)
        own_ports = [port for port in ports_read if (port.device_id, port.project_id) == own]
        own_ports.sort(key=lambda port: (order.index(port.id) if port.id in order else len(order), port.id))
        views = tuple(builds.view_port(port, server, pools) for port in own_ports)
        answers.append(seam.EnsuredPorts(server.server_id, views))
    return answers


async def add_bindings(networks: Networks, hosts_by_port: Sequence[tuple[str, str]]) -> list[str | None]:
    """See MoveClient.add_bindings."""
    async with networks.database.transaction() as tx:
        ports_locked = await ports.lock_ports(tx, sorted({port_id for port_id, _ in hosts_by_port}))
        hosts = {host.name: host for host in await network_rows.list_hosts(tx, sorted({h for _, h in hosts_by_port}))}
        provider_uuids = sorted({port.provider_uuid for port in ports_locked.values() if port.provider_uuid})
        providers = await network_rows.list_providers(tx, provider_uuids)
        answers: list[str | None] = []
        for port_id, host_name in hosts_by_port:
            port = ports_locked.get(port_id)
            if port is None:
                answers.append(f"Port {port_id} is gone.")
                continue
            provider = providers.get(port.provider_uuid or "")
            reason = segments.find_refusal(host_name, hosts.get(host_name), provider) if provider else None
            answers.append(reason)
            if reason is None and port.host != host_name:
                await ports.put_binding(tx, port_id, replace(port.binding, host=host_name, vif_type=VIF_TYPE_BOUND))
        return answers


async def drop_bindings(networks: Networks, hosts_by_server: Sequence[tuple[str, str]]) -> None:
    """See MoveClient.drop_bindings."""
    async with networks.database.transaction() as tx:
        ports_locked = await ports.lock_ports(tx, [], [server_id for server_id, _ in hosts_by_server])
        pairs = [
            (port.id, host)
            for server_id, host in hosts_by_server
            for port in ports_locked.values()
            if port.device_id == server_id
        ]
        await resources.touch(tx, "port", await ports.delete_bindings(tx, pairs))


async def return_ports(
    networks: Networks, binds: Sequence[seam.PortBind], addresses_before: Mapping[str, tuple[str, ...]]
) -> list[seam.Bound | seam.BindRefused]:
    """See MoveClient.return_ports."""
    async with networks.database.transaction() as tx:
        answers = await builds.bind_batch(networks, tx, binds, building=False)
        ports_locked = await ports.lock_ports(tx, sorted({bind.port_id for bind in binds}))
        hosts_unreached = {
            bind.port_id: bind.host
            for bind, answer in zip(binds, answers, strict=True)
            if isinstance(answer, seam.BindRefused) and not answer.changed and builds.is_of(bind, ports_locked)
        }
        ids = sorted(hosts_unreached)
        addresses_new = {
            port_id: port_bindings.list_addresses_since(ports_locked[port_id], addresses_before.get(port_id))
            for port_id in ids
        }
        async with telling(networks, tx, ids):
            await addresses.take_back(tx, [item for items in addresses_new.values() for item in items])
            revisions = await ports.bind(tx, hosts_unreached)
        await claims.insert_releases(tx, ids)
    crash_point("port.after-unassign")
    await releases.work_off_now(networks, ids)
    bound = {
        port_id: seam.Bound(
            port_id,
            tuple(item.address for item in ports_locked[port_id].addresses if item not in addresses_new[port_id]),
            revision,
        )
        for port_id, revision in revisions.items()
    }
    return [bound.get(answer.port_id, answer) for answer in answers]


async def readdress_ports(networks: Networks, binds: Sequence[seam.PortBind]) -> list[seam.Bound | seam.BindRefused]:
    """See MoveClient.readdress_ports.

    The ledger is called while the ports are locked, as in `releases` and for the same reason. A release waits, and then
    sees the new addresses.
    """
    port_ids = sorted({bind.port_id for bind in binds})
    async with networks.releasing, networks.database.transaction() as tx:  # R14
        ports_locked = await ports.lock_ports(tx, port_ids)  # R33
        consumers = await networks.placement.get_consumers(port_ids)
        provider_uuids = {item.provider_uuid for port in ports_locked.values() for item in port.addresses}
        provider_uuids |= {bind.provider_uuid for bind in binds if bind.provider_uuid}
        await address_rows.lock_provider_subnets(tx, sorted(provider_uuids))
        answers = [
            await _readdress(networks, tx, bind, ports_locked.get(bind.port_id), consumers.get(bind.port_id))
            for bind in binds
        ]
        ids_bound = [answer.port_id for answer in answers if isinstance(answer, seam.Bound)]
        await claims.insert_releases(tx, ids_bound)
    crash_point("port.after-unassign")
    await releases.work_off_now(networks, ids_bound)
    return answers


async def _readdress(
    networks: Networks, tx: Connection, bind: seam.PortBind, port: Port | None, consumer: ConsumerState | None
) -> seam.Bound | seam.BindRefused:
    """Replace the addresses of a locked port, or leave the port as it was. The subnets are locked."""
    port_addresses = port.addresses if port else ()
    claim_wanted = claim_while_readdressed(port_addresses, bind)
    if not covers_allocations(consumer.allocations if consumer else {}, claim_wanted):
        reason = f"Port {bind.port_id} holds no claim for the address that it is to get."
        return seam.BindRefused(bind.port_id, reason, changed=True)
    savepoint = tx.transaction()
    await savepoint.start()
    await addresses.take_back(tx, port_addresses)
    (answer,) = await builds.bind_batch(networks, tx, [bind], building=False)
    if isinstance(answer, seam.Bound):
        await savepoint.commit()
        return answer
    await savepoint.rollback()
    if not answer.changed:
        await resources.touch(tx, "port", [bind.port_id])  # as bind_batch did
    return answer


async def trim_claims(networks: Networks, server_ids: Sequence[str]) -> None:
    """See MoveClient.trim_claims."""
    async with networks.database.transaction() as tx:
        ids = list(await ports.lock_ports(tx, [], server_ids))
        await claims.insert_releases(tx, ids)
    crash_point("port.after-unassign")
    await releases.work_off_now(networks, ids)


async def unbind_ports(networks: Networks, server_ids: Sequence[str]) -> None:
    """See MoveClient.unbind_ports."""
    async with networks.database.transaction() as tx:
        ids = list(await ports.lock_ports(tx, [], server_ids))
        async with telling(networks, tx, ids):
            await ports.bind(tx, dict.fromkeys(ids))
