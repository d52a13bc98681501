"""What NICs are plugged into, and what nftables is told of them."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.agent.qemu.orders import FLAT, MAC, NETWORK_ID, SUBNET_V6, make_network, make_order, make_port
from tests.agent.qemu.site import PATH, find_lack, skip_for

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.qemu.nics import (
    NicPlan,
    hash_of,
    high_mac,
    keep_address_commands,
    link_commands,
    link_local,
    list_vlans_left,
    nic_rules,
    plan_nics,
    render_table,
    tap_command,
    vlan_commands,
)
from roost.seams.guests import AddressPair, NicSegment

BRIDGES = {"rack1": "br0"}
TAP = "rt0a1b2c3d4e5f"
OWN_V6 = "2001:db8::5054:ff:fe00:2"
IS_MAC = f"ether saddr {MAC} ether type"


def _nic(port: dict[str, Any] | None = None, **network: Any) -> NicPlan:
    order = make_order(ports=(make_port(**port or {}),), networks=(make_network(**network),))
    return plan_nics(order, BRIDGES)[0]


def test_a_nic_of_a_flat_segment_is_on_its_physical_networks_bridge() -> None:
    nic = _nic(mtu=1450)
    assert (nic.tap, nic.segment.bridge, nic.segment.tag) == (TAP, "br0", None)
    assert nic.segment.interface == f"rv{hash_of(FLAT.id)}"
    assert vlan_commands(nic.segment, []) == []
    for up, word in {True: "up", False: "down"}.items():
        assert tap_command(nic, up=up) == f"link set {TAP} address {high_mac(nic.mac)} mtu 1450 master br0 {word}"
    assert all(len(name) < 16 for name in (nic.tap, nic.segment.interface, nic.segment.bridge))


def test_a_vlan_has_a_bridge_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "br0").mkdir()
    (tmp_path / "br0" / "mtu").write_text("9000\n")
    segment = NicSegment(id="x", network_type="vlan", physical_network="rack1", segmentation_id=101)
    plan = _nic(segment=segment).segment
    key = hash_of("x")
    assert (plan.bridge, plan.uplink, plan.tag) == (f"rb{key}", "br0", 101)
    bridge, tagged = f"link add rb{key} type bridge", f"link add link br0 name rl{key} type vlan id 101"
    plugged = [f"link set rl{key} mtu 9000 master rb{key}", f"link set rl{key} up", f"link set rb{key} up"]
    assert vlan_commands(plan, ["br0"], tmp_path) == [bridge, tagged, *plugged]
    assert vlan_commands(plan, ["br0", f"rb{key}"], tmp_path) == [tagged, *plugged], (
        "whatever a failure left is gone on from"
    )
    assert vlan_commands(plan, [f"rl{key}"], tmp_path) == [bridge, *plugged]
    assert vlan_commands(plan, [f"rb{key}", f"rl{key}"], tmp_path) == plugged


def test_no_end_of_a_guest_lowers_the_mtu_of_a_physical_network(tmp_path: Path) -> None:
    (tmp_path / "br0").mkdir()
    (tmp_path / "br0" / "mtu").write_text("1500\n")
    segment = NicSegment(id="x", network_type="vlan", physical_network="rack1", segmentation_id=101)
    for mtu, expected in {1400: 1500, 9000: 9000}.items():
        for words in ({}, {"segment": segment}):
            nic = _nic(mtu=mtu, **words)
            assert f"mtu {expected} master {nic.segment.bridge}" in tap_command(nic, tmp_path, up=True)


def test_the_links_are_those_of_all_guests_but_for_what_is_not_there(tmp_path: Path) -> None:
    nic, other = _nic(), _nic({"port_id": "f" * 12})
    present = ["br0", TAP, other.tap, nic.segment.interface]
    cable, first, second = link_commands([(nic, True), (other, False)], present, tmp_path)
    assert cable.startswith(f"link set {nic.segment.interface} address {nic.segment.interface_mac} mtu 1500 master br0")
    assert (first, second) == (tap_command(nic, tmp_path, up=True), tap_command(other, tmp_path, up=False))
    assert link_commands([(nic, True), (other, False)], ["br0", other.tap], tmp_path) == [second]


def test_a_vlan_without_a_guest_goes_so_that_its_tag_is_free() -> None:
    segment = NicSegment(id="x", network_type="vlan", physical_network="rack1", segmentation_id=101)
    plan, gone = _nic(segment=segment).segment, hash_of("y")
    present = ["br0", "rack1", "rb", "rbx", "rlan0", plan.bridge, f"rl{plan.key}", f"rl{gone}", f"rb{gone}", TAP]
    assert list_vlans_left(present, {plan.key}) == [f"rb{gone}", f"rl{gone}"]


@pytest.mark.parametrize(
    ("segment", "bridges", "reason"),
    [
        ({"network_type": "vxlan"}, BRIDGES, "network public is of type vxlan: expected flat or vlan"),
        ({"physical_network": "rack9"}, BRIDGES, "this host has no physical network rack9 of network public: rack1"),
        ({"physical_network": "rack1"}, {}, "no physical network rack1 of network public: none, for lack of --bridge"),
        ({"network_type": "vlan", "segmentation_id": 4095}, BRIDGES, "has the VLAN tag 4095: expected 1 to 4094"),
        ({"network_type": "vlan"}, BRIDGES, "has the VLAN tag None: expected 1 to 4094"),
        (None, {"a": "br0", "b": "br1"}, "nobody says on which segment of network public the NIC is"),
    ],
)
def test_a_segment_that_is_not_here_is_refused(
    segment: dict[str, Any] | None, bridges: dict[str, str], reason: str
) -> None:
    words = {"id": "x", "network_type": "flat", "physical_network": "rack1"}
    network = make_network(segment=None if segment is None else NicSegment(**words | segment))
    with pytest.raises(LaunchFailed, match=reason):
        plan_nics(make_order(networks=(network,)), bridges)


def test_without_a_word_on_its_segment_a_nic_is_on_the_only_bridge() -> None:
    nic = plan_nics(make_order(networks=()), BRIDGES)[0]
    assert nic.segment.bridge == "br0"
    assert nic.segment.key == hash_of(NETWORK_ID)


def test_networks_are_those_of_the_ports_in_their_order() -> None:
    ports = (make_port(port_id=None), make_port(port_id=None, mac="52:54:00:00:00:03"))
    networks = (make_network(port_id="", mtu=1400), make_network(port_id="", mtu=9000))
    nics = plan_nics(make_order(ports=ports, networks=networks), BRIDGES)
    assert [nic.mtu for nic in nics] == [1400, 9000]
    assert len({nic.tap for nic in nics}) == 2


def test_a_guest_sends_as_itself_alone() -> None:
    rules = nic_rules(_nic())
    assert rules == [
        "ether type ip udp sport 67 drop",
        "ether type ip6 udp sport 547 drop",
        "ether type ip6 icmpv6 type { nd-router-advert, nd-redirect } drop",
        f"{IS_MAC} 0x8035 accept",
        f"{IS_MAC} ip ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept",
        f"{IS_MAC} ip ip saddr {{ 10.1.0.2 }} accept",
        f"{IS_MAC} arp arp saddr ether {MAC} arp saddr ip {{ 10.1.0.2 }} accept",
        f"{IS_MAC} arp arp saddr ether {MAC} arp saddr ip 0.0.0.0 arp daddr ip {{ 10.1.0.2 }} accept",
        "drop",
    ]


def test_an_ipv6_guest_advertises_its_own_addresses_alone() -> None:
    rules = nic_rules(_nic({"addresses": (OWN_V6,)}, subnets=(SUBNET_V6,)))
    own, local = "0x20010db800000000505400fffe000002", "0xfe80000000000000505400fffe000002"
    assert f"ether type ip6 icmpv6 type nd-neighbor-advert @th,64,128 != {{ {own}, {local} }} drop" in rules
    assert f"{IS_MAC} ip6 ip6 saddr {{ {OWN_V6}, fe80::5054:ff:fe00:2 }} accept" in rules
    assert not any("ip saddr {" in rule for rule in rules)


def test_allowed_pairs_are_allowed_with_their_mac() -> None:
    pairs = (
        AddressPair(ip_address="10.1.0.0/30"),  # has the NIC's own address, which nft would call a conflict
        AddressPair(ip_address="10.9.0.0/24", mac_address="52:54:00:00:00:99"),
    )
    rules = nic_rules(_nic(pairs_allowed=pairs))
    assert f"{IS_MAC} ip ip saddr {{ 10.1.0.0/30 }} accept" in rules
    assert "ether saddr 52:54:00:00:00:99 ether type ip ip saddr { 10.9.0.0/24 } accept" in rules
    assert not any(MAC in rule and "10.9." in rule for rule in rules)
    everything = nic_rules(_nic(pairs_allowed=(AddressPair(ip_address="0.0.0.0/0"),)))
    assert f"{IS_MAC} arp arp saddr ether {MAC} arp saddr ip {{ 0.0.0.0/0 }} accept" in everything


def test_without_port_security_nothing_is_asked() -> None:
    assert nic_rules(_nic(port_security=False)) == ["accept"]


def test_the_table_replaces_what_was_and_says_which_nics_are_up() -> None:
    text = render_table([_nic()], {TAP: 119})
    assert text.startswith("table bridge roost\ndelete table bridge roost\ntable bridge roost {\n")
    assert f'elements = {{ "{TAP}" timeout 119s }}' in text
    assert f'elements = {{ "{TAP}" : jump from-{TAP} }}' in text
    assert f'elements = {{ "{TAP}" }}' in render_table([_nic()], {TAP: None})
    assert "elements" not in render_table([], {})
    assert f'"{TAP}" timeout' not in render_table([_nic()], {})


def test_the_ends_of_a_vlans_bridge_are_kept_from_the_host() -> None:
    segment = NicSegment(id="x", network_type="vlan", physical_network="rack1", segmentation_id=101)
    assert "iifname @inside drop" in render_table([], {})
    assert f'elements = {{ "rl{hash_of("x")}", "{TAP}" }}' in render_table([_nic(segment=segment)], {})
    assert "rl" not in render_table([_nic()], {})


def test_link_local_addresses_follow_from_macs() -> None:
    assert str(link_local(MAC)) == "fe80::5054:ff:fe00:2"


@pytest.mark.parametrize(
    ("mac", "high"),
    [("fa:16:3e:00:00:01", "fe:16:3e:00:00:01"), ("02:00:00:00:00:01", "fe:00:00:00:00:01"),
     ("fe:16:3e:00:00:01", "fa:16:3e:00:00:01")],
)  # fmt: skip
def test_a_tap_has_an_address_of_its_own(mac: str, high: str) -> None:
    assert high_mac(mac) == high


@pytest.mark.parametrize(
    ("kind", "ends", "address"),
    [
        ("1", {}, "02:00:00:00:00:01"),
        ("1", {"eth1": "fe:ff:ff:ff:ff:01", TAP: "fe:54:00:00:00:02"}, "fe:ff:ff:ff:ff:01"),
        ("1", {"eth1": "fe:ff:ff:ff:ff:01", "eth2": "0e:00:00:00:00:01"}, "0e:00:00:00:00:01"),
        ("3", {"eth1": "fe:ff:ff:ff:ff:01"}, None),
    ],
)
def test_a_bridge_has_no_address_of_a_guests_end(
    tmp_path: Path, kind: str, ends: dict[str, str], address: str | None
) -> None:
    for name, mac in {"br0": "02:00:00:00:00:01", **ends}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "address").write_text(f"{mac}\n")
    (tmp_path / "br0" / "addr_assign_type").write_text(f"{kind}\n")
    for name in ("", *ends):
        (tmp_path / "br0" / "brif" / name).mkdir()
    commands = [] if address is None else [f"link set br0 address {address}"]
    assert keep_address_commands(["br0", "gone", "br0"], tmp_path) == commands


OTHER_MAC = "00:00:5e:00:01:01"
PAIRS = [
    *(("0.0.0.0/0",), ("0.0.0.0",), ("0.0.0.0/8",), ("255.255.255.255",), ("128.0.0.0/1",), ("10.1.0.2/31",)),
    *(("10.1.0.2/32",), ("::/0",), ("::",), ("8000::/1",), ("::ffff:10.1.2.3",), ("fe80::/10",), ("2001:db8::2/127",)),
    *(("2001:db8::2/128",), ("0.0.0.0/0", "::/0"), ("10.1.0.0/30", "10.1.0.2/31", "10.1.0.2")),
]


def test_nftables_takes_whatever_the_network_service_does() -> None:
    if os.geteuid() != 0 or find_lack() is not None:
        skip_for("nft")
    nics = [
        _nic(
            {"port_id": f"{number:012x}", "addresses": addresses},
            pairs_allowed=tuple(AddressPair(ip_address=pair, mac_address=mac) for pair in pairs),
        )
        for number, (pairs, mac, addresses) in enumerate(
            (pairs, mac, addresses)
            for pairs in [(), *PAIRS]
            for mac in (None, OTHER_MAC)
            for addresses in ((), ("10.1.0.2", OWN_V6))
        )
    ]
    text = render_table([*nics, _nic(port_security=False)], {nic.tap: 5 for nic in nics})
    command = ["unshare", "--net", "nft", "-c", "-f", "-"]
    result = subprocess.run(command, input=text, text=True, capture_output=True, env={"PATH": PATH})
    assert result.returncode == 0, result.stderr
