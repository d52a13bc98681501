"""What guests' NICs show from outside, beside the records: who answers at which address, and which NICs are up where.

Every address of a subnet is asked for by ARP, in the router's namespace: whoever has it answers, where a ping would
hear one of two. A NIC is up where its tap is and where the host's rules let it speak.
"""

import asyncio
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Interface, IPv4Network, ip_address
from typing import Any

import msgspec
from msgspec import Struct

from roost.agent.drivers.programs import ProgramFailed, run_program
from roost.cli.asking.cloud_client import CloudClient
from roost.cli.asking.real_network import run_in

ETH_P_ARP = 0x0806
ARP_REQUEST, ARP_REPLY = 1, 2
ARP = struct.Struct("!6s6sHHHBBH6s4s6s4s")
ROUNDS_MIN, ROUNDS_MAX = 2, 12
ROUND_S = 0.5
"""How long each round of questions waits. Whoever answered is not asked again; who should is given all rounds."""
ADDRESSES_MAX = 1024
"""Addresses of a subnet that are asked for, its first ones."""


class NicKnown(Struct, frozen=True, kw_only=True):
    """A server's NIC by the records. host: where its guest runs; None if it is to be silent."""

    server: str
    tap: str
    mac: str
    addresses: tuple[str, ...]
    host: str | None


class WorldSeen(Struct, frozen=True, kw_only=True):
    """What is seen. asked: how many addresses. macs_by_address: who answered. hosts_by_tap: where a NIC is up."""

    asked: int
    macs_by_address: Mapping[str, frozenset[str]]
    hosts_by_tap: Mapping[str, tuple[str, ...]]


def list_world_problems(nics: Sequence[NicKnown], seen: WorldSeen) -> list[str]:
    """Return a sentence for each thing that is not as the records say. IPv6 addresses are not looked at."""
    nic_by_address = {address: nic for nic in nics for address in nic.addresses}
    problems = []
    for address, macs in sorted(seen.macs_by_address.items(), key=lambda item: ip_address(item[0])):
        problems += _address_problems(address, macs, nic_by_address.get(address))
    for nic in nics:
        problems += [
            f"running server {nic.server} does not answer at its address {address}"
            for address in nic.addresses
            if nic.host is not None and ip_address(address).version == 4 and not seen.macs_by_address.get(address)
        ]
        hosts = seen.hosts_by_tap.get(nic.tap, ())
        expected = () if nic.host is None else (nic.host,)
        if hosts != expected:
            where = [" and ".join(names) or "nowhere" for names in (hosts, expected)]
            problems.append(f"a NIC of server {nic.server} is up on {where[0]}: expected {where[1]}")
    unknown = sorted(seen.hosts_by_tap.keys() - {nic.tap for nic in nics})
    return problems + [
        f"NIC {tap} is up on {' and '.join(seen.hosts_by_tap[tap])}: no server has it" for tap in unknown
    ]


def _address_problems(address: str, macs: frozenset[str], nic: NicKnown | None) -> list[str]:
    """Return what is wrong with those that answer at one address."""
    if not macs:
        return []
    names = " and ".join(sorted(macs))
    twice = [f"address {address} answers twice, as {names}"] if len(macs) > 1 else []
    if nic is None:
        return [*twice, f"address {address} is free, and {names} answers at it"]
    if nic.host is None:
        return [*twice, f"address {address} of server {nic.server}, which does not run, answers"]
    if not twice and macs != {nic.mac}:
        return [f"address {address} of server {nic.server} answers as {names}: expected {nic.mac}"]
    return twice


async def read_nics(client: CloudClient) -> list[NicKnown]:
    """Return the NICs of all servers, by the Network and the Compute API."""
    servers = {server["id"]: server for server in await client.list_servers()}
    nics = []
    for port in await client.list_all("/network/v2.0/ports", "ports"):
        server = servers.get(port["device_id"])
        runs = server is not None and server["status"] == "ACTIVE"
        nics.append(
            NicKnown(
                server=server["name"] if server is not None else port["device_id"] or port["id"],
                tap=f"rt{port['id'].replace('-', '')[:12]}",
                mac=port["mac_address"],
                addresses=tuple(fixed_ip["ip_address"] for fixed_ip in port["fixed_ips"]),
                host=server["OS-EXT-SRV-ATTR:host"] if server is not None and runs else None,
            )
        )
    return nics


async def read_cidrs(client: CloudClient) -> list[str]:
    """Return the IPv4 subnets of all networks."""
    subnets = await client.list_all("/network/v2.0/subnets", "subnets")
    return [subnet["cidr"] for subnet in subnets if subnet["ip_version"] == 4]


async def look_at_world(
    router: str, cidrs: Sequence[str], hosts: Mapping[str, str], nics: Sequence[NicKnown]
) -> WorldSeen:
    """Return what is seen from the router and on the hosts. hosts: name -> namespace. Raises ProgramFailed, OSError.

    cidrs: IPv4 subnets, of which the router's namespace has a gateway's address. nics: those that run are waited for.
    """
    awaited = frozenset(address for nic in nics if nic.host is not None for address in nic.addresses)
    hosts_by_tap: defaultdict[str, list[str]] = defaultdict(list)
    for name, namespace in sorted(hosts.items()):
        for tap in await _list_nics_up(namespace):
            hosts_by_tap[tap].append(name)
    asked = [(item, where) for item in map(IPv4Network, cidrs) for where in await _find_interfaces(router, item)]
    sweeps = [_Sweep(network, *interface, awaited) for network, interface in asked]
    works = [asyncio.to_thread(run_in, router, sweep.run) for sweep in sweeps]
    answers: dict[str, frozenset[str]] = {}
    for answered in await asyncio.gather(*works):
        answers |= answered
    return WorldSeen(
        asked=len(answers),
        macs_by_address=answers,
        hosts_by_tap={tap: tuple(names) for tap, names in hosts_by_tap.items()},
    )


async def _list_nics_up(namespace: str) -> set[str]:
    """Return the taps of a host that are up and may speak."""
    links = msgspec.json.decode(await run_program("ip", "-n", namespace, "-json", "link", "show"))
    up = {link["ifname"] for link in links if "UP" in link["flags"]}
    nft = ("ip", "netns", "exec", namespace, "nft", "-j", "list", "set", "bridge", "roost", "up")
    try:
        printed: dict[str, Any] = msgspec.json.decode(await run_program(*nft))
    except ProgramFailed:  # no rules: no guest
        return set()
    sets = [item["set"] for item in printed["nftables"] if "set" in item]
    elements = [element for item in sets for element in item.get("elem", ())]
    return up & {item if isinstance(item, str) else item["elem"]["val"] for item in elements}


async def _find_interfaces(namespace: str, network: IPv4Network) -> list[tuple[str, str]]:
    """Return (interface, its own address) where a namespace has an address of that network."""
    links = msgspec.json.decode(await run_program("ip", "-n", namespace, "-json", "-4", "address", "show"))
    return [
        (link["ifname"], own["local"])
        for link in links
        for own in link.get("addr_info", ())
        if IPv4Interface(f"{own['local']}/{own['prefixlen']}").network == network
    ]


class _Sweep:
    """Questions for each address of a network, on one interface. own: the interface's own address."""

    def __init__(self, network: IPv4Network, interface: str, own: str, awaited: frozenset[str]) -> None:
        self._interface = interface
        self._awaited = awaited
        addresses = [str(address) for address, _ in zip(network.hosts(), range(ADDRESSES_MAX), strict=False)]
        self._macs_by_address: dict[str, set[str]] = {item: set() for item in addresses if item != own}

    def run(self) -> dict[str, frozenset[str]]:
        """Return address -> the MAC addresses of those that answered. Blocks. Raises OSError."""
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ARP)) as sock:
            sock.bind((self._interface, 0))
            mac = sock.getsockname()[4]
            for number in range(ROUNDS_MAX):
                silent = [address for address, macs in self._macs_by_address.items() if not macs]
                if number >= ROUNDS_MIN and self._awaited.isdisjoint(silent):
                    break
                for address in silent:
                    sock.send(_question(mac, address))
                self._hear(sock, time.monotonic() + ROUND_S)
        return {address: frozenset(macs) for address, macs in self._macs_by_address.items()}

    def _hear(self, sock: socket.socket, until_s: float) -> None:
        while (left_s := until_s - time.monotonic()) > 0:
            sock.settimeout(left_s)
            try:
                frame = sock.recv(2048)
            except TimeoutError:
                return
            if len(frame) < ARP.size:
                continue
            *_, operation, sender, address, _, _ = ARP.unpack(frame[: ARP.size])
            macs = self._macs_by_address.get(socket.inet_ntoa(address))
            if operation == ARP_REPLY and macs is not None:
                macs.add(sender.hex(":"))


def _question(mac: bytes, address: str) -> bytes:
    """Return the frame that asks who has an address; it is from nobody, so that nobody learns from it."""
    broadcast, nothing = b"\xff" * 6, bytes(6)
    head = (broadcast, mac, ETH_P_ARP, 1, 0x0800, 6, 4, ARP_REQUEST)
    return ARP.pack(*head, mac, bytes(4), nothing, socket.inet_aton(address)).ljust(60, b"\0")
