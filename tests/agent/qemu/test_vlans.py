"""VLAN segments with real frames: taps stand for guests of two hosts, whose bridges are on one trunk.

On it are two VLANs and an untagged segment, with the same addresses in each.
"""

import itertools
import os
import select
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import msgspec
import pytest
from tests.agent.qemu.orders import FLAT, make_network, make_order, make_port
from tests.agent.qemu.site import Host, Site, find_lack_of_vlans, run_in, skip_for
from tests.agent.qemu.test_frames import PORTS, VNET_HEADER, udp

from roost.agent.drivers.qemu.nics import hash_of, open_tap
from roost.seams.guests import NicSegment

pytestmark = pytest.mark.real

TAG_8021Q, TAG_8021AD, ARP = 0x8100, 0x88A8, 0x0806
SOL_PACKET, PACKET_AUXDATA, TAG_IS_VALID = 263, 8, 1 << 4
TAGS: dict[str, int | None] = {"red": 101, "blue": 102, "flat": None}
SEGMENTS = {
    name: FLAT
    if tag is None
    else NicSegment(id=name, network_type="vlan", physical_network="rack1", segmentation_id=tag)
    for name, tag in TAGS.items()
}
ADDRESSES = {"a": "10.1.0.2", "b": "10.1.0.3"}
"""Of every guest on a host."""
QUIET_S = 0.3
APPLY = """
import asyncio, msgspec, pathlib, sys
from roost.agent.drivers.qemu.host_network import HostNetwork
from roost.agent.drivers.qemu.nics import plan_nics
from roost.seams.agent import GuestOrder
orders = msgspec.json.decode(sys.argv[1], type=list[GuestOrder])
nics = [nic for order in orders for nic in plan_nics(order, {"rack1": "br0"})]
network = HostNetwork(pathlib.Path(sys.argv[2]), lambda: [(nic, True) for nic in nics], kernel_is_new=False)
asyncio.run(network.apply(nics))
"""
"""Has the network of a host be that of its guests, whose taps are there: a program of the host's namespace."""


@dataclass(frozen=True)
class Guest:
    """A guest as its host knows it. number: of all guests."""

    segment: str
    host: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.segment}-{self.host}"

    @property
    def mac(self) -> str:
        return f"52:54:00:00:00:{0x10 + self.number:02x}"

    @property
    def port_id(self) -> str:
        return f"{self.number:08x}-0000-4000-8000-000000000000"

    @property
    def tap(self) -> str:
        return f"rt{self.port_id.replace('-', '')[:12]}"

    def order(self, **network: Any) -> Any:
        port = make_port(self.port_id, self.mac, (ADDRESSES[self.host],))
        around = make_network(port_id=self.port_id, segment=SEGMENTS[self.segment], **network)
        return make_order(ports=(port,), networks=(around,), server_id=self.port_id)

    def says(self, *, to: str | None = None, source: str | None = None, said: bytes = b"") -> bytes:
        """Return a frame that no other is like. to: a MAC; None: everybody's."""
        frame = udp(source or ADDRESSES[self.host], mac=self.mac, dport=next(PORTS), said=said)
        return frame if to is None else bytes.fromhex(to.replace(":", "")) + frame[6:]


GUESTS = {
    guest.name: guest
    for guest in (
        Guest(segment, host, number) for number, (segment, host) in enumerate(itertools.product(TAGS, ADDRESSES))
    )
}


def tagged(frame: bytes, tag: int, kind: int = TAG_8021Q) -> bytes:
    return frame[:12] + struct.pack("!HH", kind, tag) + frame[12:]


class Trunk:
    """The cable of host a to the switch, and the taps of both hosts."""

    def __init__(self, site: Site, hosts: dict[str, Host]) -> None:
        self.hosts = hosts
        self.taps = {name: self._tap(guest) for name, guest in GUESTS.items()}
        self.wire = run_in(site.router, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
        self.wire.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.wire.bind(("to-a", 0))

    def _tap(self, guest: Guest) -> int:
        return run_in(self.hosts[guest.host].namespace, lambda: open_tap(guest.tap))

    def apply(self, flat: Mapping[str, Any] | None = None, **network: Any) -> None:
        """Have both hosts' networks be those of the guests.

        network: what is around every NIC. flat: what is other around those of the untagged segment.
        """
        around = {segment: {**network, **(flat or {} if segment == "flat" else {})} for segment in TAGS}
        for name, host in self.hosts.items():
            orders = [guest.order(**around[guest.segment]) for guest in GUESTS.values() if guest.host == name]
            host.call(sys.executable, "-c", APPLY, msgspec.json.encode(orders).decode(), str(host.state))
        for _ in self.listen():
            pass  # what the hosts said of their own meanwhile, which leaves the wire no room to be heard

    def send(self, name: str, frame: bytes) -> None:
        os.write(self.taps[name], VNET_HEADER + frame.ljust(60, b"\0"))

    def listen(self) -> Iterator[tuple[str, bytes]]:
        """Give whatever is heard, until it is quiet: by which guest, or on the wire with which tag."""
        names = {fd: name for name, fd in self.taps.items()}
        while ready := select.select([*names, self.wire], [], [], QUIET_S)[0]:
            for item in ready:
                if item is not self.wire:
                    yield names[item], os.read(item, 10_000)[len(VNET_HEADER) :]
                    continue
                frame, beside, _, _ = self.wire.recvmsg(10_000, 100)
                status, _, _, _, _, tci, _ = struct.unpack("IIIHHHH", beside[0][2])
                yield f"wire {tci & 0xFFF if status & TAG_IS_VALID else None}", frame

    def hearers(self, frame: bytes) -> set[str]:
        """Return who hears what is in a frame, with a tag or without."""
        body = frame[14:]
        return {name for name, heard in self.listen() if body in heard}

    def close(self) -> None:
        self.wire.close()
        for fd in self.taps.values():
            os.close(fd)


@pytest.fixture
def trunk(site: Site) -> Iterator[Trunk]:
    if lack := find_lack_of_vlans():
        skip_for(lack)
    trunk = Trunk(site, {name: site.add_host(name) for name in ADDRESSES})
    try:
        yield trunk
    finally:
        trunk.close()


def expected(guest: Guest) -> set[str]:
    """Return who hears what a guest says to everybody, or to the guest of its segment on the other host."""
    return {other.name for other in GUESTS.values() if other.segment == guest.segment and other != guest} | {
        f"wire {TAGS[guest.segment]}"
    }


def test_a_guest_is_heard_on_its_own_segment_alone(trunk: Trunk) -> None:
    trunk.apply()
    for guest in GUESTS.values():
        other = next(item for item in GUESTS.values() if item.segment == guest.segment and item != guest)
        for to in (None, other.mac):
            trunk.send(guest.name, frame := guest.says(to=to))
            assert trunk.hearers(frame) == expected(guest), (guest, to)


def test_what_comes_with_a_tag_is_heard_by_its_vlans_guests_alone(trunk: Trunk) -> None:
    trunk.apply()
    frame = GUESTS["red-b"].says()
    for item, hearers in {
        frame: {"flat-a"},
        tagged(frame, 101): {"red-a"},
        tagged(frame, 102): {"blue-a"},
        tagged(frame, 103): set(),
        tagged(frame, 101, TAG_8021AD): set(),
        tagged(tagged(frame, 102), 101): set(),
    }.items():
        trunk.wire.send(item.ljust(60, b"\0"))
        assert trunk.hearers(frame) == hearers, item


@pytest.mark.parametrize("port_security", [True, False])
def test_no_guest_chooses_a_vlan(trunk: Trunk, port_security: bool) -> None:
    trunk.apply(port_security=port_security)
    for name in ("red-a", "flat-a"):
        frame = GUESTS[name].says()
        for item in (
            *(tagged(frame, tag) for tag in (0, 101, 102)),
            tagged(frame, 102, TAG_8021AD),
            tagged(tagged(frame, 102), 0),
        ):
            trunk.send(name, item)
            assert trunk.hearers(frame) == set(), (name, item)


def test_a_guest_on_a_vlan_speaks_as_itself_alone(trunk: Trunk) -> None:
    trunk.apply()
    red = GUESTS["red-a"]
    for frame in (
        red.says(source="10.1.0.66"),
        GUESTS["blue-a"].says(),
        udp(ADDRESSES["a"], mac=red.mac, sport=67, dport=68, said=b"a server of DHCP"),
        udp("0.0.0.0", mac=red.mac, sport=68, dport=67, said=b"asks other hosts"),
    ):
        trunk.send(red.name, frame)
        assert trunk.hearers(frame) == set(), frame


def discover(guest: Guest) -> bytes:
    """Return a guest's first question of DHCP; its number is its own."""
    mac = bytes.fromhex(guest.mac.replace(":", ""))
    head = struct.pack("!4BIHH16x16s192x", 1, 1, 6, 0, guest.number, 0, 0x8000, mac)
    options = b"\x63\x82\x53\x63" + bytes([53, 1, 1, 55, 1, 26, 255])
    return udp("0.0.0.0", mac=guest.mac, to="255.255.255.255", sport=68, dport=67, said=head + options)


def find_offer(frame: bytes) -> tuple[int, str, int] | None:
    """Return what a server of DHCP offers in a frame: the question's number, the address, the MTU."""
    if frame[12:14] != b"\x08\x00" or frame[34:38] != struct.pack("!HH", 67, 68):
        return None
    said = frame[42:]
    at = said.index(b"\x1a\x02")  # the option of the MTU
    return *struct.unpack("!4xI", said[:8]), str(ip_address(said[16:20])), *struct.unpack("!H", said[at + 2 : at + 4])


def test_each_vlan_has_its_own_dhcp_on_each_host(trunk: Trunk) -> None:
    trunk.apply(mtu=1400)
    for guest in GUESTS.values():
        trunk.send(guest.name, discover(guest))
        offers = {name: offer for name, frame in trunk.listen() if (offer := find_offer(frame))}
        offers |= {name: offer for name, frame in trunk.listen() if (offer := find_offer(frame))}
        assert offers == {guest.name: (guest.number, ADDRESSES[guest.host], 1400)}


def test_a_host_has_no_part_in_its_vlans(trunk: Trunk) -> None:
    red, far, host = GUESTS["red-a"], GUESTS["red-b"], trunk.hosts["a"]
    trunk.apply(port_security=False)
    ends = bytes.fromhex(red.mac.replace(":", "")) + ip_address(ADDRESSES["a"]).packed
    head = b"\xff" * 6 + ends[:6] + struct.pack("!HHHBBH", ARP, 1, 0x0800, 6, 4, 1)
    for name in (red.name, far.name):
        trunk.send(name, head + ends + bytes(6) + ip_address(host.address).packed)
        answers = [frame for _, frame in trunk.listen() if frame[12:14] == head[12:14] and frame[21] == 2]
        assert answers == [], "who has the host's address"


def test_what_others_take_from_a_vlan_is_made_again(trunk: Trunk) -> None:
    host, key = trunk.hosts["a"], hash_of("red")
    trunk.apply(mtu=1400)
    for words in (
        *(f"delete r{kind}{key}" for kind in "lbv"),
        *(f"set r{kind}{key} nomaster" for kind in "lv"),
        *(f"set r{kind}{key} down" for kind in "lb"),
        "delete br0",
    ):
        host.call("ip", "link", *words.split())
        if words == "delete br0":
            host.make_bridge()
        trunk.apply(mtu=1400)
        for guest in GUESTS.values():
            trunk.send(guest.name, frame := guest.says())
            assert trunk.hearers(frame) == expected(guest), (words, guest)
        trunk.send("red-a", discover(GUESTS["red-a"]))
        offers = [find_offer(frame) for _ in range(2) for _, frame in trunk.listen()]
        assert (GUESTS["red-a"].number, ADDRESSES["a"], 1400) in offers, words


@pytest.mark.parametrize("mtu", [1500, 9000])
def test_a_vlan_carries_what_its_network_is_said_to(site: Site, trunk: Trunk, mtu: int) -> None:
    """Beside an untagged segment that carries less."""
    for name, host in trunk.hosts.items():
        host.call("ip", "link", "set", "rack1", "mtu", str(mtu))
        site.in_router("ip", "link", "set", f"to-{name}", "mtu", str(mtu))
    trunk.apply(flat={"mtu": 1400}, mtu=mtu)
    for name in ("red-a", "blue-b"):
        trunk.send(name, frame := GUESTS[name].says(said=bytes(mtu - 28)))
        assert trunk.hearers(frame) == expected(GUESTS[name]), name
