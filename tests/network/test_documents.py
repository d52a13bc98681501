"""What the API shows of each kind; notifications show ports so too."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from tests.network.cloud import NEVER
from tests.network.parts import a_network, a_port, a_subnet, an_address

from roost.network.model.networks import HostRoute, Link, Segment, described
from roost.network.model.ports import AddressPair
from roost.network.rules import documents

VLAN, OTHER_VLAN = Link("vlan", "red", 7), Link("vlan", "red", 8)


def test_a_network_shows_its_one_segment_as_its_own_and_several_apart() -> None:
    plain = documents.network(a_network(physical_network="blue"))
    assert (plain.physical_network, plain.segments, plain.kind, plain.l2_adjacency) == ("blue", UNSET, None, True)
    one = documents.network(a_network(links=(VLAN,), flat=True, segmented=True, admin_state_up=False))
    assert (one.network_type, one.segmentation_id, one.segments) == ("vlan", 7, UNSET)
    assert (one.kind, one.l2_adjacency, one.status) == ("flat", False, "DOWN")
    several = documents.network(a_network(links=(VLAN, OTHER_VLAN)))
    assert (several.network_type, several.segmentation_id) == (UNSET, UNSET)
    assert several.segments == (VLAN, OTHER_VLAN)


def test_a_segment_shows_its_times_to_the_second() -> None:
    segment = Segment(
        id="g", network_id="n", name=None, description="", network_type="vlan", physical_network="red",
        segmentation_id=7, revision=1, created_at=NEVER, updated_at=NEVER,
    )  # fmt: skip
    shown = documents.segment(segment)
    assert (shown.id, shown.physical_network, shown.created_at) == ("g", "red", NEVER.strftime("%Y-%m-%dT%H:%M:%SZ"))


def test_a_subnet_shows_its_pools_and_routes_as_text() -> None:
    subnet = documents.subnet(a_subnet(host_routes=(HostRoute("10.1.0.0/24", "10.0.0.1"),)))
    assert subnet.allocation_pools == (documents.PoolDocument("10.0.0.2", "10.0.0.6"),)
    assert subnet.host_routes == (HostRoute("10.1.0.0/24", "10.0.0.1"),)
    assert subnet.tenant_id == subnet.project_id


@pytest.mark.parametrize(("mac_address", "shown"), [("fa:16:3e:00:00:09",) * 2, (None, "fa:16:3e:00:00:01")])
def test_a_port_shows_its_addresses_and_pairs(mac_address: str | None, shown: str) -> None:
    pair = AddressPair(ip_address="10.9.0.0/24", mac_address=mac_address)
    port = documents.port(a_port(an_address("10.0.0.2"), allowed_address_pairs=(pair,), binding_profile='{"a": 1}'))
    assert port.fixed_ips == (documents.FixedIpDocument("s", "10.0.0.2"),)
    assert port.allowed_address_pairs == (documents.AddressPairDocument("10.9.0.0/24", shown),)
    assert (port.host_id, port.status, port.vif_details, port.profile) == ("", "DOWN", {}, {"a": 1})


def test_only_a_bound_port_says_how_its_guest_is_plugged_in() -> None:
    plug = {"port_filter": False, "connectivity": "l2"}
    assert [documents.vif_details(vif_type) for vif_type in ("unbound", "ovs")] == [{}, plug]
    bound = documents.port(replace(a_port(), host="h1", vif_type="ovs"))
    assert (bound.host_id, bound.status, bound.vif_details) == ("h1", "ACTIVE", plug)


def test_what_a_type_cannot_say_is_described() -> None:
    assert described(format="uuid").extra_json_schema == {"allOf": [{"format": "uuid"}]}
