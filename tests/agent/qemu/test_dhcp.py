"""What dnsmasq is told."""

import asyncio
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from structlog.testing import capture_logs
from tests.agent.qemu.orders import MAC, SUBNET, SUBNET_V6, make_network, make_order, make_port
from tests.agent.qemu.site import PATH, skip_for

from roost.agent.drivers.programs import ProgramFailed
from roost.agent.drivers.qemu.dhcp import Dhcp, SegmentFiles, namespace_script, render_configuration, render_hosts
from roost.agent.drivers.qemu.nics import NicPlan, plan_nics
from roost.seams.guests import NicSegment, NicSubnet, Route

FILES = SegmentFiles(Path("/state/segments/x"))


def _nics(*subnets: NicSubnet, addresses: tuple[str, ...] = ("10.1.0.2",), **network: Any) -> tuple[NicPlan, ...]:
    ports = (make_port(addresses=addresses),)
    return plan_nics(make_order(ports=ports, networks=(make_network(subnets=subnets, **network),)), {"rack1": "br0"})


def _lines(*subnets: NicSubnet, **network: Any) -> list[str]:
    return render_configuration(_nics(*subnets, **network), FILES).splitlines()


def test_a_subnet_is_served_without_an_address_of_it() -> None:
    lines = _lines(SUBNET, mtu=1450)
    assert "shared-network=eth0,10.1.0.0" in lines
    assert "dhcp-range=set:s0,10.1.0.0,static,255.255.255.0,86400" in lines
    assert "dhcp-option=tag:s0,option:router,10.1.0.1" in lines
    assert "dhcp-option=tag:s0,option:mtu,1450" in lines
    assert {"port=0", "bind-interfaces", "interface=eth0", "leasefile-ro", "dhcp-ignore=tag:!known"} <= set(lines)
    assert not any(line.startswith("ra-param") for line in lines)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"gateway": None}, "dhcp-option=tag:s0,option:router"),
        ({"dns": ("10.0.0.9", "2001:db8::9")}, "dhcp-option=tag:s0,option:dns-server,10.0.0.9"),
        ({}, "dhcp-option=tag:s0,option:dns-server"),
        (
            {"routes": (Route(destination="10.8.0.0/16", nexthop="10.1.0.3"),)},
            "dhcp-option=tag:s0,option:classless-static-route,10.8.0.0/16,10.1.0.3,0.0.0.0/0,10.1.0.1",
        ),
    ],
)
def test_what_a_guest_is_told_is_the_subnets(words: dict[str, Any], expected: str) -> None:
    assert expected in _lines(NicSubnet(**{"cidr": "10.1.0.0/24", "gateway": "10.1.0.1"} | words))


def test_a_subnet_without_dhcp_is_not_served() -> None:
    assert not any("10.1.0.0" in line for line in _lines(NicSubnet(cidr="10.1.0.0/24", dhcp=False)))


@pytest.mark.parametrize(
    ("ra_mode", "address_mode", "mode"),
    [
        ("slaac", "slaac", "ra-only"),
        ("dhcpv6-stateless", "dhcpv6-stateless", "ra-stateless"),
        ("dhcpv6-stateful", "dhcpv6-stateful", "static"),
        (None, "dhcpv6-stateful", "static"),
        (None, "slaac", None),
        (None, None, None),
    ],
)
def test_ipv6_is_advertised_only_as_the_subnet_asks(
    ra_mode: str | None, address_mode: str | None, mode: str | None
) -> None:
    lines = _lines(NicSubnet(cidr="2001:db8::/64", ra_mode=ra_mode, address_mode=address_mode))
    assert ("enable-ra" in lines) == (ra_mode is not None)
    ranges = [line for line in lines if line.startswith("dhcp-range")]
    assert ranges == ([] if mode is None else [f"dhcp-range=set:s0,2001:db8::,{mode},64,86400"])
    assert ("ra-param=eth0,mtu:1500,60,0" in lines) == (mode is not None), "no router's lifetime"


def test_a_guest_is_known_by_its_mac() -> None:
    stateful = NicSubnet(cidr="2001:db8:1::/64", ra_mode="dhcpv6-stateful", address_mode="dhcpv6-stateful")
    addresses = ("2001:db8::5", "10.1.0.2", "10.1.0.9", "2001:db8:1::7", "2001:db8:1::8")
    both = _nics(SUBNET, SUBNET_V6, stateful, addresses=addresses)
    assert render_hosts(both) == f"{MAC},10.1.0.2,[2001:db8:1::7],[2001:db8:1::8],web\n"
    assert render_hosts(()) == ""


def test_the_namespace_has_a_link_local_address_and_the_anycast_of_prefixes() -> None:
    nics = _nics(SUBNET, SUBNET_V6)
    script = namespace_script(nics, interface="rvx", pid=7, configuration=Path("/a b/dnsmasq.conf"))
    assert script.splitlines() == [
        "set -e",
        "ip link set lo up",
        "ip link add eth0 type veth peer name rvx netns 7",
        "ip address add 169.254.169.254/32 dev eth0",
        "ip link set eth0 up",
        "ip address add 2001:db8::/64 dev eth0 nodad noprefixroute",
        "exec dnsmasq --conf-file='/a b/dnsmasq.conf'",
    ]


STATEFUL: dict[str, Any] = {"ra_mode": "dhcpv6-stateful", "address_mode": "dhcpv6-stateful"}
LARGE = NicSubnet(cidr="2001:db8::/56", **STATEFUL)
PEERS = tuple(Route(destination=f"10.{number}.0.0/16", nexthop="10.1.0.1") for number in range(2, 250))
OWN_ROUTES = tuple(Route(destination=f"10.8.{number}.1/32", nexthop="10.1.0.3") for number in range(20))


def test_of_a_subnet_that_is_larger_than_dnsmasq_takes_each_prefix_with_an_address_is_served() -> None:
    nics = _nics(LARGE, addresses=("2001:db8:0:7::5", "2001:db8::9"))
    lines = render_configuration(nics, FILES).splitlines()
    prefixes = ["2001:db8::", "2001:db8:0:7::"]
    ranges = {line for line in lines if line.startswith("dhcp-range")}
    assert ranges == {f"dhcp-range=set:s0,{prefix},static,64,86400" for prefix in prefixes}
    assert "dhcp-range=set:s0,2001:db8::,static,64,86400" in _lines(LARGE)
    script = namespace_script(nics, interface="rvx", pid=7, configuration=FILES.configuration).splitlines()
    assert {line for line in script if "noprefixroute" in line} == {
        f"ip address add {prefix}/64 dev eth0 nodad noprefixroute" for prefix in prefixes
    }


def test_routes_that_an_option_has_no_room_for_are_left_to_the_default_route() -> None:
    lines = _lines(NicSubnet(cidr="10.1.0.0/24", gateway="10.1.0.1", routes=OWN_ROUTES + PEERS))
    [words] = [line.split(",")[2:] for line in lines if "classless-static-route" in line]
    destinations = words[::2]
    assert destinations[:20] == [route.destination for route in OWN_ROUTES]
    assert destinations[-1] == "0.0.0.0/0"
    assert 20 < len(destinations) < 40


@pytest.mark.parametrize(
    "hostname",
    ["ignore", "infinite", "12", "3600s", "12D", "10.1.0.9", "-web", "_web", "a" * 64, "a..b", "..", ""],
)
def test_a_hostname_that_dnsmasq_would_take_for_something_else_is_left_out(hostname: str) -> None:
    order = make_order(hostname=hostname)
    assert render_hosts(plan_nics(order, {"rack1": "br0"})) == f"{MAC},10.1.0.2\n"


def test_a_subnet_that_is_not_served_has_no_address_in_the_namespace() -> None:
    """The kernel takes no multicast address, and one of a /128 is its guest's."""
    nics = _nics(NicSubnet(cidr="ff02::/16", dhcp=False), NicSubnet(cidr="2001:db8::/128", dhcp=False))
    script = namespace_script(nics, interface="rvx", pid=7, configuration=FILES.configuration)
    assert "noprefixroute" not in script


TAKEN: Sequence[dict[str, Any]] = [
    *({"subnets": (NicSubnet(cidr=f"2001:db8::/{length}", **STATEFUL),)} for length in (32, 56, 63, 64, 65, 126, 128)),
    *({"subnets": (NicSubnet(cidr=f"10.1.0.0/{length}", gateway="10.1.0.1"),)} for length in (16, 30, 31, 32)),
    {"subnets": (NicSubnet(cidr="128.0.0.0/1"),)},
    {"subnets": (NicSubnet(cidr="10.1.0.0/24", gateway="10.1.0.1", routes=OWN_ROUTES + PEERS),)},
    {"subnets": (NicSubnet(cidr="10.1.0.0/24", routes=(Route(destination="0.0.0.0/0", nexthop="10.1.0.9"),)),)},
    {"subnets": (NicSubnet(cidr="10.1.0.0/24", dns=("0.0.0.0", *(f"10.0.0.{number}" for number in range(4)))),)},
    {"subnets": (NicSubnet(cidr="2001:db8::/64", dns=("::", "2001:db8::1", "fe80::1"), **STATEFUL),)},
    *({"mtu": mtu, "subnets": (SUBNET, SUBNET_V6)} for mtu in (68, 1279, 1280, 9000, 65535)),
    *({"subnets": (SUBNET,), "hostname": name} for name in ("web", "a", "3com", "a_b.example.org", "ignore", "..")),
]
"""What the network service takes of a subnet, network and server."""


@pytest.mark.parametrize("words", TAKEN)
def test_dnsmasq_takes_whatever_the_network_service_does(words: dict[str, Any], tmp_path: Path) -> None:
    if shutil.which("dnsmasq", path=PATH) is None:
        skip_for("dnsmasq")
    network = {name: value for name, value in words.items() if name != "hostname"}
    ports = (make_port(addresses=("10.1.0.2", "2001:db8:0:7::5")),)
    order = make_order(ports=ports, networks=(make_network(**network),), hostname=words.get("hostname", "web"))
    nics = plan_nics(order, {"rack1": "br0"})
    hosts = "".join(f"dhcp-host={line}\n" for line in render_hosts(nics).splitlines())
    (tmp_path / "conf").write_text(render_configuration(nics, FILES) + hosts)
    command = ["dnsmasq", "--test", f"--conf-file={tmp_path / 'conf'}"]
    result = subprocess.run(command, text=True, capture_output=True, env={"PATH": PATH})
    assert result.returncode == 0, result.stderr


class HalfBroken(Dhcp):
    """Serves all segments but some. broken: what fails for those."""

    def __init__(self, folder: Path, broken: dict[str, Exception]) -> None:
        super().__init__(folder)
        self.broken = broken
        self.served: list[str] = []

    async def _serve(self, key: str, nics: Sequence[NicPlan]) -> None:
        if not nics:
            return await super()._serve(key, nics)
        bridge = nics[0].segment.bridge
        if bridge in self.broken:
            raise self.broken[bridge]
        self.served.append(bridge)


@pytest.mark.parametrize("failure", [ProgramFailed("dnsmasq: no"), OSError(28, "full")])
def test_a_segment_that_fails_is_raised_for_whom_it_is_needed_and_logged_for_others(
    tmp_path: Path, failure: Exception
) -> None:
    bridges = ("br0", "br1", "br2")
    bad, fine, other = [
        plan_nics(make_order(networks=(make_network(segment=segment_on(bridge)),)), {bridge: bridge})[0]
        for bridge in bridges
    ]
    dhcp = HalfBroken(tmp_path / "segments", {"br0": failure})
    with capture_logs() as logs:
        asyncio.run(dhcp.apply([bad, fine, other], needed={fine.segment}))
    assert dhcp.served == ["br2", "br1"], "what is needed comes last"
    assert [line["event"] for line in logs] == ["a segment's DHCP is not as it should be"]
    with pytest.raises(type(failure)):
        asyncio.run(dhcp.apply([bad, fine, other], needed={bad.segment}))
    assert dhcp.served == ["br2", "br1", "br1", "br2"], "the others first"


def test_a_segment_without_a_guest_whose_files_stay_keeps_no_other_from_being_served(tmp_path: Path) -> None:
    (tmp_path / "left" / "a folder").mkdir(parents=True)
    dhcp = HalfBroken(tmp_path, {})
    with capture_logs() as logs:
        asyncio.run(dhcp.apply(_nics(SUBNET)))
    assert (dhcp.served, len(logs)) == (["br0"], 1)


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_dnsmasq_that_is_found_reads_its_guests_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_cut: bool
) -> None:
    """The agent before may have died once it had written them. One whose cable is gone is ended for another."""
    dhcp, nics = Dhcp(tmp_path / "segments"), _nics(SUBNET)
    files = SegmentFiles(tmp_path / "segments" / nics[0].segment.key)
    files.folder.mkdir(parents=True)
    files.hosts.write_text(render_hosts(nics))
    files.configuration.write_text(render_configuration(nics, files))
    cable = tmp_path / "links" / nics[0].segment.interface
    if not is_cut:
        cable.mkdir(parents=True)
    signals: list[tuple[int, int]] = []
    end, start = AsyncMock(), AsyncMock(side_effect=lambda _nics, _files: cable.mkdir(parents=True))
    monkeypatch.setattr("roost.agent.drivers.qemu.dhcp.LINKS", tmp_path / "links")
    monkeypatch.setattr("roost.agent.drivers.qemu.dhcp.end_process", end)
    monkeypatch.setattr(Dhcp, "_start", start)
    monkeypatch.setattr(Dhcp, "_find", staticmethod(lambda _files: 4242))
    monkeypatch.setattr("os.kill", lambda pid, number: signals.append((pid, number)))
    for _ in range(2):
        asyncio.run(dhcp.apply(nics, needed={nics[0].segment}))
    assert signals == ([] if is_cut else [(4242, signal.SIGHUP)])
    assert (end.await_count, start.await_count) == (is_cut, is_cut)


def segment_on(bridge: str) -> NicSegment:
    return NicSegment(id=f"on {bridge}", network_type="flat", physical_network=bridge)
