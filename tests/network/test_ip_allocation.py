"""`ip_allocation` through the service; test_requests.py has every case."""

from typing import Any

import pytest
from tests.network.cloud import PROJECT, Cloud, assert_sound

from roost.network.errors import HostNotCompatibleWithFixedIps, HostNotConnectedToAnySegment
from roost.network.model.ports import FixedIpRequest, PortChanges, PortRequest
from roost.network.service import ports, subnets
from roost.platform.errors import RoostError
from roost.seams.network import Nic, PortsRefused


@pytest.mark.parametrize(
    ("kind", "host", "named", "expected"),
    [
        ("routed", None, None, ("deferred", 0)),
        ("routed", "h1", None, ("immediate", 1)),
        ("routed", None, "address", ("immediate", 1)),
        ("routed", "h2", "subnet", HostNotCompatibleWithFixedIps),
        ("routed", "nowhere", None, HostNotConnectedToAnySegment),
        ("plain", "nowhere", None, ("immediate", 1)),
        ("plain", None, "[]", ("none", 0)),
        ("no subnets", None, None, ("immediate", 0)),
        ("segment without subnets", "h1", None, ("immediate", 0)),
    ],
)
async def test_what_a_new_port_has(
    cloud: Cloud, kind: str, host: str | None, named: str | None, expected: tuple[str, int] | type[RoostError]
) -> None:
    network, subnet_id = await _network(cloud, kind)
    fixed_ips = {
        None: None,
        "[]": (),
        "subnet": (FixedIpRequest(subnet_id=subnet_id),),
        "address": (FixedIpRequest(ip_address="10.1.0.4"),),
    }[named]
    request = PortRequest(network_id=network.id, project_id=PROJECT, host=host, fixed_ips=fixed_ips)
    if isinstance(expected, tuple):
        port = await ports.create_port(cloud.networks, request)
        assert (port.ip_allocation, len(port.addresses), port.host) == (*expected, host)
    else:
        with pytest.raises(expected):
            await ports.create_port(cloud.networks, request)
    await assert_sound(cloud)


async def _network(cloud: Cloud, kind: str) -> tuple[Any, str]:
    missing = "11111111-1111-4111-8111-111111111111"
    if kind == "routed":
        network, (rack1, _) = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
        (subnet_id,) = [s.id for s in await subnets.list_subnets(cloud.networks) if s.segment_id == rack1.id]
        return network, subnet_id
    await cloud.client.set_hosts({"h1": ["rack1"], "h2": ["rack2"]})
    if kind == "plain":
        network = await cloud.plain("10.1.0.0/29")
        return network, (await subnets.list_subnets(cloud.networks))[0].id
    network = await cloud.network()
    if kind == "segment without subnets":
        await cloud.segment(network, "rack1")
    return network, missing


async def test_only_a_deferred_port_gets_an_address_by_being_bound(cloud: Cloud) -> None:
    """One of a network that had no subnet, and one that was to have no address, get none; builds refuse the one."""
    network = await cloud.network()
    segment = await cloud.segment(network, "rack1")
    early = await ports.create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    await cloud.subnet(network, "10.1.0.0/29", segment)
    await cloud.client.set_hosts({"h1": ["rack1"]})
    bare = await ports.create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=()))
    late = await ports.create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    (refused,) = await cloud.client.ensure_ports([cloud.server(Nic(tag="0", port_id=early.id))])
    assert isinstance(refused, PortsRefused)
    assert refused.reason == f"Port {early.id} requires a FixedIP in order to be used."
    for port, count in ((early, 0), (bare, 0), (late, 1)):
        bound = await ports.update_port(cloud.networks, port.id, PortChanges(host="h1"))
        assert (len(bound.addresses), bound.ip_allocation) == (count, port.ip_allocation)
    await assert_sound(cloud)


async def test_a_port_of_which_all_addresses_were_taken_gets_one_when_it_is_named_or_bound_anew(cloud: Cloud) -> None:
    network, _ = await cloud.routed("10.1.0.0/29")
    await cloud.client.set_hosts({"h1b": ["rack1"]})
    port = await ports.create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    await ports.update_port(cloud.networks, port.id, PortChanges(host="h1"))
    bare = await ports.update_port(cloud.networks, port.id, PortChanges(fixed_ips=()))
    assert (bare.addresses, bare.ip_allocation) == ((), "deferred")
    assert (await ports.update_port(cloud.networks, port.id, PortChanges(host="h1b"))).addresses == ()
    await ports.update_port(cloud.networks, port.id, PortChanges(host=""))
    assert len((await ports.update_port(cloud.networks, port.id, PortChanges(host="h1"))).addresses) == 1
    await assert_sound(cloud)


@pytest.mark.parametrize("fixed_ips", [None, ()])
@pytest.mark.parametrize("kind", ["none", "deferred", "lost its address"])
async def test_a_port_without_address_is_bound_only_where_some_segment_is_reached(
    cloud: Cloud, kind: str, fixed_ips: tuple[FixedIpRequest, ...] | None
) -> None:
    """As if it were made there; `fixed_ips: []` beside the host says that it is to have none."""
    network, _ = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    named = () if kind == "none" else None
    port = await ports.create_port(
        cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=named)
    )
    if kind == "lost its address":
        await ports.update_port(cloud.networks, port.id, PortChanges(host="h2"))
        await ports.update_port(cloud.networks, port.id, PortChanges(fixed_ips=()))
    with pytest.raises(HostNotConnectedToAnySegment):
        await ports.update_port(cloud.networks, port.id, PortChanges(host="nowhere", fixed_ips=fixed_ips))
    bound = await ports.update_port(cloud.networks, port.id, PortChanges(host="h1", fixed_ips=fixed_ips))
    assert (bound.host, len(bound.addresses)) == ("h1", int(kind == "deferred" and fixed_ips is None))
    await assert_sound(cloud)
