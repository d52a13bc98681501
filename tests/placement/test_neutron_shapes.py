"""The table of docs/howto/existing-openstack.md, what counts for servers: each row in a cloud beside a Neutron."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.fake_neutron import FakeNeutron
from tests.placement.neutron_cloud import Cloud
from tests.placement.providers import a_uuid
from tests.placement.test_neutron_rules import a_port, a_subnet

from roost.placement.rules.neutron import new_state
from roost.platform.database import Database
from roost.seams.placement import IPV4_ADDRESS
from roost.seams.service_types import serves

Make = Callable[..., Awaitable[Cloud]]
SIX: dict[str, Any] = {
    "ip_version": 6, "gateway_ip": "fd00::1", "cidr": "fd00::/64",
    "allocation_pools": [{"start": "fd00::2", "end": "fd00::ffff"}],
}  # fmt: skip


@pytest.fixture
def make(database: Database) -> Make:
    return lambda *sizes: Cloud.make(database, *sizes)


@pytest.mark.parametrize(
    ("service_types", "owners", "served"),
    [
        pytest.param([], {"compute:nova"}, True, id="for all"),
        pytest.param(["compute:nova"], {"compute:nova"}, True, id="for servers"),
        pytest.param(["compute:nova", "network:dhcp"], {"compute:nova"}, True, id="for servers and others"),
        pytest.param(["compute:nov"], {"compute:nova"}, False, id="names are compared whole"),
        pytest.param(["compute:"], {"compute:nova"}, False, id="a prefix is no zone"),
        pytest.param(["network:floatingip", "network:router_gateway"], {"compute:nova"}, False, id="for routers"),
        pytest.param(["compute:az1"], {"compute:nova"}, False, id="for another zone"),
        pytest.param(["compute:az1"], {"compute:az1"}, True, id="for the zone of all"),
        pytest.param(["compute:az1"], {"compute:az1", "compute:az2"}, False, id="for the zone of some"),
        pytest.param(["compute:az1", "compute:az2"], {"compute:az1", "compute:az2"}, True, id="for both zones"),
    ],
)
def test_addresses_serve_owners_that_all_are_named(service_types: list[str], owners: set[str], served: bool) -> None:
    assert serves(service_types, owners) is served


@pytest.mark.parametrize(
    ("zones", "owner", "counted"),
    [
        pytest.param({}, "", [], id="the zone of its hosts is not told"),
        pytest.param({"a": "az1"}, "", ["n"], id="it is told"),
        pytest.param({"a": "az1"}, "compute:az1", ["n"], id="a server there is in it"),
        pytest.param({"a": "az1"}, "compute:nova", [], id="a server there is in another"),
        pytest.param({"b": "az1"}, "", [], id="another segment's is told"),
    ],
)
def test_a_subnet_of_a_zone_counts_where_all_hosts_are_in_it(
    zones: dict[str, str], owner: str, counted: list[str]
) -> None:
    subnets = [a_subnet(service_types=("compute:az1",))]
    ports = [a_port("10.0.0.2", owner)] if owner else []
    state = new_state([], subnets, ports, [], zones=zones)
    assert [subnet.id for subnet in state.subnets] == counted
    assert {subnet.id for subnet in (*state.subnets, *state.subnets_uncounted)} == {"n"}


Shape = Callable[[FakeNeutron, str], object]


def a_server(neutron: FakeNeutron, segment: str, **members: Any) -> str:
    port = neutron.add_port(segment, a_uuid())
    neutron.update_port(port, **members)
    return port


def with_ipv6(neutron: FakeNeutron, segment: str) -> None:
    six = neutron.add_subnet(segment, 0, **SIX)
    port = neutron.ports[neutron.add_port(segment, a_uuid())]
    port["fixed_ips"].append({"subnet_id": six, "ip_address": "fd00::5"})


def of_ipv6_alone(neutron: FakeNeutron, _segment: str) -> None:
    other = a_uuid()
    neutron.add_network({other: 5})
    (subnet,) = [one for one in neutron.subnets.values() if one["segment_id"] == other]
    subnet |= SIX


def of_a_tenant(neutron: FakeNeutron, _segment: str) -> None:
    """Neutron lists a segment of it, which has no provider, and its subnet is on none."""
    other = a_uuid()
    neutron.add_network({other: 5})
    neutron.add_port(other, a_uuid())
    (subnet,) = [one for one in neutron.subnets.values() if one["segment_id"] == other]
    subnet["segment_id"] = None


def on_a_subnet_of_others(neutron: FakeNeutron, segment: str) -> None:
    """A floating address: nobody's, on a subnet that is no room for servers."""
    subnet = neutron.add_subnet(segment, 60, service_types=["network:floatingip", "network:router_gateway"])
    port = neutron.ports[neutron.add_port(None, "f", owner="network:floatingip")]
    port |= {"network_id": neutron.segments[segment], "fixed_ips": [{"subnet_id": subnet, "ip_address": "10.9.0.9"}]}


ROWS: list[tuple[str, Shape, tuple[int, int, int]]] = [
    ("one subnet", lambda _neutron, _segment: None, (6, 1, 0)),
    ("two subnets on a segment", lambda neutron, segment: neutron.add_subnet(segment, 7), (14, 2, 0)),
    ("dual stack", with_ipv6, (6, 1, 1)),
    ("IPv6 alone", of_ipv6_alone, (6, 1, 0)),
    (
        "DHCP on",
        lambda neutron, _segment: [one.update(enable_dhcp=True) for one in neutron.subnets.values()],
        (6, 2, 0),
    ),
    ("subnet pool", lambda neutron, segment: neutron.add_subnet(segment, 7, subnetpool_id="x"), (14, 2, 0)),
    ("a tenant's network", of_a_tenant, (6, 1, 0)),
    ("for routers", on_a_subnet_of_others, (6, 1, 0)),
    (
        "for servers",
        lambda neutron, segment: neutron.add_subnet(segment, 7, service_types=["compute:nova"]),
        (14, 2, 0),
    ),
    ("for a zone", lambda neutron, segment: neutron.add_subnet(segment, 7, service_types=["compute:az"]), (6, 1, 0)),
    ("a trunk's subport", lambda neutron, segment: neutron.add_port(segment, "t", owner="trunk:subport"), (6, 2, 0)),
    ("SR-IOV", lambda neutron, segment: a_server(neutron, segment, **{"binding:vnic_type": "direct"}), (6, 1, 1)),
    ("no address", lambda neutron, _segment: neutron.add_port(None, a_uuid()), (6, 1, 0)),
    ("another project's", lambda neutron, segment: a_server(neutron, segment, project_id="q"), (6, 1, 1)),
    ("QoS", lambda neutron, segment: a_server(neutron, segment, resource_request={"request_groups": []}), (6, 1, 1)),
    ("Ironic's own", lambda neutron, segment: neutron.add_port(segment, "i", owner="baremetal:none"), (6, 2, 0)),
    ("Ironic's server", lambda neutron, segment: a_server(neutron, segment), (6, 1, 1)),
    ("Octavia's VIP", lambda neutron, segment: neutron.add_port(segment, "lb-1", owner="Octavia"), (6, 2, 0)),
]


@pytest.mark.parametrize(("shape", "expected"), [pytest.param(make, sums, id=name) for name, make, sums in ROWS])
async def test_a_shape_counts_so_many(make: Make, shape: Shape, expected: tuple[int, int, int]) -> None:
    cloud = await make((5, 2))
    (segment,) = cloud.segments
    shape(cloud.neutron, segment.uuid)
    assert all(drift.repaired for drift in (await cloud.round()).drifts)
    _, body = await cloud.nova.api.call("GET", f"/resource_providers/{segment.uuid}/inventories")
    inventory = body["inventories"][IPV4_ADDRESS]
    assert (inventory["total"], inventory["reserved"], await cloud.nova.used(segment)) == expected
    assert (await cloud.sight()).note() is None
    assert (await cloud.round()).drifts == []


async def test_a_subnet_for_routers_admits_no_server_and_is_named(make: Make) -> None:
    cloud = await make((5, 2), (5, 2))
    subnet = cloud.neutron.add_subnet(cloud.segments[0].uuid, 61, service_types=["network:floatingip"])
    done = await cloud.round()
    assert done.drifts == []
    reason = "it is for network:floatingip, not for every server of its segment"
    assert done.sight.subnets_of_others == {subnet: reason}
    assert [len(await cloud.boot()) for _ in range(11)] == [1] * 10 + [0]
    await cloud.round()
    await cloud.assert_agrees()
