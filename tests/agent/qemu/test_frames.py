"""The rules of nftables against real frames: a tap stands for a guest that sends whatever it likes."""

import itertools
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address

import pytest
from tests.agent.qemu.orders import MAC, SUBNET, SUBNET_V6, make_network, make_order, make_port
from tests.agent.qemu.site import PATH, Host, Site, run_in

from roost.agent.drivers.qemu.nics import link_local, open_tap, plan_nics, render_table
from roost.seams.guests import AddressPair, NicNetwork

pytestmark = pytest.mark.real

ADDRESS, ADDRESS_V6, OTHER, OTHER_V6 = "10.1.0.2", "2001:db8::2", "10.1.0.66", "2001:db8::66"
OTHER_MAC, PAIR_MAC = "52:54:00:00:00:66", "52:54:00:00:00:77"
PAIRS = (AddressPair(ip_address="10.2.0.0/24"), AddressPair(ip_address="10.3.0.1", mac_address=PAIR_MAC))
EVERYONE = "ff:ff:ff:ff:ff:ff"
VNET_HEADER = bytes(10)
PORTS = itertools.count(10_000)
"""Of frames that follow others, each its own."""
ROUTER_ADVERT, NEIGHBOUR_SOLICIT, NEIGHBOUR_ADVERT, ECHO_V6 = 134, 135, 136, 128


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _ethernet(source: str, kind: int, body: bytes) -> bytes:
    return _mac(EVERYONE) + _mac(source) + struct.pack("!H", kind) + body


def udp(
    source: str = ADDRESS,
    *,
    mac: str = MAC,
    to: str = "10.1.0.1",
    sport: int = 5000,
    dport: int = 5001,
    said: bytes = b"",
) -> bytes:
    body = struct.pack("!4H", sport, dport, 8 + len(said), 0) + said
    addresses = ip_address(source).packed + ip_address(to).packed
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, 17, 0) + addresses
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~(total + (total >> 16)) & 0xFFFF  # a bridge drops what has a wrong one
    return _ethernet(mac, 0x0800, head[:10] + struct.pack("!H", checksum) + head[12:] + body)


def arp(source: str = ADDRESS, *, mac: str = MAC, sender: str = MAC, target: str = "10.1.0.1") -> bytes:
    head = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2)
    addresses = _mac(sender) + ip_address(source).packed + _mac(EVERYONE) + ip_address(target).packed
    return _ethernet(mac, 0x0806, head + addresses)


def icmp6(kind: int, source: str = ADDRESS_V6, *, mac: str = MAC, target: str = ADDRESS_V6) -> bytes:
    body = struct.pack("!BBHI", kind, 0, 0, 0) + ip_address(target).packed
    addresses = ip_address(source).packed + ip_address("ff02::1").packed
    return _ethernet(mac, 0x86DD, struct.pack("!IHBB", 0x60000000, len(body), 58, 255) + addresses + body)


@dataclass(frozen=True)
class Wire:
    """A tap as a guest has it, and the router's end of the cable."""

    host: Host
    tap: int
    listener: socket.socket

    def passes(self, frame: bytes) -> bool:
        """Return whether a frame that the guest sends reaches the router before one that may."""
        last = udp(dport=next(PORTS))
        for item in (frame, last):
            os.write(self.tap, VNET_HEADER + item.ljust(60, b"\0"))
        while True:
            heard = self.listener.recv(2000)
            if heard.startswith(frame):
                return True
            if heard.startswith(last):
                return False

    def load(self, network: NicNetwork, *, up: bool = True) -> None:
        """Have the rules be those of a NIC on that network."""
        port = make_port(addresses=(ADDRESS, ADDRESS_V6))
        nics = plan_nics(make_order(ports=(port,), networks=(network,)), {"rack1": "br0"})
        table = render_table(nics, {nics[0].tap: 60} if up else {})
        nft = ["ip", "netns", "exec", self.host.namespace, "nft", "-f", "-"]
        subprocess.run(nft, input=table, text=True, check=True, env={"PATH": PATH})


NETWORK = make_network(subnets=(SUBNET, SUBNET_V6), pairs_allowed=PAIRS)


@pytest.fixture
def wire(site: Site) -> Iterator[Wire]:
    host = site.add_host("a")
    tap = run_in(host.namespace, lambda: open_tap("rt0a1b2c3d4e5f"))
    host.call("ip", "link", "set", "rt0a1b2c3d4e5f", "master", "br0", "up")
    every = socket.htons(3)
    listener = run_in(site.router, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, every))
    listener.bind(("to-a", 0))
    listener.settimeout(5)
    try:
        wire = Wire(host, tap, listener)
        wire.load(NETWORK)
        yield wire
    finally:
        listener.close()
        os.close(tap)


ACCEPTED = {
    "its own address": udp(),
    "its own ARP": arp(),
    "an ARP probe": arp("0.0.0.0", target=ADDRESS),
    "an address that is allowed beside its own": udp("10.2.0.9"),
    "another MAC that is allowed": udp("10.3.0.1", mac=PAIR_MAC),
    "RARP, by which it moves": _ethernet(MAC, 0x8035, bytes(28)),
    "its own IPv6 address": icmp6(ECHO_V6),
    "its link-local address": icmp6(ECHO_V6, str(link_local(MAC))),
    "the question whether its address is free": icmp6(NEIGHBOUR_SOLICIT, "::"),
    "its own neighbour advertisement": icmp6(NEIGHBOUR_ADVERT),
}
DROPPED = {
    "another address": udp(OTHER),
    "another MAC": udp(mac=OTHER_MAC),
    "an allowed address with the wrong MAC": udp("10.3.0.1"),
    "its own address with an allowed MAC": udp(mac=PAIR_MAC),
    "ARP for another address": arp(OTHER),
    "ARP with another sender": arp(sender=OTHER_MAC),
    "ARP from another MAC": arp(mac=OTHER_MAC),
    "an ARP probe, which keeps another from its address": arp("0.0.0.0", target=OTHER),
    "answers of a DHCP server": udp(sport=67, dport=68),
    "DHCP towards other hosts": udp(sport=68, dport=67),
    "another IPv6 address": icmp6(ECHO_V6, OTHER_V6),
    "another's link-local address": icmp6(ECHO_V6, str(link_local(OTHER_MAC))),
    "a router's advertisement": icmp6(ROUTER_ADVERT, str(link_local(MAC))),
    "a neighbour advertisement for another": icmp6(NEIGHBOUR_ADVERT, target=OTHER_V6),
    "a VLAN tag": _ethernet(MAC, 0x8100, struct.pack("!HH", 7, 0x0800) + udp()[14:]),
    "the question that keeps another from its address": icmp6(NEIGHBOUR_SOLICIT, "::", target=OTHER_V6),
    "what is no IP": _ethernet(MAC, 0x88CC, bytes(46)),
}


def test_a_guest_reaches_the_router_as_itself_alone(wire: Wire) -> None:
    accepted = {name for name, frame in {**ACCEPTED, **DROPPED}.items() if wire.passes(frame)}
    assert accepted == ACCEPTED.keys()


def test_without_port_security_a_guest_sends_what_it_likes(wire: Wire) -> None:
    wire.load(make_network(port_security=False))
    untagged = {name: frame for name, frame in DROPPED.items() if name != "a VLAN tag"}  # it is heard without
    dropped = {name for name, frame in untagged.items() if not wire.passes(frame)}
    assert dropped == {"DHCP towards other hosts"}


def test_a_nic_that_is_not_up_sends_and_hears_nothing(wire: Wire) -> None:
    def reaches(send: Callable[[bytes], object], hear: Callable[[], bytes]) -> bool:
        send(VNET_HEADER + udp().ljust(60, b"\0"))
        try:
            while not hear().startswith(udp()):
                pass
        except (TimeoutError, BlockingIOError):
            return False
        return True

    wire.listener.settimeout(0.3)
    assert reaches(lambda frame: os.write(wire.tap, frame), lambda: wire.listener.recv(2000))
    wire.load(NETWORK, up=False)
    assert not reaches(lambda frame: os.write(wire.tap, frame), lambda: wire.listener.recv(2000))
