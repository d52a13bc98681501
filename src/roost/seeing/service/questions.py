"""Reads what servers that are asked about would ask of hosts, and the index on which that is tried."""

from collections.abc import Sequence

from roost.compute.model.server import Server
from roost.compute.service.aggregates import list_with_metadata
from roost.compute.service.hosts import count_closed_hosts, list_empty_aggregates, list_hosts
from roost.compute.service.servers import check_zone, find_flavor, get_server, read_requirements
from roost.network.service.views import find_networks
from roost.placement.search.index import Index
from roost.placement.service.ledger import Ledger
from roost.platform.errors import BadRequest, NotFound
from roost.platform.http import is_uuid
from roost.scheduling.explain import ClosedHosts
from roost.scheduling.host_aggregates import aggregates_asked
from roost.scheduling.request import NicRequest, reached_through
from roost.seams.compute import ForcedHost, RequestSpec
from roost.seeing.errors import LedgerElsewhere
from roost.seeing.rules.explanations import Surroundings
from roost.seeing.rules.questions import Question, ServersAsked, build_question
from roost.seeing.service.context import Seeing


async def copy_index(seeing: Seeing) -> Index:
    """Return a copy of the ledger's index as of now, which may be changed. Raises LedgerElsewhere."""
    return (await find_ledger(seeing).index.fresh()).copy()


def find_ledger(seeing: Seeing) -> Ledger:
    """Return the ledger next door. Raises LedgerElsewhere."""
    if seeing.ledger is None:
        raise LedgerElsewhere
    return seeing.ledger


async def read_surroundings(seeing: Seeing, nics: Sequence[NicRequest]) -> Surroundings:
    """Return what an explanation says beside what the index knows, of servers with these NICs."""
    aggregates = sorted({aggregate for nic in nics for aggregate in reached_through(nic)})
    networks = sorted({nic.network.id for nic in nics})
    compute = seeing.compute
    return Surroundings(
        closed=ClosedHosts(*await count_closed_hosts(compute)),
        empty_aggregates=frozenset(await list_empty_aggregates(compute, aggregates)),
        addresses_held=await compute.network.count_held_addresses(networks) if networks else {},
    )


async def read_question(seeing: Seeing, asked: ServersAsked) -> Question:
    """Return what the servers would ask of hosts.

    Raises LedgerElsewhere; BadRequest for a flavor or a zone that there is not, extra specs that are not served, and
    neither flavor nor server; NotFound for a server, a network or a host that there is not; Conflict for a name of
    several networks.
    """
    find_ledger(seeing)  # else nothing is asked for
    like = None if asked.like is None else await _find_server(seeing, asked.like)
    name, spec = await _read_spec(seeing, asked, like)
    refs = list(asked.networks)
    if not refs and like is not None:
        refs = [port.network_id for port in like.ports]
    networks = await find_networks(seeing.networks, refs) if refs else []
    for network in networks:
        if not network.has_subnets:
            raise BadRequest(f"Network {network.name} requires a subnet in order to boot instances on.")
    project_id = asked.project or (like.project_id if like else "")
    aggregates = aggregates_asked(
        await list_with_metadata(seeing.compute),
        zone=spec.availability_zone,
        default_zone=seeing.compute.settings.default_availability_zone,
        project_id=project_id,
    )
    return build_question(name, spec, networks, aggregates, seeing.placing)


async def _read_spec(seeing: Seeing, asked: ServersAsked, like: Server | None) -> tuple[str, RequestSpec]:
    """Return the name that answers give the servers, and what they ask for beside networks."""
    async with seeing.compute.database.connection() as connection:
        await check_zone(seeing.compute, connection, asked.zone)
        flavor = None
        if asked.flavor is not None:
            flavor = await find_flavor(connection, asked.flavor, public_only=False)
        elif like is None:
            raise BadRequest("expected a flavor, or a server to be like")
    zone = asked.zone or (like.spec.availability_zone if like else None)
    forced_host = await _find_host(seeing, asked.host)
    if flavor is None:
        assert like is not None, "without a flavor there is a server"
        spec = like.spec
        spec = RequestSpec(
            vcpus=spec.vcpus,
            memory_mb=spec.memory_mb,
            disk_gb=spec.disk_gb,
            availability_zone=zone,
            flavor_groups=spec.flavor_groups,
            isolated=spec.isolated,
            forced_host=forced_host,
            image_traits=spec.image_traits,
        )
        return f"server {like.name}", spec
    requirements = read_requirements(flavor)
    return f"flavor {flavor.name}", RequestSpec(
        vcpus=flavor.vcpus,
        memory_mb=flavor.ram_mb,
        disk_gb=flavor.disk_gb,
        availability_zone=zone,
        flavor_groups=requirements.groups,
        isolated=requirements.isolated,
        forced_host=forced_host,
        image_traits=like.spec.image_traits if like else frozenset(),
    )


async def _find_server(seeing: Seeing, server_id: str) -> Server:
    if not is_uuid(server_id):
        raise NotFound(f"Instance {server_id} could not be found.")
    return await get_server(seeing.compute, server_id)


async def _find_host(seeing: Seeing, name: str | None) -> ForcedHost | None:
    """Return the host that is named, closed or not: that it is closed, is an answer."""
    if name is None:
        return None
    hosts = await list_hosts(seeing.compute, [name])
    if not hosts:
        raise NotFound(f"Compute host {name} could not be found.")
    return ForcedHost(name=hosts[0].name, provider_uuid=hosts[0].provider_uuid)
