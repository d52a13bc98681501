"""`ip_allocation` in every case. Source: Neutron, db_base_plugin_v2.create_port_db and tests of the segments plugin."""

import itertools
from typing import Any

import pytest
from tests.network.cloud import PROJECT, Cloud, assert_sound

from roost.network import errors
from roost.network.errors import FixedIpsSubnetsNotOnSameSegment, HostNotConnectedToAnySegment
from roost.network.model.ports import FixedIpRequest, PortChanges, PortRequest
from roost.network.service import ports, subnets
from roost.seams.network import Nic, PortsRefused

HOSTS = (None, "h1", "h2", "nowhere")
"""h1 reaches what is named, h2 another segment of a routed network, nowhere none."""

FIXED_IPS = (None, "[]", "subnet", "address")
NETWORKS = ("routed", "plain", "no subnets", "segment without subnets")

UNCONNECTED, INCOMPATIBLE = "HostNotConnectedToAnySegment", "HostNotCompatibleWithFixedIps"
EXPECTED: dict[tuple[str, str | None, str | None], tuple[str, int] | str] = {
    ("routed", None, None): ("deferred", 0),
    ("routed", None, "[]"): ("none", 0),
    ("routed", None, "subnet"): ("immediate", 1),
    ("routed", None, "address"): ("immediate", 1),
    ("routed", "h1", None): ("immediate", 1),
    ("routed", "h1", "[]"): ("none", 0),
    ("routed", "h1", "subnet"): ("immediate", 1),
    ("routed", "h1", "address"): ("immediate", 1),
    ("routed", "h2", None): ("immediate", 1),
    ("routed", "h2", "[]"): ("none", 0),
    ("routed", "h2", "subnet"): INCOMPATIBLE,
    ("routed", "h2", "address"): INCOMPATIBLE,
    ("routed", "nowhere", None): UNCONNECTED,
    ("routed", "nowhere", "[]"): UNCONNECTED,
    ("routed", "nowhere", "subnet"): UNCONNECTED,
    ("routed", "nowhere", "address"): UNCONNECTED,
    **{
        ("plain", host, asked): ("none", 0) if asked == "[]" else ("immediate", 1)
        for host, asked in itertools.product(HOSTS, FIXED_IPS)
    },
    **{
        (network, host, asked): ("none", 0) if asked == "[]" else ("immediate", 0) if asked is None else "InvalidInput"
        for network, host, asked in itertools.product(NETWORKS[2:], HOSTS, FIXED_IPS)
    },
}


@pytest.mark.parametrize(("network_kind", "host", "asked"), list(itertools.product(NETWORKS, HOSTS, FIXED_IPS)))
async def test_what_a_new_port_has(cloud: Cloud, network_kind: str, host: str | None, asked: str | None) -> None:
    network, subnet_id = await _network(cloud, network_kind)
    named = {
        None: None,
        "[]": (),
        "subnet": (FixedIpRequest(subnet_id=subnet_id),),
        "address": (FixedIpRequest(ip_address="10.1.0.4"),),
    }[asked]
    request = PortRequest(network_id=network.id, project_id=PROJECT, host=host, fixed_ips=named)
    expected = EXPECTED[network_kind, host, asked]
    if isinstance(expected, str):
        with pytest.raises(getattr(errors, expected)) as refused:
            await ports.create_port(cloud.networks, request)
        if expected == INCOMPATIBLE:
            assert "on segment rack1 (" in str(refused.value)
            assert "the host reaches segment rack2 (" in str(refused.value)
        if expected == UNCONNECTED:
            assert "segment rack1 (" in str(refused.value)
    else:
        port = await ports.create_port(cloud.networks, request)
        assert (port.ip_allocation, len(port.addresses), port.host) == (*expected, host)
        if host == "h2" and network_kind == "routed" and port.addresses:
            assert port.addresses[0].address.startswith("10.2.")
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


@pytest.mark.parametrize("owner", ["", "network:distributed"])
async def test_two_segments_in_one_request_are_refused(cloud: Cloud, owner: str) -> None:
    network, _ = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    named = (FixedIpRequest(ip_address="10.1.0.4"), FixedIpRequest(ip_address="10.2.0.4"))
    request = PortRequest(network_id=network.id, project_id=PROJECT, device_owner=owner, fixed_ips=named)
    with pytest.raises(FixedIpsSubnetsNotOnSameSegment):
        await ports.create_port(cloud.networks, request)


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
