"""What users and operators ask in a story: of servers, of ports, of hosts. Some requests die with their process."""

from collections.abc import Awaitable, Callable
from dataclasses import replace as copy
from functools import partial
from typing import Any, cast

import msgspec
from tests.conductor.world import BY, KilledHere
from tests.network.cloud import PROJECT
from tests.simulation.beginning import HOSTS
from tests.simulation.effects import Fate, Plan, mortal
from tests.simulation.errors import harm_owner
from tests.simulation.naive import STANDING
from tests.simulation.story import Story, Want, find_refusal

from roost.clients.local_network import LocalNetwork
from roost.compute.model.server import MigrationFilter, NicAsked, Requester, ServerRequest, ServerUpdate
from roost.compute.model.work import MoveKind
from roost.compute.rules import actions as rules
from roost.compute.service import Compute, actions, interfaces, moves
from roost.compute.service import hosts as host_service
from roost.compute.service import servers as server_service
from roost.compute.service.moves import MoveRequest
from roost.network.model.ports import FixedIpRequest, PortChanges, PortFilter, PortRequest
from roost.network.service import Networks
from roost.network.service import ports as port_service
from roost.platform.errors import DatabaseUnavailable, RoostError

SERVERS_MAX = 7
OWNER = msgspec.structs.replace(BY, is_admin=False)
DYING_SHARE = 0.15
NAMED_SHARE = 0.15
POWER = {
    "stop": rules.STOP,
    "start": rules.START,
    "pause": rules.PAUSE,
    "unpause": rules.UNPAUSE,
    "suspend": rules.SUSPEND,
    "resume": rules.RESUME,
    "reboot-soft": rules.REBOOT_SOFT,
    "reboot-hard": rules.REBOOT_HARD,
}
MOVES = {
    "migrate": MoveKind.MIGRATE,
    "resize": MoveKind.RESIZE,
    "live-migrate": MoveKind.LIVE,
    "evacuate": MoveKind.EVACUATE,
    "shelve": MoveKind.SHELVE,
    "unshelve": MoveKind.UNSHELVE,
}
FLAVOR_OF = "SELECT flavor ->> 'name' FROM compute.server WHERE id = $1"
LIST_SERVERS_OF = "SELECT id FROM compute.server WHERE host = $1 ORDER BY sequence"
PORT_TO_ATTACH = """
SELECT p.device_id, p.network_id, (
    SELECT array_agg(s.provider_uuid) FROM network.address a JOIN network.subnet s ON s.id = a.subnet_id
    WHERE a.port_id = p.id) AS providers,
    EXISTS (SELECT FROM network.address a JOIN network.listed_address l USING (subnet_id, address)
        JOIN network.port hidden ON hidden.id = l.port_id AND hidden.left_at IS NOT NULL
        WHERE a.port_id = p.id AND hidden.made_for::text <> $2) AS plugged
FROM network.port p WHERE p.id = $1
"""
PROVIDER_OF = "SELECT provider_uuid FROM network.subnet WHERE $1::text::inet <<= cidr::inet"
IS_POOLED = """
SELECT EXISTS (SELECT FROM network.pool WHERE $1::text::inet BETWEEN first_address AND last_address)
"""
IS_TAKEN = "SELECT EXISTS (SELECT FROM network.address WHERE host(address) = $1)"
ADDRESS_OF = "SELECT host(address) FROM network.address WHERE port_id = $1 LIMIT 1"
WITHOUT_ADDRESS = """
SELECT network_id FROM network.port p
WHERE id = $1 AND NOT EXISTS (SELECT FROM network.address a WHERE a.port_id = p.id)
"""
FREE_ADDRESSES = """
SELECT i.total - i.reserved - i.used FROM placement.inventory i JOIN placement.provider p ON p.id = i.provider_id
WHERE p.uuid = $1
"""
END_PUBLISHING = """
UPDATE network.publication SET lease_until = now() - interval '1 s' WHERE lease_until IS NOT NULL
"""
"""Others wait until a publisher that died has lost its lease."""


async def boot(story: Story) -> None:
    """Boot a server or two, some with a port of the user's own."""
    if len(story.servers) - len(story.deleted) >= SERVERS_MAX:
        return
    chosen = story.random.sample(story.networks, story.random.choice((1, 1, 2)))
    nics = tuple(_nic_on(story, network) for network in chosen)
    port = story.some(story.ports)
    if port is not None and story.random.random() < 0.5:
        nics = (NicAsked(port_id=port), *nics[1:])
    flavor, named = story.random.choice(("small", "large")), any(nic.port_id or nic.fixed_ip for nic in nics)
    count = story.random.choice((1, 1, 2)) if not named else 1
    request = ServerRequest(name="web", flavor_ref=flavor, nics=nics, count=count)
    try:
        made = await server_service.create_servers(story.world.compute, request, project_id=PROJECT, user_id="user")
    except RoostError as error:
        story.note("boot refused:", type(error).__name__)
        assert named, error  # noqa: PT017 - the error is an answer
        return
    async with story.world.database.connection() as connection:
        named_addresses = [nic.fixed_ip or await connection.fetchval(ADDRESS_OF, nic.port_id) for nic in nics]
        networks = [nic.network_id or await connection.fetchval(WITHOUT_ADDRESS, nic.port_id) for nic in nics]
    racks = frozenset(rack for address in named_addresses if (rack := story.rack_of(address)))
    want = Want(flavor, tuple(network for network in networks if network), named, racks)
    story.wants |= dict.fromkeys(made.server_ids, want)
    story.servers += made.server_ids
    story.note("boot", *made.server_ids, "with", *[nic.port_id or "a network" for nic in nics])


def _nic_on(story: Story, network: str) -> NicAsked:
    """Return a NIC on the network, with an address of its user's choice now and then."""
    named = story.random.random() < NAMED_SHARE
    return NicAsked(network_id=network, fixed_ip=story.draw_address(network) if named else None)


async def delete(story: Story) -> None:
    """Delete a server."""
    if (server := story.some(story.servers)) is not None and await story.ask(
        "delete", server, lambda: server_service.delete_server(story.world.compute, server)
    ):
        story.deleted.append(server)


async def power(story: Story) -> None:
    """Stop, start, pause, ... a server."""
    if (server := story.some(story.servers)) is not None:
        name, by = story.random.choice(list(POWER)), _who(story)
        await story.ask(name, server, lambda: actions.change_power(story.world.compute, server, POWER[name], by), by=by)


async def rebuild(story: Story) -> None:
    """Rebuild a server."""
    if (server := story.some(story.servers)) is not None:
        update, by = ServerUpdate(image_ref=""), _who(story)
        await story.ask("rebuild", server, lambda: actions.rebuild(story.world.compute, server, update, by), by=by)


async def move(story: Story) -> None:
    """Move a server: what its state allows most often."""
    if (server := story.some(story.servers)) is None:
        return
    view = await story.view(server)
    name = story.random.choice([*MOVES, "migrate", "resize", "live-migrate"])
    if view is not None and view.status in ("SHELVED_OFFLOADED", "SHELVED") and story.random.random() < 0.7:
        name = "unshelve"
    flavor = story.random.choice(("small", "large")) if name == "resize" else None
    request, by = MoveRequest(kind=MOVES[name], flavor_ref=flavor), _who(story)
    possible = flavor is None or await _flavor_of(story, server) != flavor

    async def ask() -> None:
        await moves.begin_move(story.world.compute, server, request, by)

    await story.ask(name, server, ask, by=by, possible=possible)


async def _flavor_of(story: Story, server: str) -> str | None:
    async with story.world.database.connection() as connection:
        return cast("str | None", await connection.fetchval(FLAVOR_OF, server))


async def end_move(story: Story) -> None:
    """Confirm or revert a move, if one waits for that."""
    statuses = sorted((await story.world.statuses()).items())
    waiting = [server for server, status in statuses if status == "VERIFY_RESIZE"]
    if (server := story.some(waiting or story.servers)) is not None:
        revert = story.random.random() < 0.5
        name, by = "revert" if revert else "confirm", _who(story)
        await story.ask(name, server, lambda: moves.end_move(story.world.compute, server, by, revert=revert), by=by)


async def lock(story: Story) -> None:
    """Lock a server against its owner, or unlock it."""
    if (server := story.some(story.servers)) is not None:
        compute = story.world.compute
        if story.random.random() < 0.5:
            await story.ask("lock", server, lambda: actions.lock(compute, server, BY, reason=None))
        else:
            await story.ask("unlock", server, lambda: actions.unlock(compute, server, BY))


async def reset(story: Story) -> None:
    """Set the state of a server by hand that has a guest."""
    if (server := story.some(story.servers)) is not None:
        view, active = await story.view(server), story.random.random() < 0.5
        if view is None or view.status in (*STANDING, "ERROR"):
            name = "reset-active" if active else "reset-error"
            if await story.ask(
                name, server, lambda: actions.reset_state(story.world.compute, server, BY, active=active)
            ):
                story.harmed.add(server)


async def abort(story: Story) -> None:
    """Abort a live migration that is under way, or have its memory taken over now."""
    only = MigrationFilter(kind=MoveKind.LIVE.value, open=True)
    compute = story.world.compute
    for migration in await moves.list_migrations(compute, only, marker=None, limit=1):
        server = migration.server_id
        if story.random.random() < 0.3:
            await story.ask("force", server, partial(moves.force_complete, compute, server, migration.id, BY))
        else:
            await story.ask("abort", server, partial(moves.abort_migration, compute, server, migration.id))


async def evacuate(story: Story) -> None:
    """Evacuate all servers of a host that has no power, or that is only cut off."""
    for host in sorted(story.hosts.off)[:1] + sorted(story.hosts.cut)[:1]:
        for server in await _list_servers_of(story, host):
            request = MoveRequest(kind=MoveKind.EVACUATE, readdress=story.random.random() < 0.3)
            if request.readdress:
                story.forget_addresses(server=server)
            await story.ask("evacuate", server, partial(moves.begin_move, story.world.compute, server, request, BY))


async def _list_servers_of(story: Story, host: str) -> list[str]:
    async with story.world.database.connection() as connection:
        return [row[0] for row in await connection.fetch(LIST_SERVERS_OF, host)]


async def attach(story: Story) -> None:
    """Give a server a NIC: a new one, or a port of the user's own."""
    if (server := story.some(story.servers)) is None:
        return
    nic = _nic_on(story, story.random.choice(story.networks))
    port = story.some(story.ports)
    if port is not None and story.random.random() < 0.3:
        nic = NicAsked(port_id=port)

    async def ask(compute: Compute) -> None:
        await interfaces.attach_interface(compute, server, nic, BY, permissions=None)

    possible = await _can_attach(story, server, nic)
    async with story.replugging(server=server):
        await _may_die(story, lambda networks: ask(_with(story, networks)), "attach", server, possible=possible)


async def _can_attach(story: Story, server: str, nic: NicAsked) -> bool | None:
    """Return whether the NIC has an address that the server's host reaches, or can get one; and is nobody else's.

    None: the host is cabled otherwise than at the beginning.
    """
    async with story.world.database.connection() as connection:
        host = await connection.fetchval("SELECT host FROM compute.server WHERE id = $1", server)
        port = await connection.fetchrow(PORT_TO_ATTACH, nic.port_id, server)
        if host is None or (port is not None and (port["device_id"] or port["plugged"])):
            return False
        if host in story.hosts.recabled:
            return None
        provider = story.provider_of(str(nic.network_id or port["network_id"]), HOSTS[host])
        if port is not None and port["providers"]:
            return {str(uuid) for uuid in port["providers"]} == {provider}
        if nic.fixed_ip is not None:
            reached = str(await connection.fetchval(PROVIDER_OF, nic.fixed_ip)) == provider
            if not reached or await connection.fetchval(IS_TAKEN, nic.fixed_ip):
                return False
            if not await connection.fetchval(IS_POOLED, nic.fixed_ip):
                return True
        return (await connection.fetchval(FREE_ADDRESSES, provider) or 0) > 0


async def detach(story: Story) -> None:
    """Take a NIC off a server that has several."""
    if (server_id := story.some(story.servers)) is None:
        return
    try:
        server = await server_service.get_server(story.world.compute, server_id)
    except RoostError:
        return
    port_ids = [port.port_id for port in server.ports if port.port_id]
    if len(port_ids) > 1:
        port_id = story.random.choice(port_ids)

        async def ask(compute: Compute) -> None:
            await interfaces.detach_interface(compute, server, port_id, BY)

        async with story.replugging(server=server_id):
            await _may_die(story, lambda networks: ask(_with(story, networks)), "detach", server_id)


def _who(story: Story) -> Requester:
    """Return who asks: an administrator, whom no lock holds up, or the owner."""
    return story.random.choice((BY, BY, OWNER))


def _with(story: Story, networks: Networks) -> Compute:
    """Return the compute service as a process has it that has this network service."""
    return copy(story.world.compute, network=LocalNetwork(networks))


async def make_port(story: Story, named: str | None = None) -> None:
    """Make a port: refused only where each address is somebody's, or what it names is in no subnet."""
    network = story.network_of(named) if named else story.random.choice(story.networks)
    if named is None and story.random.random() < NAMED_SHARE:
        named = story.draw_address(network)
    async with story.world.database.connection() as connection:
        provider = await connection.fetchval(PROVIDER_OF, named) if named else network
        taken = named is not None and (provider is None or await connection.fetchval(IS_TAKEN, named))
        free = None  # a routed network gives none now, and what is outside the pools is not counted
        if network != story.networks[0] if named is None else await connection.fetchval(IS_POOLED, named):
            free = await connection.fetchval(FREE_ADDRESSES, provider) or 0
    fixed_ips = None if named is None else (FixedIpRequest(ip_address=named),)
    request = PortRequest(network_id=network, project_id=PROJECT, fixed_ips=fixed_ips)

    async def ask(networks: Networks) -> None:
        port = await port_service.create_port(networks, request)
        story.ports.append(port.id)
        story.note("port", port.id)

    if (plan := draw_end(story)) is not None:
        await die(story, ask, plan, "port")
        return
    why = await find_refusal(lambda: ask(story.world.networks))
    if why:
        story.note("port refused:", why.split(":")[0])
    assert bool(why) == (taken or (free is not None and free <= 0)), (
        f"a port: {why or 'accepted'}, with {free} addresses free, and {named} taken: {taken}"
    )


async def change_port(story: Story) -> None:
    """Change the name, the addresses or the MAC address of a port, of a server's too."""
    if (port := await _some_port(story)) is None:
        return
    mac = f"fa:16:3e:00:00:{story.random.randrange(16):02x}"
    name, changes = story.random.choice(
        (
            ("rename", PortChanges(name="other")),
            ("readdress", PortChanges(fixed_ips=())),
            ("change MAC", PortChanges(mac_address=mac)),
        )
    )

    if changes.fixed_ips is not None:
        story.forget_addresses(port=port)

    async def ask(networks: Networks) -> None:
        await port_service.update_port(networks, port, changes)

    if (plan := draw_end(story)) is not None:
        async with story.replugging(port=port):
            await die(story, ask, plan, name, port)
    else:
        await story.ask_port(name, port, lambda: ask(story.world.networks), mac=mac)


async def delete_port(story: Story) -> None:
    """Delete a port, of a server's too."""
    if (port := await _some_port(story)) is None:
        return
    await harm_owner(story, port)

    async def ask(networks: Networks) -> None:
        await port_service.delete_port(networks, port)

    if (plan := draw_end(story)) is not None:
        async with story.replugging(port=port):
            await die(story, ask, plan, "delete", port)
    else:
        await story.ask_port("delete", port, lambda: ask(story.world.networks))
    there = await port_service.list_ports(story.world.networks, PortFilter(ids=(port,)))
    if port in story.ports and not there:
        story.ports.remove(port)


async def _some_port(story: Story) -> str | None:
    """Return any port of the user's own, or now and then one that was made for a server."""
    if story.random.random() < 0.3:
        ports = await port_service.list_ports(story.world.networks, PortFilter(device_ids=tuple(story.servers)))
        made = [port.id for port in ports if port.made_for is not None]
        return story.random.choice(made) if made else None
    return story.some(story.ports)


def draw_end(story: Story) -> Plan | None:
    """Return how the request's process ends before its end, now and then."""
    if story.random.random() >= DYING_SHARE:
        return None
    fate = story.random.choice((Fate.DIES_BEFORE, Fate.DIES_AFTER, Fate.REQUEST_LOST, Fate.ANSWER_LOST))
    return Plan(fate, story.random.choice((1, 1, 2, 3)))


async def _may_die(
    story: Story, ask: Callable[[Networks], Awaitable[Any]], action: str, server: str, *, possible: bool | None = True
) -> None:
    if (plan := draw_end(story)) is not None:
        await die(story, ask, plan, action, server)
    else:
        await story.ask(action, server, lambda: ask(story.world.networks), possible=possible)


async def die(story: Story, ask: Callable[[Networks], Awaitable[Any]], plan: Plan, *words: object) -> None:
    """Ask it of a process that ends before its end: no answer to it is expected."""
    try:
        await ask(mortal(story.world.networks, plan))
    except KilledHere:
        ended = "and its process died"
    except (RoostError, DatabaseUnavailable) as error:
        ended = f"refused: {type(error).__name__}"
    else:
        ended = ""
    async with story.world.database.connection() as connection:
        await connection.execute(END_PUBLISHING)
    story.note(*words, ended, plan.met and plan.fate and plan.fate.value, plan.met)


async def force_down(story: Story, host: str, down: bool) -> None:
    """Say that a host is down, or is not."""
    await host_service.force_down(story.world.compute, host, down)
