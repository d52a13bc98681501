"""Which hidden ports become a server's, and what is claimed for them."""

from typing import Any

import pytest
from tests.network.cloud import NEVER

from roost.network.model.networks import Holdings, ProviderSource, SubnetKind
from roost.network.model.ports import HELD_OWNER, Address, Port
from roost.network.rules.unknown_guests import claims_of, plan_adoption, without_reserved
from roost.seams.placement import ConsumerClaim
from roost.seams.unknown_guests import AdoptedNic, Adoption

SERVER = "11111111-1111-1111-1111-111111111111"
CLAIM = ConsumerClaim(
    consumer_uuid=SERVER, generation=None, consumer_type="INSTANCE", project_id="p", user_id="u", allocations={}
)
SUBNET = SubnetKind(id="s", network_id="n", segment_id="g", name="", ip_version=4, cidr="10.0.0.0/29", enable_dhcp=True)
SUBNETS = {"s": SUBNET, "f": SubnetKind(**{**{n: getattr(SUBNET, n) for n in SUBNET.__struct_fields__}, "cell": "c"})}


def port(port_id: str = "hidden", address: str = "10.0.0.2", **more: Any) -> Port:
    item = Address(
        subnet_id=more.pop("subnet_id", "s"), address=address, port_id=port_id, in_pool=more.pop("in_pool", True),
        claimed=False, provider_uuid="g",
    )  # fmt: skip
    fields: dict[str, Any] = {
        "id": port_id, "network_id": "n", "project_id": "", "name": "", "description": "", "mac_address": "m",
        "admin_state_up": True, "device_id": "", "device_owner": HELD_OWNER, "ip_allocation": "none", "host": "h1",
        "vnic_type": "normal", "binding_profile": "{}", "vif_type": "ovs", "made_for": SERVER, "reserved_from": None,
        "revision": 1, "created_at": NEVER, "updated_at": NEVER, "nic_tag": "", "addresses": (item,), **more,
    }  # fmt: skip
    return Port(**fields)


def own(port_id: str = "new", **more: Any) -> Port:
    return port(port_id, device_id=SERVER, device_owner="compute:nova", nic_tag=None, **more)


def adoption(*addresses: str) -> Adoption:
    nic = AdoptedNic(
        tag="0",
        port_id="new",
        network_id="n",
        mac_address="m",
        addresses=addresses or ("10.0.0.2",),
        made_by_roost=True,
    )
    return Adoption(
        server_id=SERVER, project_id="p", host="h1", availability_zone="nova", nics=(nic,), claim=CLAIM
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ports", "adopted", "bound", "refusal"),
    [
        ([port()], ["hidden"], [], ""),
        ([own()], [], ["new"], ""),
        ([own(address="10.0.0.3")], [], [], "port new of its server has other addresses"),
        ([own(), own("other", address="10.0.0.4")], [], [], "port other of its server is none of the guest's NICs"),
        ([], [], [], "NIC 0 with 10.0.0.2: no single port holds its addresses"),
        ([port(made_for="another")], [], [], "no single port holds its addresses"),
        ([port(nic_tag=None)], [], [], "no single port holds its addresses"),  # a client's
        ([port(), port("hidden-2")], [], [], "no single port holds its addresses"),
        ([port(host="h2")], [], [], "held on another host"),
        ([port(network_id="n2")], [], [], "of another network than n"),
        ([port(), port("new", address="10.0.0.6")], [], [], "there is another port new"),
        ([port(mac_address="m2")], [], [], "its MAC address m is another port's"),
    ],
)
def test_only_what_holds_the_guests_addresses_becomes_its_servers(
    ports: list[Port], adopted: list[str], bound: list[str], refusal: str
) -> None:
    plan = plan_adoption(adoption(), ports, SUBNETS)
    assert ([item.hidden_id for item in plan.adopted], list(plan.bound)) == (adopted, bound)
    assert refusal in plan.refusal
    assert bool(refusal) == bool(plan.refusal)


@pytest.mark.parametrize(
    ("hidden", "is_flat", "flat", "by_port"),
    [
        (port(), False, {}, {"new": {"g": {"IPV4_ADDRESS": 1}}}),
        (port(in_pool=False), False, {}, {}),
        (port(subnet_id="f"), True, {"g": {"IPV4_ADDRESS": 1}}, {}),
    ],
)
def test_what_counts_is_claimed_by_the_port_or_on_a_flat_network_by_its_server(
    hidden: Port, is_flat: bool, flat: Any, by_port: Any
) -> None:
    plan = plan_adoption(adoption(), [hidden], SUBNETS)
    assert claims_of(plan) == (flat, by_port)
    assert [item.nic_tag for item in plan.adopted] == (["0"] if is_flat else [None])
    holdings = {hidden_id(hidden): Holdings(unclaimed_inside=2)}
    source = ProviderSource(provider_uuid="g", routed=True, physical_network=None, subnets=(), holdings=holdings)
    expected = 1 if hidden.addresses[0].in_pool else 2
    left = without_reserved(source, plan.adopted).holdings
    assert left == {hidden_id(hidden): Holdings(unclaimed_inside=expected)}


def hidden_id(item: Port) -> str:
    return item.addresses[0].subnet_id
