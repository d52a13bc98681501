"""What a guest hears of IPv6: a tap stands for it, and speaks to the host's dnsmasq as a DHCPv6 client does.

The test image's busybox has no such client; what a guest's own kernel makes of advertisements is in test_real.py.
"""

import os
import select
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import msgspec
import pytest
from tests.agent.qemu.orders import MAC, make_network, make_order, make_port
from tests.agent.qemu.site import Host, Site, run_in

from roost.agent.drivers.qemu.nics import link_local, open_tap
from roost.seams.guests import NicSubnet

pytestmark = pytest.mark.real

BOUND, BY_SLAAC, DNS = "2001:db8:1::77", "2001:db8:2::5054:ff:fe00:2", "2001:db8::53"
VNET_HEADER = bytes(10)
OWN, HW = link_local(MAC), bytes.fromhex(MAC.replace(":", ""))
SOLICIT, REPLY, INFORMATION_REQUEST = 1, 7, 11
CLIENT_ID, IA_NA, IA_ADDRESS, OPTIONS_WANTED, RAPID_COMMIT, NAME_SERVERS = 1, 3, 5, 6, 14, 23
UDP, ICMP = 17, 58
ROUTER_SOLICIT, ROUTER_ADVERT, NEIGHBOUR_SOLICIT, NEIGHBOUR_ADVERT = 133, 134, 135, 136
PREFIX, MANAGED, OTHER, AUTONOMOUS = 3, 0x80, 0x40, 0x40
HEARD_S, SILENT_S, ASKED_AGAIN_S = 20.0, 0.5, 0.5
APPLY = """
import asyncio, msgspec, pathlib, sys
from roost.agent.drivers.qemu.host_network import HostNetwork
from roost.agent.drivers.qemu.nics import plan_nics
from roost.seams.agent import GuestOrder
nics = plan_nics(msgspec.json.decode(sys.argv[1], type=GuestOrder), {"rack1": "br0"})
network = HostNetwork(pathlib.Path(sys.argv[2]), lambda: [(nic, True) for nic in nics], kernel_is_new=False)
asyncio.run(network.apply())
"""
"""Has the network of a host be that of one guest: a program of the host's namespace."""


def frame(kind: int, body: bytes, *, to: str) -> bytes:
    """A frame to a multicast or link-local address. body: with a checksum of 0."""
    target = ip_address(to).packed
    total = OWN.packed + target + struct.pack("!II", len(body), kind) + body + b"\0" * (len(body) % 2)
    number = sum(struct.unpack(f"!{len(total) // 2}H", total))
    while number >> 16:
        number = (number & 0xFFFF) + (number >> 16)
    at = 6 if kind == UDP else 2
    body = body[:at] + struct.pack("!H", ~number & 0xFFFF) + body[at + 2 :]
    head = struct.pack("!IHBB", 0x60000000, len(body), kind, 255) + OWN.packed + target
    return b"\x33\x33" + target[-4:] + HW + b"\x86\xdd" + head + body


def option(code: int, content: bytes = b"") -> bytes:
    return struct.pack("!HH", code, len(content)) + content


def options_of(content: bytes) -> dict[int, bytes]:
    found = {}
    while content:
        code, size = struct.unpack("!HH", content[:4])
        found[code], content = content[4 : 4 + size], content[4 + size :]
    return found


@dataclass(frozen=True)
class Client:
    tap: int

    def hear(self, wanted: Callable[[int, bytes], bool], *, within_s: float) -> bytes | None:
        """Return the body of the first packet that is wanted; meanwhile it tells its neighbours where it is."""
        deadline_s = time.monotonic() + within_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            if not select.select([self.tap], [], [], left_s)[0]:
                break
            packet = os.read(self.tap, 2000)[len(VNET_HEADER) + 14 :]
            if not packet or packet[0] >> 4 != 6:
                continue
            kind, body = packet[6], packet[40:]
            if kind == ICMP and body[0] == NEIGHBOUR_SOLICIT and body[8:24] == OWN.packed:
                advert = struct.pack("!BBHI", NEIGHBOUR_ADVERT, 0, 0, 0x20000000) + OWN.packed + b"\x02\x01" + HW
                os.write(self.tap, VNET_HEADER + frame(ICMP, advert, to="ff02::1"))
            elif wanted(kind, body):
                return body
        return None

    def ask(self, kind: int, body: bytes, wanted: Callable[[int, bytes], bool], *, to: str, within_s: float) -> Any:
        """Return the answer's body; it asks again as clients do: the server's own address is tried out first."""
        deadline_s = time.monotonic() + within_s
        answer = None
        while answer is None and time.monotonic() < deadline_s:
            os.write(self.tap, VNET_HEADER + frame(kind, body, to=to))
            answer = self.hear(wanted, within_s=ASKED_AGAIN_S)
        return answer

    def ask_server(self, message: int, *options: bytes, within_s: float) -> dict[int, bytes]:
        """Return the options of the server's answer."""
        wanted = option(OPTIONS_WANTED, struct.pack("!H", NAME_SERVERS))
        content = bytes([message, 0, 0, 7]) + option(CLIENT_ID, struct.pack("!HH", 3, 1) + HW) + wanted
        content += b"".join(options)
        body = struct.pack("!4H", 546, 547, 8 + len(content), 0) + content
        answer = self.ask(UDP, body, lambda kind, body: (kind, body[2:4]) == (UDP, b"\x02\x22"), to="ff02::1:2",
                          within_s=within_s)  # fmt: skip
        return {} if answer is None else options_of(answer[12:])

    def ask_address(self, within_s: float) -> str | None:
        association = option(IA_NA, struct.pack("!III", 9, 0, 0))
        answer = self.ask_server(SOLICIT, option(RAPID_COMMIT), association, within_s=within_s)
        content = options_of(answer.get(IA_NA, bytes(12))[12:]).get(IA_ADDRESS)
        return None if content is None else str(ip_address(content[:16]))

    def ask_name_server(self, within_s: float) -> str | None:
        content = self.ask_server(INFORMATION_REQUEST, within_s=within_s).get(NAME_SERVERS)
        return None if content is None else str(ip_address(content))

    def ask_router(self, within_s: float) -> tuple[int, int, int] | None:
        """Return the flags of the router's advertisement, how long it is a router, and the prefix's flags."""
        question = struct.pack("!BBHI", ROUTER_SOLICIT, 0, 0, 0)
        body = self.ask(ICMP, question, lambda kind, body: (kind, body[0]) == (ICMP, ROUTER_ADVERT), to="ff02::2",
                        within_s=within_s)  # fmt: skip
        if body is None:
            return None
        prefixes = [body[at + 3] for at in range(16, len(body), 8) if body[at] == PREFIX and body[at + 1] == 4]
        return body[5] & (MANAGED | OTHER), struct.unpack("!H", body[6:8])[0], prefixes[0] & AUTONOMOUS


@pytest.fixture
def host(site: Site) -> Host:
    return site.add_host("a")


@pytest.fixture
def client(host: Host) -> Iterator[Client]:
    tap = run_in(host.namespace, lambda: open_tap("rt0a1b2c3d4e5f"))
    host.call("ip", "link", "set", "rt0a1b2c3d4e5f", "master", "br0", "up")
    yield Client(tap)
    os.close(tap)


@pytest.mark.parametrize(
    ("cidr", "ra_mode", "address_mode", "routers", "address", "name_server"),
    [
        ("2001:db8:1::/64", "dhcpv6-stateful", "dhcpv6-stateful", (MANAGED | OTHER, 0, 0), BOUND, DNS),
        ("2001:db8::/47", "dhcpv6-stateful", "dhcpv6-stateful", (MANAGED | OTHER, 0, 0), BOUND, DNS),
        ("2001:db8:1::/80", "dhcpv6-stateful", "dhcpv6-stateful", (MANAGED | OTHER, 0, 0), BOUND, DNS),
        ("2001:db8:1::/64", "dhcpv6-stateless", "dhcpv6-stateless", (OTHER, 0, AUTONOMOUS), None, DNS),
        ("2001:db8:1::/64", "slaac", "slaac", (0, 0, AUTONOMOUS), None, None),
        ("2001:db8:1::/64", None, "dhcpv6-stateful", None, BOUND, DNS),
        ("2001:db8:1::/64", None, None, None, None, None),
    ],
)
def test_a_guest_gets_what_the_modes_of_its_subnet_say(
    host: Host,
    client: Client,
    cidr: str,
    ra_mode: str | None,
    address_mode: str | None,
    routers: tuple[int, int, int] | None,
    address: str | None,
    name_server: str | None,
) -> None:
    subnet = NicSubnet(cidr=cidr, dns=(DNS,), ra_mode=ra_mode, address_mode=address_mode)
    port = make_port(addresses=(BY_SLAAC, BOUND))
    order = make_order(ports=(port,), networks=(make_network(subnets=(subnet,)),))
    host.call(sys.executable, "-c", APPLY, msgspec.json.encode(order).decode(), str(host.state))
    told = {client.ask_router: routers, client.ask_address: address, client.ask_name_server: name_server}
    for ask, answer in sorted(told.items(), key=lambda item: item[1] is None):  # who is silent answers others by then
        assert ask(HEARD_S if answer else SILENT_S) == answer, ask.__name__
