"""Compute, network and ledger together: who reaches a segment is one truth in all three."""

import pytest
from tests.network.cloud import Cloud

from roost.compute.errors import ServerRefused
from roost.compute.model.server import NicAsked, ServerRequest
from roost.compute.service import Compute, flavors, servers
from roost.compute.service import hosts as service
from roost.seams.agent import HostReport
from roost.seams.network import NetworkView


async def reached(compute: Compute, view: NetworkView) -> dict[str, set[str]]:
    """For each segment, by name, the providers that share an aggregate with it: those that may use its addresses."""
    aggregates = {segment.name: segment.placement_aggregate or "" for segment in view.segments}
    members = await compute.placement.list_aggregate_providers(list(aggregates.values()))
    segments = {segment.provider_uuid for segment in view.segments}
    assert all(set(members[aggregate]) & segments for aggregate in aggregates.values())
    return {name: set(members[aggregate]) - segments for name, aggregate in aggregates.items()}


async def test_hosts_are_in_the_aggregates_of_the_segments_that_they_reach(compute: Compute) -> None:
    def report(name: str, *physical_networks: str) -> HostReport:
        return HostReport(name=name, vcpus=4, ram_mb=4096, disk_gb=40, physical_networks=physical_networks)

    cloud = Cloud(compute.network.service, compute.network, None)
    await service.register_hosts(compute, [report("early", "rack1")], agent=None)
    network = await cloud.network()
    for number, cidr in enumerate(("203.0.113.0/28", "203.0.113.16/28"), 1):
        segment = await cloud.segment(network, f"rack{number}")
        await cloud.subnet(network, cidr, segment)
    await service.register_hosts(compute, [report("late", "rack2"), report("both", "rack1", "rack2")], agent=None)
    early, late, both = (service.provider_uuid_of(name) for name in ("early", "late", "both"))
    view = (await compute.network.get_networks([network.id]))[network.id]
    assert await reached(compute, view) == {"rack1": {early, both}, "rack2": {late, both}}
    await service.register_hosts(compute, [report("both", "rack1")], agent=None)
    assert await reached(compute, view) == {"rack1": {early, both}, "rack2": {late}}


@pytest.mark.parametrize("named", [True, False], ids=["named", "the only one"])
async def test_a_network_without_a_subnet_takes_no_server_but_with_a_port(compute: Compute, named: bool) -> None:
    await flavors.create_flavor(compute, flavors.FlavorRequest(name="small", vcpus=1, ram_mb=1, disk_gb=0))
    cloud = Cloud(compute.network.service, compute.network, None)
    network = await cloud.network()

    async def boot(*nics: NicAsked) -> None:
        request = ServerRequest(name="a", flavor_ref="small", nics=nics or None)
        await servers.create_servers(compute, request, project_id="p", user_id="u")

    nic = [NicAsked(network_id=network.id)] if named else []
    text = f"Network {network.id} requires a subnet in order to boot instances on."
    with pytest.raises(ServerRefused, match=text):
        await boot(*nic)
    await boot(NicAsked(network_id=network.id, port_id="11111111-1111-1111-1111-111111111111"))
    await cloud.subnet(network, "203.0.113.0/28")
    await boot(*nic)
