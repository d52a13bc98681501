"""What the conductor asks for servers' builds: ports made and reserved, bound, unassigned, settled, given back.

Each operation takes a set and runs a fixed number of statements. The conductor claims for these ports, but for the
addresses that NICs name, which are claimed here one by one. The network gives all claims back.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from roost.network.errors import InvalidInput, PortChanged
from roost.network.model.networks import Network, Provider, Subnet
from roost.network.model.ports import FixedIpRequest, Port, PortFilter
from roost.network.rules import addressing, port_bindings, requests
from roost.network.rules.flat import Pools, refuse_nics, with_pools
from roost.network.rules.port_bindings import Assignment, Reservation
from roost.network.rules.requests import Placing
from roost.network.service import Networks, addresses, availability, notices, quotas, releases
from roost.network.service.claims import Intents
from roost.network.service.notices import telling
from roost.network.service.releases import after_releases, list_claiming
from roost.network.store import addresses as address_rows
from roost.network.store import claims, ports, resources
from roost.network.store import networks as store
from roost.network.store import notices as notice_rows
from roost.network.store import unknown_guests as guest_rows
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.platform.errors import BadRequest, Conflict, NotFound, Retry
from roost.platform.retries import retried
from roost.seams import network as seam

SERVERS_MAX = 500
ROUNDS_MAX = 8


async def ensure_ports(
    networks: Networks, servers: Sequence[seam.ServerNics], *, placed: bool = False
) -> list[seam.EnsuredPorts | seam.PortsRefused]:
    """See BuildClient.ensure_ports."""
    answers = await reserve_ports(networks, servers, placed=placed)
    return [await _assign_named(networks, server, answer) for server, answer in zip(servers, answers, strict=True)]


async def reserve_ports(
    networks: Networks, servers: Sequence[seam.ServerNics], *, placed: bool = False, make: bool = True
) -> list[seam.EnsuredPorts | seam.PortsRefused]:
    """Make and reserve ports as ensure_ports does, without addresses that NICs name. make: False to change nothing."""
    answers: list[seam.EnsuredPorts | seam.PortsRefused] = []
    for start in range(0, len(servers), SERVERS_MAX):
        answers += await _reserve_batch(networks, servers[start : start + SERVERS_MAX], placed=placed, make=make)
    return answers


async def list_pools(tx: Connection, known: Iterable[Network]) -> dict[str, list[Subnet]]:
    """Return network id -> its pools, of the flat ones of these networks."""
    pools: dict[str, list[Subnet]] = {network.id: [] for network in known if network.flat}
    for pool in await store.list_subnets(tx, network_ids=list(pools)) if pools else ():
        pools[pool.network_id].append(pool)
    return pools


def list_network_ids(servers: Sequence[seam.ServerNics]) -> list[str]:
    """Return the networks that the servers' NICs name."""
    return sorted({nic.network_id for server in servers for nic in server.nics if nic.network_id})


async def bind_ports(networks: Networks, binds: Sequence[seam.PortBind]) -> list[seam.Bound | seam.BindRefused]:
    """See BuildClient.bind_ports."""
    answers: list[seam.Bound | seam.BindRefused] = []
    for start in range(0, len(binds), SERVERS_MAX):
        async with networks.database.transaction() as tx:
            answers += await bind_batch(networks, tx, binds[start : start + SERVERS_MAX])
    return answers


async def unassign_ports(networks: Networks, revisions: Mapping[str, int]) -> None:
    """See BuildClient.unassign_ports."""
    async with networks.database.transaction() as tx:
        ports_locked = (await ports.lock_ports(tx, sorted(revisions))).values()
        ports_same = {port.id: port for port in ports_locked if port.revision == revisions[port.id]}  # R15, R21
        dropped = [item for port in ports_same.values() for item in port.addresses if item.assigned_for is not None]
        async with telling(networks, tx, ports_same):
            due = await addresses.take_back(tx, dropped)
            await ports.bind(tx, dict.fromkeys(ports_same))
        # The build keeps its claims. It moves one with its next placement, which waits for these releases (R38).
        await claims.insert_releases(tx, sorted({item.port_id for item in dropped if item.provider_uuid in due}))
    crash_point("port.after-unassign")


async def settle_ports(networks: Networks, server_ids: Sequence[str]) -> None:
    """See BuildClient.settle_ports."""
    async with networks.database.transaction() as tx:
        await ports.settle(tx, server_ids)


async def release_ports(networks: Networks, servers: Sequence[seam.ServerNics], *, restore: bool) -> None:
    """See BuildClient.release_ports."""
    server_ids = [server.server_id for server in servers]
    named = [nic.port_id_of(server.server_id) for server in servers for nic in server.nics]
    await release_server_ports(networks, server_ids, named, restore=restore)


async def release_server_ports(
    networks: Networks, server_ids: Sequence[str], port_ids: Sequence[str], *, restore: bool
) -> None:
    """Release all ports of the servers. port_ids: ports that are released if they are the servers'."""
    going = set(server_ids)
    async with networks.database.transaction() as tx:
        ports_locked = await ports.lock_ports(tx, port_ids, server_ids)
        server_ports = [port for port in ports_locked.values() if port.device_id in going or port.made_for in going]
        unclaimed = await _part(networks, tx, server_ports, restore=restore)
    crash_point("port.after-unassign")
    await releases.work_off_now(networks, unclaimed)


async def give_back_port(networks: Networks, port_id: str, *, revision: int) -> None:
    """Give back a user's port that is reserved for a build that is over. A port of another revision stays as it is."""
    async with networks.database.transaction() as tx:
        ports_locked = (await ports.lock_ports(tx, [port_id])).values()
        ports_reserved = [port for port in ports_locked if port.revision == revision and port.reserved_from is not None]
        unclaimed = await _part(networks, tx, ports_reserved, restore=True)
        servers = await notices.note(tx, ports_reserved)  # a server may show the port
    await notices.tell_now(networks, servers)
    await releases.work_off_now(networks, unclaimed)


async def _part(networks: Networks, tx: Connection, ports_locked: Sequence[Port], *, restore: bool) -> list[str]:
    """Take locked ports from their servers. Return the ids of the ports whose claims are to be given back."""
    partings = [port_bindings.decide_parting(port, restore=restore) for port in ports_locked]
    async with telling(networks, tx, [port.id for port in ports_locked]):
        await addresses.take_back(tx, [item for parting in partings for item in parting.dropped])
        await ports.part(tx, partings)
    unclaimed = [parting.port_id for parting in partings if parting.unclaims]
    await claims.insert_releases(tx, unclaimed)
    return unclaimed


async def _assign_named(
    networks: Networks, server: seam.ServerNics, answer: seam.EnsuredPorts | seam.PortsRefused
) -> seam.EnsuredPorts | seam.PortsRefused:
    """Claim and assign the addresses that the server's NICs name; return the server's answer with them.

    The addresses stay, whatever becomes of the build's others. A refusal gives none back: an address may be taken
    because the conductor that took this build over has assigned it.
    """
    if isinstance(answer, seam.PortsRefused):
        return answer
    pairs = zip(server.nics, answer.ports, strict=True)
    named = {port.id: (nic, port, nic.fixed_ip) for nic, port in pairs if nic.fixed_ip and not port.pools}
    if not named:
        return answer
    try:
        for _, port, fixed_ip in named.values():
            if port.needs_address:
                await assign_address(networks, port.id, fixed_ip)
            elif addressing.canonical(fixed_ip) not in port.addresses:
                raise InvalidInput(f"Port {port.id} has {', '.join(port.addresses)}, not {fixed_ip}.")
    except (BadRequest, Conflict, NotFound) as error:
        if error.retry is Retry.NOW:
            raise
        return seam.PortsRefused(server.server_id, error.told())
    async with networks.database.transaction() as tx:
        ports_read = {port.id: port for port in await ports.list_ports(tx, PortFilter(ids=tuple(named)))}
    lost = [port_id for port_id in named if port_id not in ports_read]
    if lost:
        return seam.PortsRefused(server.server_id, seam.LOST_PORT.format(lost[0]))
    views = {
        port_id: port_bindings.view(ports_read[port_id], nic, server.server_id)
        for port_id, (nic, _, _) in named.items()
    }
    return seam.EnsuredPorts(server.server_id, tuple(views.get(port.id, port) for port in answer.ports))


async def assign_address(networks: Networks, port_id: str, address: str) -> None:
    """Claim and give a named address to a port that has none. Raises PortChanged when the port is gone or changes."""
    async with Intents(networks) as intents:
        async with networks.database.transaction() as tx:
            locked = await ports.lock_ports(tx, [port_id])
            if port_id not in locked:
                raise PortChanged(f"Port {port_id} was deleted meanwhile.")
            port = locked[port_id]
            placings = await plan_named(tx, port.network_id, port_id, port.device_owner, address)
            await intents.open(tx, [port_id])
        placing = await intents.claim(port, placings, {})
        async with networks.database.transaction() as tx:
            now = await intents.resume(tx, port)
            subnets_locked = await address_rows.lock_provider_subnets(tx, [placing.provider_uuid])
            await addresses.give_one(networks, tx, now, placing, subnets_locked)
    crash_point("port.after-assign")


async def plan_named(
    tx: Connection, network_id: str, port_id: str, device_owner: str, address: str
) -> tuple[Placing, ...]:
    """Return how a port gets the named address.

    Raises what requests.plan_addresses raises, IpAddressAlreadyAllocated.
    """
    state = await addresses.read_network(tx, network_id, "")
    fixed_ips = (FixedIpRequest(ip_address=address),)
    plan = requests.plan_addresses(port_id, state, device_owner=device_owner, fixed_ips=fixed_ips)
    await addresses.refuse_taken(tx, plan.placings)
    return plan.placings


class MadeMeanwhile(PortChanged):
    """Another conductor made one of the ports just now, or no MAC address was free."""


@retried(MadeMeanwhile, most=ROUNDS_MAX)
@after_releases
async def _reserve_batch(
    networks: Networks, servers: Sequence[seam.ServerNics], *, placed: bool, make: bool
) -> list[seam.EnsuredPorts | seam.PortsRefused]:
    """Make the ports that are missing, and reserve the users' own; return the servers' answers in order."""
    ids = sorted({nic.port_id_of(server.server_id) for server in servers for nic in server.nics})
    async with networks.database.transaction() as tx:
        known = await store.lock_networks(tx, list_network_ids(servers), "existence")
        pools = await list_pools(tx, known.values())
        async with telling(networks, tx, ids):
            ports_locked = await ports.lock_ports(tx, ids)
            claiming = await list_claiming(tx, ids)
            refused = await _list_refused(tx, servers, pools)
            now = networks.env.now()
            decided = port_bindings.decide_reservations(
                servers, known, ports_locked, claiming, refused, now=now, placed=placed, make=make
            )
            decided = await _within_quota(networks, tx, decided)
            new = [port for answer in decided if isinstance(answer, Reservation) for port in answer.new]
            if len(await addresses.insert_ports(networks, tx, new)) < len(new):
                raise MadeMeanwhile("A port of them was made meanwhile, or no MAC address is free: repeat the request.")
            await resources.update(tx, "port", [r for a in decided if isinstance(a, Reservation) for r in a.reserved])
        ports_locked = await ports.lock_ports(tx, ids)
    return [
        answer if isinstance(answer, seam.PortsRefused) else _ensured(server, answer.port_ids, ports_locked, pools)
        for server, answer in zip(servers, decided, strict=True)
    ]


async def _list_refused(tx: Connection, servers: Sequence[seam.ServerNics], pools: Pools) -> dict[str, str]:
    """Return server id -> why it cannot have its NICs.

    A flat network has no such address, a client took a port, or another server's guest has an address of one.
    """
    reasons = {}
    if pools:
        pairs = [(nic.network_id or "", nic.fixed_ip) for server in servers for nic in server.nics]
        named = [(network_id, ip) for network_id, ip in pairs if network_id in pools and ip]
        places = [place for found_at in (await guest_rows.list_places(tx, named)).values() for place in found_at]
        taken = {(place.network_id, place.address): place.server_id for place in places if place.port_id is not None}
        reasons = {s.server_id: reason for s in servers if (reason := refuse_nics(s, pools, taken))}
    noticed = await notice_rows.list_noticed(tx, [server.server_id for server in servers])  # R18
    reasons |= {server_id: seam.LOST_PORT.format(port_id) for server_id, port_id in noticed.items() if port_id}
    servers_by_port = {nic.port_id: server.server_id for server in servers for nic in server.nics if nic.port_id}
    nics_left = await guest_rows.list_plugged(tx, list(servers_by_port)) if servers_by_port else []
    plugged = port_bindings.find_plugged(nics_left, servers_by_port)
    return reasons | {servers_by_port[port_id]: reason for port_id, reason in plugged.items()}


async def _within_quota(
    networks: Networks, tx: Connection, decided: list[Reservation | seam.PortsRefused]
) -> list[Reservation | seam.PortsRefused]:
    new = [p for answer in decided if isinstance(answer, Reservation) for p in answer.new if p.nic_tag is None]
    projects = sorted({port.project_id for port in new})
    usages = await quotas.lock_limited(networks, tx, "port", projects) if projects else {}
    return port_bindings.refuse_over_quota(decided, usages) if usages else decided


def _ensured(
    server: seam.ServerNics, port_ids: Sequence[str], ports_locked: Mapping[str, Port], pools: Pools
) -> seam.EnsuredPorts:
    nics = zip(server.nics, port_ids, strict=True)
    views = (
        view_port(ports_locked[port_id], server, pools)
        if port_id in ports_locked
        else with_pools(port_bindings.planned_port(server, nic, port_id), nic, pools)
        for nic, port_id in nics
    )
    return seam.EnsuredPorts(server.server_id, tuple(views))


def view_port(port: Port, server: seam.ServerNics, pools: Pools) -> seam.Port:
    """Return a server's port as the conductor needs to know it, with its pools on a flat network.

    Of a port that was attached since the server was made, the NIC has no tag.
    """
    nics = {nic.port_id_of(server.server_id): nic for nic in server.nics}
    nic = nics.get(port.id) or seam.Nic(tag="", port_id=port.id)
    return with_pools(port_bindings.view(port, nic, server.server_id), nic, pools)


async def bind_batch(
    networks: Networks, tx: Connection, binds: Sequence[seam.PortBind], *, building: bool = True
) -> list[seam.Bound | seam.BindRefused]:
    """Bind ports within the caller's transaction; return the answers in order.

    building: the addresses that are assigned are the builds' until they settle.
    """
    async with telling(networks, tx, {bind.port_id for bind in binds}):
        ports_locked = await ports.lock_ports(tx, sorted({bind.port_id for bind in binds}))
        hosts = {host.name: host for host in await store.list_hosts(tx, sorted({bind.host for bind in binds}))}
        providers = await _lock_providers(tx, binds, ports_locked)
        answers = [
            port_bindings.decide_bind(bind, ports_locked.get(bind.port_id), hosts.get(bind.host), providers)
            for bind in binds
        ]
        assigning = {answer.port_id: answer for answer in answers if isinstance(answer, Assignment)}
        demands = [demand for item in assigning.values() for demand in item.demands]
        automatic = [address for item in assigning.values() for address in item.automatic]
        given_by_port = await addresses.hand_out(networks, tx, demands, automatic, building=building)
        shown = {
            port_id: tuple(map(addressing.show, sorted(item.address for item in items)))
            for port_id, items in given_by_port.items()
        }
        going = {
            bind.port_id: bind.host
            for bind, answer in zip(binds, answers, strict=True)
            if answer is None or (isinstance(answer, Assignment) and bind.port_id in shown)
        }
        revisions = await ports.bind(tx, going)
        # Who is refused places its server elsewhere: a conductor that still believes in this place must not bind here.
        refused = [bind for bind in binds if bind.port_id not in going and is_of(bind, ports_locked)]
        current = [bind.port_id for bind in refused if ports_locked[bind.port_id].revision == bind.revision]
        await resources.touch(tx, "port", current)
    final: list[seam.Bound | seam.BindRefused] = []
    for bind, answer in zip(binds, answers, strict=True):
        if isinstance(answer, (seam.Bound, seam.BindRefused)):
            final.append(answer)
        elif bind.port_id not in revisions:
            reason = await availability.describe_providers(tx, [assigning[bind.port_id].provider_uuid])
            final.append(seam.BindRefused(bind.port_id, reason))
        else:
            addresses_before = tuple(item.address for item in ports_locked[bind.port_id].addresses)
            final.append(seam.Bound(bind.port_id, shown.get(bind.port_id, addresses_before), revisions[bind.port_id]))
    return final


def is_of(bind: seam.PortBind, ports_locked: Mapping[str, Port]) -> bool:
    """Return whether the port of a bind exists and is the bind's server's."""
    return bind.port_id in ports_locked and ports_locked[bind.port_id].device_id == bind.server_id


async def _lock_providers(
    tx: Connection, binds: Sequence[seam.PortBind], ports_locked: Mapping[str, Port]
) -> dict[str, Provider]:
    """Lock the subnets from which binds are to get addresses. Return the providers of the binds and ports, by UUID.

    Those from which addresses are to come have their subnets.
    """
    binds_with_ports = [(bind, ports_locked[bind.port_id]) for bind in binds if bind.port_id in ports_locked]
    assigning = {bind.provider_uuid for bind, port in binds_with_ports if bind.provider_uuid and not port.addresses}
    anywhere = {port.network_id for bind, port in binds_with_ports if port_bindings.needs_automatic(bind, port)}
    holding = {port.provider_uuid for port in ports_locked.values() if port.provider_uuid}
    locked = await address_rows.lock_provider_subnets(tx, sorted(assigning), sorted(anywhere))
    reach = await store.list_providers(tx, sorted(assigning | holding | locked.keys()))
    return {uuid: msgspec.structs.replace(provider, subnets=locked.get(uuid, ())) for uuid, provider in reach.items()}
