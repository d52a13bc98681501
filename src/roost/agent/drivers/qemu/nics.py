"""A guest's NICs on its host: what each is plugged into, what it may send, and which of them are up.

The text for nftables is the whole table, made from all guests at once: what is true replaces what was. A NIC that is
not in the set `up` sends and receives nothing; with a promised end its element there has a time-out, so that it goes
down by itself.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, collapse_addresses, ip_address, ip_network
from itertools import zip_longest
from pathlib import Path

from msgspec import Struct

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.programs import ProgramFailed, run_program
from roost.seams.agent import GuestOrder, GuestPort
from roost.seams.guests import NicNetwork, NicSubnet

LINKS = Path("/sys/class/net")
TUN = "/dev/net/tun"
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
ADDRESS_GIVEN = "3"
"""Source: Linux's NET_ADDR_SET."""
FLAT, VLAN = "flat", "vlan"
MTU_USUAL = 1500
TAGS = range(1, 4095)
VLAN_LINK = re.compile("r[bl][0-9a-f]{12}")
GUESTS_END = re.compile("r[tv][0-9a-f]{12}")
IP_FAILED = re.compile(r"(?P<why>.*)\nCommand failed -:(?P<line>\d+)")
MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")

Addresses = IPv4Network | IPv6Network


class SegmentPlan(Struct, frozen=True, kw_only=True):
    """A segment as a host has it. key: 12 characters, for names. bridge: what taps are plugged into.

    uplink, tag: of a VLAN, the physical network's bridge and its tag; its own bridge is made for it.
    """

    key: str
    bridge: str
    uplink: str | None = None
    tag: int | None = None

    @property
    def interface(self) -> str:
        """Return the bridge's end of the cable to the segment's namespace."""
        return f"rv{self.key}"

    @property
    def tagged(self) -> str:
        """Return the interface through which a VLAN's bridge reaches its physical network's."""
        return f"rl{self.key}"

    @property
    def interface_mac(self) -> str:
        """Return the MAC address of that end."""
        return high_mac(":".join(self.key[start : start + 2] for start in range(0, 12, 2)))


class NicPlan(Struct, frozen=True, kw_only=True):
    """A NIC as its host has it. allowed: (MAC, network) that it may send from; None for whatever it likes."""

    tap: str
    mac: str
    mtu: int
    hostname: str
    addresses: tuple[str, ...]
    segment: SegmentPlan
    subnets: tuple[NicSubnet, ...]
    allowed: tuple[tuple[str, Addresses], ...] | None


def plan_nics(order: GuestOrder, bridges: Mapping[str, str]) -> tuple[NicPlan, ...]:
    """Return the NICs of a guest. bridges: physical network -> bridge. Raises LaunchFailed."""
    nics = []
    for port, network_known in zip_longest(order.ports, order.networks[: len(order.ports)]):
        if not MAC.fullmatch(port.mac_address):
            raise LaunchFailed(f"a NIC on network {port.network_name} has no MAC address")
        network = network_known or NicNetwork(port_id="")
        nics.append(
            NicPlan(
                tap=f"rt{(port.port_id or hash_of(port.mac_address)).replace('-', '')[:12]}",
                mac=port.mac_address,
                mtu=network.mtu,
                hostname=order.hostname,
                addresses=port.addresses,
                segment=plan_segment(port, network, bridges),
                subnets=network.subnets,
                allowed=_allowed(port, network) if network.port_security else None,
            )
        )
    return tuple(nics)


def plan_segment(port: GuestPort, network: NicNetwork, bridges: Mapping[str, str]) -> SegmentPlan:
    """Return what a NIC is plugged into; where nobody says its segment, the host's only bridge. Raises LaunchFailed."""
    segment, name = network.segment, port.network_name
    if segment is None:
        if len(bridges) != 1:
            raise LaunchFailed(f"nobody says on which segment of network {name} the NIC is, and this host has several")
        return SegmentPlan(key=hash_of(port.network_id), bridge=next(iter(bridges.values())))
    if segment.network_type not in (FLAT, VLAN):
        raise LaunchFailed(f"network {name} is of type {segment.network_type}: expected {FLAT} or {VLAN}")
    bridge = bridges.get(segment.physical_network or "")
    if bridge is None:
        expected = ", ".join(sorted(bridges)) or "none, for lack of --bridge"
        raise LaunchFailed(
            f"this host has no physical network {segment.physical_network} of network {name}: {expected}"
        )
    key = hash_of(segment.id)
    if segment.network_type == FLAT:
        return SegmentPlan(key=key, bridge=bridge)
    if segment.segmentation_id not in TAGS:
        raise LaunchFailed(f"network {name} has the VLAN tag {segment.segmentation_id}: expected 1 to 4094")
    return SegmentPlan(key=key, bridge=f"rb{key}", uplink=bridge, tag=segment.segmentation_id)


def hash_of(text: str) -> str:
    """Return 12 hexadecimal digits that stand for a text in names of interfaces, which have 15 characters."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _allowed(port: GuestPort, network: NicNetwork) -> tuple[tuple[str, Addresses], ...]:
    pairs: set[tuple[str, Addresses]] = {(port.mac_address, ip_network(address)) for address in port.addresses}
    for pair in network.pairs_allowed:
        pairs.add((pair.mac_address or port.mac_address, ip_network(pair.ip_address, strict=False)))
    return tuple(sorted(pairs, key=str))


# What ip is told.


def vlan_commands(segment: SegmentPlan, present: Collection[str], links: Path = LINKS) -> list[str]:
    """Return what makes of a VLAN's bridge what is not present, for `ip -batch`; nothing for another segment."""
    if segment.tag is None:
        return []
    tagged = segment.tagged
    parts = {
        segment.bridge: f"link add {segment.bridge} type bridge",
        tagged: f"link add link {segment.uplink} name {tagged} type vlan id {segment.tag}",
    }
    return [
        *(command for name, command in parts.items() if name not in present),
        f"link set {tagged} mtu {end_mtu(segment, 0, links)} master {segment.bridge}",
        f"link set {tagged} up",
        f"link set {segment.bridge} up",
    ]


def list_vlans_left(present: Iterable[str], keys: Collection[str]) -> list[str]:
    """Return the interfaces of VLANs whose segments have no guest here: they would keep others from their tags.

    keys: of the segments that have guests.
    """
    return sorted(name for name in present if VLAN_LINK.fullmatch(name) and name[2:] not in keys)


def keep_address_commands(bridges: Iterable[str], links: Path = LINKS) -> list[str]:
    """Return what gives bridges the addresses that they have without guests, for `ip -batch`; nothing for the given.

    A bridge takes the lowest of its ends' addresses for its own until it is given one. That of a tap, or of a cable to
    a namespace, is also on an end of other hosts' bridges: what those send to it would never leave them.
    """
    commands = []
    for bridge in sorted(set(bridges)):
        kind = links / bridge / "addr_assign_type"
        if kind.exists() and kind.read_text().strip() != ADDRESS_GIVEN:
            ends = [end.name for end in (links / bridge / "brif").glob("*") if not GUESTS_END.fullmatch(end.name)]
            address = min((links / name / "address").read_text().strip() for name in ends or [bridge])
            commands.append(f"link set {bridge} address {address}")
    return commands


def end_mtu(segment: SegmentPlan, least: int, links: Path = LINKS) -> int:
    """Return the MTU of a segment's end on its host: not below that of its physical network's bridge.

    A bridge, unless it was given an MTU, sinks to the lowest of its ends, and all VLANs on it sink with it.
    """
    known = links / (segment.uplink or segment.bridge) / "mtu"
    return max(least, int(known.read_text()) if known.exists() else 0)


def link_commands(nics: Iterable[tuple[NicPlan, bool]], present: Collection[str], links: Path = LINKS) -> list[str]:
    """Return what has a host's links be as its guests' NICs need them, for `ip -batch`; said again, it changes nothing.

    nics: with whether each is to be up. present: the links that there are; a tap or a cable that is not is left out.
    """
    nics = list(nics)
    segments = {nic.segment.key: nic.segment for nic, _ in nics}
    return [
        *(command for segment in segments.values() for command in vlan_commands(segment, present, links)),
        *keep_address_commands((segment.bridge for segment in segments.values()), links),
        *(cable_command(segment, links) for segment in segments.values() if segment.interface in present),
        *(tap_command(nic, links, up=up) for nic, up in nics if nic.tap in present),
    ]


def cable_command(segment: SegmentPlan, links: Path = LINKS) -> str:
    """Return what plugs the cable of a segment's namespace into its bridge."""
    mtu = end_mtu(segment, MTU_USUAL, links)
    return f"link set {segment.interface} address {segment.interface_mac} mtu {mtu} master {segment.bridge} up"


def tap_command(nic: NicPlan, links: Path = LINKS, *, up: bool) -> str:
    """Return what plugs a tap into its bridge, and has it up or down."""
    words = f"mtu {end_mtu(nic.segment, nic.mtu, links)} master {nic.segment.bridge}"
    return f"link set {nic.tap} address {high_mac(nic.mac)} {words} {'up' if up else 'down'}"


def high_mac(mac: str) -> str:
    """Return a MAC address for the host's end of a cable, which is not the one of its other end."""
    return f"{'fa' if mac.startswith('fe') else 'fe'}{mac[2:]}"


async def run_ip(commands: Sequence[str]) -> None:
    """Have ip do these, each whatever becomes of the others. Raises ProgramFailed, which says what failed first."""
    if not commands:
        return
    try:
        await run_program("ip", "-force", "-batch", "-", text="\n".join(commands) + "\n")
    except ProgramFailed as error:
        if first := IP_FAILED.search(error.complaint):
            raise ProgramFailed(f"ip {commands[int(first['line']) - 1]}: {first['why']}") from error
        raise


def check_bridges(nics: Iterable[NicPlan]) -> None:
    """Raise LaunchFailed where the host has not the bridge that it must have for a NIC."""
    for bridge in (nic.segment.uplink or nic.segment.bridge for nic in nics):
        if not (LINKS / bridge).exists():
            raise LaunchFailed(f"this host has no bridge {bridge}")


def open_tap(name: str) -> int:
    """Return the open file of a new tap, which goes with the last program that has it open. Raises LaunchFailed."""
    try:
        fd = os.open(TUN, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
        except OSError:
            os.close(fd)
            raise
    except OSError as error:
        raise LaunchFailed(f"a NIC cannot be made: {error.strerror}") from error
    return fd


@contextlib.contextmanager
def open_taps(names: Iterable[str]) -> Iterator[list[int]]:
    """Give the open files of new taps, for whom to inherit them. Raises LaunchFailed."""
    fds: list[int] = []
    try:
        for name in names:
            fds.append(open_tap(name))
        yield fds
    finally:
        for fd in fds:
            os.close(fd)


# What nft is told.

BEGINNING = """\
table bridge roost
delete table bridge roost
table bridge roost {
"""
CHAINS = """\
	chain prerouting {
		type filter hook prerouting priority -300; policy accept;
		iifname "rt*" iifname != @up drop
		iifname "rt*" ether type { 8021q, 8021ad } drop
		iifname vmap @from
		iifname "rt*" drop
	}
	chain input {
		type filter hook input priority 0; policy accept;
		iifname @inside drop
	}
	chain forward {
		type filter hook forward priority 0; policy accept;
		iifname "rv*" oifname != "rt*" drop
		oifname "rv*" iifname != "rt*" drop
		iifname "rv*" icmpv6 type nd-neighbor-advert @th,64,16 != 0xfe80 drop
		iifname "rt*" oifname != "rv*" udp dport { 67, 547 } drop
	}
	chain postrouting {
		type filter hook postrouting priority 0; policy accept;
		oifname "rt*" oifname != @up drop
		oifname "rt*" vlan id != 0 drop
		oifname "rt*" ether type 8021ad drop
	}
}
"""


def render_table(nics: Sequence[NicPlan], up: Mapping[str, int | None]) -> str:
    """Return the whole table. up: tap -> whole seconds until it goes down by itself, None for never.

    Its set `inside` has the ends of VLANs' bridges: a host forwards what comes from there, and takes none of it.
    """
    elements = [f'"{tap}"' if ends_s is None else f'"{tap}" timeout {ends_s}s' for tap, ends_s in sorted(up.items())]
    jumps = [f'"{nic.tap}" : jump from-{nic.tap}' for nic in nics]
    text = BEGINNING
    text += f"\tset up {{\n\t\ttype ifname\n\t\tflags timeout\n{_elements(elements)}\t}}\n"
    ends = {end for nic in nics if nic.segment.tag is not None for end in (nic.tap, nic.segment.tagged)}
    inside = [f'"{end}"' for end in sorted(ends)]
    text += f"\tset inside {{\n\t\ttype ifname\n{_elements(inside)}\t}}\n"
    for nic in nics:
        rules = "".join(f"\t\t{rule}\n" for rule in nic_rules(nic))
        text += f"\tchain from-{nic.tap} {{\n{rules}\t}}\n"
    text += f"\tmap from {{\n\t\ttype ifname : verdict\n{_elements(jumps)}\t}}\n"
    return text + CHAINS


def _elements(elements: Sequence[str]) -> str:
    return f"\t\telements = {{ {', '.join(elements)} }}\n" if elements else ""


def nic_rules(nic: NicPlan) -> list[str]:
    """Return the rules for what a guest sends: as itself alone, as no server of addresses, and as no router."""
    if nic.allowed is None:
        return ["accept"]
    rules = [
        "ether type ip udp sport 67 drop",
        "ether type ip6 udp sport 547 drop",
        "ether type ip6 icmpv6 type { nd-router-advert, nd-redirect } drop",
    ]
    if advertised := [network for _, network in nic.allowed if isinstance(network, IPv6Network)]:
        advertised.append(IPv6Network(link_local(nic.mac)))
        targets = ", ".join(_as_number(network) for network in collapse_addresses(advertised))
        for words in ("icmpv6 type nd-neighbor-advert", "ip6 saddr :: icmpv6 type nd-neighbor-solicit"):
            rules.append(f"ether type ip6 {words} @th,64,128 != {{ {targets} }} drop")
    for mac in sorted({nic.mac, *(mac for mac, _ in nic.allowed)}):
        rules += _mac_rules(mac, [network for owner, network in nic.allowed if owner == mac])
    return [*rules, "drop"]


def _mac_rules(mac: str, networks: Sequence[Addresses]) -> list[str]:
    """Return what is accepted from one MAC address."""
    v4 = [item for item in networks if isinstance(item, IPv4Network)]
    v6 = [item for item in networks if isinstance(item, IPv6Network)]
    rules = [
        f"ether saddr {mac} ether type 0x8035 accept",
        f"ether saddr {mac} ether type ip ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept",
    ]
    if v4:
        sources = ", ".join(_as_source(network) for network in collapse_addresses(v4))
        rules.append(f"ether saddr {mac} ether type ip ip saddr {{ {sources} }} accept")
        for words in (f"{{ {sources} }}", f"0.0.0.0 arp daddr ip {{ {sources} }}"):
            rules.append(f"ether saddr {mac} ether type arp arp saddr ether {mac} arp saddr ip {words} accept")
    if v6:
        sources = ", ".join(_as_source(item) for item in collapse_addresses([*v6, IPv6Network(link_local(mac))]))
        rules.append(f"ether saddr {mac} ether type ip6 ip6 saddr {{ {sources} }} accept")
        questions = "{ nd-neighbor-solicit, nd-router-solicit, mld2-listener-report }"
        rules.append(f"ether saddr {mac} ether type ip6 ip6 saddr :: icmpv6 type {questions} accept")
    return rules


def _as_source(network: Addresses) -> str:
    return str(network.network_address) if network.num_addresses == 1 else str(network)


def _as_number(network: IPv6Network) -> str:
    """Return a network as a range of raw numbers: this nftables has no word for the target of an advertisement."""
    first, last = int(network.network_address), int(network.broadcast_address)
    return f"0x{first:032x}" if first == last else f"0x{first:032x}-0x{last:032x}"


def link_local(mac: str) -> IPv6Address:
    """Return the link-local address that follows from a MAC address."""
    octets = bytes(int(part, 16) for part in mac.split(":"))
    low = bytes([octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]])
    address = ip_address(b"\xfe\x80" + bytes(6) + low)
    assert isinstance(address, IPv6Address)
    return address
