"""Servers: asked for, listed, shown, deleted. What becomes of them in between is the conductor's."""

import asyncio
from collections.abc import Sequence
from functools import partial

import asyncpg
from msgspec.structs import replace

from roost.compute.errors import (
    ActionRefused,
    FilterInvalid,
    HostClosed,
    NetworkAmbiguous,
    NicForbidden,
    ServerNotFound,
    ServerRefused,
)
from roost.compute.model.cloud import Flavor, FlavorFilter
from roost.compute.model.server import NewServers, NicAsked, Permissions, Requester, Server, ServerFilter, ServerRequest
from roost.compute.model.work import WORK_CHANNEL
from roost.compute.rules.actions import locked_sentence
from roost.compute.rules.aggregates import list_zones
from roost.compute.rules.extra_specs import FlavorRequirements, read_extra_specs
from roost.compute.rules.patterns import Search, read_search
from roost.compute.rules.permissions import find_refusal, sees_network
from roost.compute.rules.servers import (
    SERVERS_MAX,
    make_hostname,
    nic_problem,
    number_nics,
    server_names,
    zone_sentence,
)
from roost.compute.service import action_log
from roost.compute.service.context import Compute
from roost.compute.service.flavors import FLAVORS_NAMED_MAX
from roost.compute.service.images import describe_image, get_image
from roost.compute.service.notifications import announce, announce_new, watch_states
from roost.compute.service.quotas import fit_servers
from roost.compute.store import aggregates as aggregates_store
from roost.compute.store import flavors as flavors_store
from roost.compute.store import hosts as hosts_store
from roost.compute.store import quotas as quotas_store
from roost.compute.store import servers as store
from roost.platform.database import Connection
from roost.platform.request_ids import global_request_id
from roost.platform.retries import retried
from roost.seams.compute import ForcedHost, RequestSpec

SERVERS_PAGE_MAX = 1000
PATTERN_S = 2.0
"""So long the database looks for a page of servers by a pattern, for which it may look at all of them."""
DELETE_ROUNDS_MAX = 8


async def create_servers(
    compute: Compute,
    request: ServerRequest,
    *,
    project_id: str,
    user_id: str,
    permissions: Permissions | None = None,
    request_id: str = "",
    token: str | None = None,
) -> NewServers:
    """Accept `request.count` servers, all of them with the work that makes them, or none.

    They are fewer, at least `request.count_min`, where the project's quotas leave no room for more.

    permissions: None where nobody is asked, so that every network, port and flavor is there. token: the caller's, for
    the image service. Raises ServerRefused (NICs, a network without a subnet, an unknown flavor, network, port, image
    or host, extra specs that are not served, a flavor too small for the image), NicForbidden, NetworkAmbiguous (no NIC
    named, several networks), ImageServiceUnavailable, HostClosed (the host that it names is disabled or down),
    MetadataFull and OverQuota. What a port can do is looked at later, by the conductor, as it reserves it.
    """
    if not 1 <= request.count <= SERVERS_MAX:
        raise ServerRefused(f"{request.count} servers were asked for: one request can make 1 to {SERVERS_MAX}.")
    nics = await find_nics(compute, request, project_id, permissions)
    image = await get_image(compute, request.image_ref, token=token)
    ids = tuple(compute.env.new_uuid() for _ in range(request.count))
    reservation_id = f"r-{compute.env.new_uuid().replace('-', '')[:8]}"
    async with compute.database.transaction() as tx:
        flavor, quotas = await _find_flavor(tx, request.flavor_ref, project_id, permissions)
        requirements = read_requirements(flavor)
        zone, forced_host = await _find_destination(compute, tx, request)
        spec = RequestSpec(
            vcpus=flavor.vcpus,
            memory_mb=flavor.ram_mb,
            disk_gb=flavor.disk_gb,
            nics=number_nics(nics),
            availability_zone=zone,
            flavor_groups=requirements.groups,
            isolated=requirements.isolated,
            forced_host=forced_host,
            **describe_image(image, flavor),
        )
        ids = ids[: await fit_servers(compute, tx, project_id, flavor, quotas, request)]
        names = server_names(request.name, len(ids))
        new = NewServers(
            request=request,
            server_ids=ids,
            names=names,
            hostnames=tuple(request.hostname or make_hostname(*named) for named in zip(names, ids, strict=True)),
            project_id=project_id,
            user_id=user_id,
            flavor=flavor,
            reservation_id=reservation_id,
            spec=spec,
            request_id=request_id,
        )
        await store.insert_servers(tx, new, global_request_id=global_request_id())
        await announce_new(compute, tx, ids)
    compute.wake(WORK_CHANNEL)
    return new


async def find_nics(
    compute: Compute, request: ServerRequest, project_id: str, permissions: Permissions | None
) -> tuple[NicAsked, ...]:
    """Return the NICs that the servers are to have. Raises ServerRefused, NicForbidden, NetworkAmbiguous."""
    nics = request.nics
    if nics is None:
        only_of = None if permissions is None else project_id
        nics = await find_only_network(compute, only_of, must_exist=request.auto)
    problem = nic_problem(nics, count=request.count)
    if problem:
        raise ServerRefused(problem)
    await check_nics(compute, nics, project_id, permissions)
    return nics


async def find_only_network(compute: Compute, project_id: str | None, *, must_exist: bool) -> tuple[NicAsked, ...]:
    """Return a NIC on the only network, if there is one. Raises NetworkAmbiguous, ServerRefused."""
    ids = await compute.network.list_network_ids(limit=2, project_id=project_id)
    if len(ids) > 1:
        raise NetworkAmbiguous
    if not ids and must_exist:
        raise ServerRefused("Unable to automatically allocate a network: there is none.")
    return tuple(NicAsked(network_id=network_id) for network_id in ids)


async def check_nics(
    compute: Compute, nics: Sequence[NicAsked], project_id: str, permissions: Permissions | None
) -> None:
    """Raise ServerRefused for networks that there are not, and what keeps the project from them, or from ports."""
    network_ids = sorted({nic.network_id for nic in nics if nic.network_id and not nic.port_id})
    networks = await compute.network.get_networks(network_ids) if network_ids else {}
    visible = {
        network_id
        for network_id, network in networks.items()
        if permissions is None or sees_network(network, project_id, permissions)
    }
    missing = [network_id for network_id in network_ids if network_id not in visible]
    if missing:
        raise ServerRefused(f"Network {', '.join(missing)} could not be found.")
    for network_id in network_ids:
        if not networks[network_id].has_subnets:  # Source: Nova, NetworkRequiresSubnet
            raise ServerRefused(f"Network {network_id} requires a subnet in order to boot instances on.")
    if permissions is None:
        return
    if refusal := find_refusal(nics, networks, project_id, permissions):
        raise NicForbidden(refusal)
    port_ids = [nic.port_id for nic in nics if nic.port_id]
    if port_ids and not permissions.others:
        projects = await compute.network.get_port_projects(port_ids)
        for port_id in port_ids:
            if projects.get(port_id) != project_id:
                raise ServerRefused(f"Port id {port_id} could not be found.")


async def find_flavor(tx: Connection, ref: str, *, public_only: bool) -> Flavor:
    """Return the flavor by its id or name. Raises ServerRefused, which names those that there are."""
    return await _check_flavor(tx, ref, await flavors_store.find_flavor(tx, ref, by_name=True), public_only=public_only)


async def _find_flavor(
    tx: Connection, ref: str, project_id: str, permissions: Permissions | None
) -> tuple[Flavor, dict[str, int]]:
    """Return the flavor, and the quotas that override the configuration for the project, in one look."""
    flavor, quotas = await quotas_store.find_flavor(tx, ref, project_id)
    public_only = permissions is not None and not permissions.others
    return await _check_flavor(tx, ref, flavor, public_only=public_only), quotas


async def _check_flavor(tx: Connection, ref: str, flavor: Flavor | None, *, public_only: bool) -> Flavor:
    if flavor is None or (public_only and not flavor.is_public):
        only = FlavorFilter(is_public=True if public_only else None)
        known = await flavors_store.list_flavors(tx, after="", limit=FLAVORS_NAMED_MAX, only=only)
        names = ", ".join(flavor.name for flavor in known) or "none"
        raise ServerRefused(f"Flavor {ref} could not be found. There are: {names}.")
    return flavor


def read_requirements(flavor: Flavor) -> FlavorRequirements:
    """Return what follows from the flavor's extra specs. Raises ServerRefused."""
    requirements = read_extra_specs(flavor.extra_specs)
    if isinstance(requirements, str):
        raise ServerRefused(requirements)
    return requirements


async def check_zone(compute: Compute, tx: Connection, zone: str | None) -> None:
    """Raise ServerRefused for a zone that there is not."""
    if zone is None:
        return
    default = compute.settings.default_availability_zone
    zones = list_zones(await aggregates_store.list_with_metadata(tx), default=default)
    if zone not in zones:
        raise ServerRefused(zone_sentence(zone, list(zones)))


async def _find_destination(
    compute: Compute, tx: Connection, request: ServerRequest
) -> tuple[str | None, ForcedHost | None]:
    """Return the zone and the host that the servers are to be in. A host that is named decides its zone.

    Raises ServerRefused, HostClosed.
    """
    await check_zone(compute, tx, request.availability_zone)
    forced_host = await find_forced_host(compute, tx, request.host)
    if request.availability_zone is None or forced_host is None:
        return request.availability_zone, forced_host
    default = compute.settings.default_availability_zone
    zones = list_zones(await aggregates_store.list_with_metadata(tx), default=default)
    return next((zone for zone, hosts in zones.items() if forced_host.name in hosts), default), forced_host


async def find_forced_host(
    compute: Compute, tx: Connection, name: str | None, *, anyway: bool = False
) -> ForcedHost | None:
    """Return the host that a server is forced to, if any; what else it lacks, the search for candidates says.

    anyway: also a disabled one.
    """
    if name is None:
        return None
    hosts = await hosts_store.list_hosts(tx, after="", limit=1, names=[name])
    if not hosts:
        raise ServerRefused(f"Compute host {name} could not be found.")
    (host,) = hosts
    if host.disabled and not anyway:
        state, remedy = "is disabled", "Enable it"
    elif host.down and host.forced_down:
        state, remedy = "was forced down", "Set forced_down to false"
    elif host.down:
        state, remedy = "has not been heard of", "Start its agent"
    else:
        return ForcedHost(name=host.name, provider_uuid=host.provider_uuid, anyway=anyway)
    raise HostClosed(f"Compute host {name} {state}: it takes no new server. {remedy}, or name another host.")


async def get_server(compute: Compute, server_id: str) -> Server:
    """Raises ServerNotFound, also for one that was deleted while its host was down."""
    async with compute.database.connection() as connection:
        server = await store.find_server(connection, server_id)
    if server is None:
        raise ServerNotFound(f"Instance {server_id} could not be found.")
    return server


async def list_servers(
    compute: Compute,
    only: ServerFilter,
    *,
    marker: str | None = None,
    limit: int = SERVERS_PAGE_MAX,
    descending: bool = True,
) -> list[Server]:
    """Return a page of servers, the youngest first unless not descending, behind the server `marker`.

    Raises FilterInvalid for an unknown marker, and for a name, ip or ip6 that is no regular expression, has a back
    reference or takes too long.
    """
    search = read_search(replace(only, default_zone=compute.settings.default_availability_zone))
    try:
        async with compute.database.transaction() as tx:
            after = None
            if marker is not None:
                after = await store.find_sequence(tx, marker, project_id=only.project_id)
                if after is None:
                    raise FilterInvalid(f"marker [{marker}] not found")
            return await _list_in_time(tx, search, after, limit=min(limit, SERVERS_PAGE_MAX), descending=descending)
    except asyncpg.InvalidRegularExpressionError as error:
        raise FilterInvalid(f"{search.texts}: {error}") from error


async def _list_in_time(
    tx: Connection, search: Search, after: int | None, *, limit: int, descending: bool
) -> list[Server]:
    """Return the page; one project looks by patterns once at a time, or it would have every core of the database."""
    read = partial(
        store.list_servers, tx, search.only,
        by_patterns=search.by_patterns, after_sequence=after, limit=limit, descending=descending,
    )  # fmt: skip
    if not search.by_patterns:
        return await read()
    try:
        async with asyncio.timeout(PATTERN_S):
            await store.lock_patterns(tx, search.only.project_id or "")
            return await read()
    except TimeoutError as error:
        text = f"{search.texts}: no answer within {PATTERN_S:g} s: expected a plainer pattern, or plain text"
        raise FilterInvalid(f"{text}; a project looks by patterns once at a time") from error


async def delete_server(
    compute: Compute, server_id: str, *, may_be_locked: bool = True, by: Requester | None = None
) -> None:
    """Order the server's delete, at whatever stage it is; again is fine. Raises ServerNotFound, ActionRefused."""
    await _order_delete(compute, server_id, by, may_be_locked=may_be_locked)
    compute.wake(WORK_CHANNEL)


class _Overtaken(ActionRefused):
    """Other work of the server began at the same moment."""


@retried(_Overtaken, most=DELETE_ROUNDS_MAX)
async def _order_delete(compute: Compute, server_id: str, by: Requester | None, *, may_be_locked: bool) -> None:
    async with compute.database.transaction() as tx:
        at_work = await store.lock_work(tx, [server_id])  # R29
        states = await watch_states(compute, tx, [server_id], by)
        mark = (await store.mark_deleting(tx, [server_id])).get(server_id)
        if mark is None:
            raise ServerNotFound(f"Instance {server_id} could not be found.")
        if mark.locked and not may_be_locked:
            raise ActionRefused(locked_sentence(server_id))
        if not await store.want_delete(tx, [server_id], at_work=at_work):
            raise _Overtaken(f"Instance {server_id} changes while its delete is ordered: repeat the request.")
        await announce(compute, tx, states)
        if by is not None and not mark.again:
            await action_log.begin(compute, tx, server_id, "delete", by)
