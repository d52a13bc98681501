"""The networks of hosts that are real but for being network namespaces of this machine: what they are, and making them.

Each host has a bridge for each physical network that it reaches. Its cables go to the fabric, a namespace with a switch
for each physical network; the fabric is also the router, with the gateways' addresses. Hosts reach each other by a
network of their own, with link-local addresses, that no guest is on.
"""

import contextlib
import ctypes
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import TypeVar

from roost.agent.drivers.programs import ProgramFailed, run_program
from roost.cli.asking.cloudfile import Cloud, Subnet, subnet_gateway
from roost.platform.errors import RoostError

NAMESPACES = Path("/run/netns")
HOSTS_MAX = 24
"""Hosts that one machine plays: each has an agent of its own."""
FLAT = "flat"
MANAGEMENT = "mgmt"
MANAGEMENT_ADDRESSES = IPv4Network("169.254.1.0/24")
CLONE_NEWNET = 0x40000000
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")

Result = TypeVar("Result")


class RealFailed(RoostError):
    """This machine cannot play the hosts of the cloud file."""


@dataclass(frozen=True)
class RealHost:
    """A host that is a namespace. address: by which other hosts reach it. bridges: physical network -> bridge."""

    name: str
    namespace: str
    address: str
    bridges: Mapping[str, str]


@dataclass(frozen=True)
class RealNetwork:
    """What is to be made. commands: (namespace, lines for `ip -batch`), in order."""

    fabric: str
    hosts: tuple[RealHost, ...]
    commands: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def namespaces(self) -> list[str]:
        """Return the names of all namespaces."""
        return [self.fabric, *(host.namespace for host in self.hosts)]


def plan_network(cloud: Cloud, *, prefix: str) -> RealNetwork:
    """Return the namespaces of a cloud's hosts, and what makes them. prefix: of their names. Raises RealFailed."""
    physical_networks = _read_physical_networks(cloud)
    names = [(name, hosts.physical_networks) for hosts in cloud.hosts for name in hosts.names()]
    if len(names) > HOSTS_MAX:
        raise RealFailed(f"one machine plays at most {HOSTS_MAX} real hosts: the cloud file has {len(names)}")
    fabric = f"{prefix}-fabric"
    numbers = {name: number for number, name in enumerate(physical_networks)}
    hosts, commands = [], [(fabric, tuple(_fabric_commands(physical_networks)))]
    for number, (name, reached) in enumerate(names):
        bridges = {network: f"br{numbers[network]}" for network in reached if network in numbers}
        host = RealHost(name, f"{prefix}-{name}", str(MANAGEMENT_ADDRESSES[number + 1]), bridges)
        hosts.append(host)
        commands += _host_commands(host, number, fabric)
    return RealNetwork(fabric, tuple(hosts), tuple(commands))


def _read_physical_networks(cloud: Cloud) -> dict[str, list[str]]:
    """Return the gateways of each physical network, as ADDRESS/LENGTH. Raises RealFailed."""
    gateways: dict[str, list[str]] = {}
    for name, network_type, physical_network, subnets in _list_segments(cloud):
        if physical_network is None:
            raise RealFailed(f"{name} is not on a physical network, which real hosts need")
        if network_type != FLAT:
            raise RealFailed(f"{name} is of type {network_type}: real hosts on one machine have {FLAT} segments alone")
        gateways.setdefault(physical_network, []).extend(_gateways(subnets))
    return gateways


def _list_segments(cloud: Cloud) -> Iterator[tuple[str, str, str | None, tuple[Subnet, ...]]]:
    """Yield what each segment or plain network is called, its type, its physical network and its subnets."""
    for network in cloud.networks:
        for segment in network.segments:
            name = f"segment {segment.name} of network {network.name}"
            yield name, segment.network_type, segment.physical_network, segment.subnets
        if not network.segments:
            network_type = network.network_type or (FLAT if network.segmentation_id is None else "vlan")
            yield f"network {network.name}", network_type, network.physical_network, network.subnets


def _gateways(subnets: tuple[Subnet, ...]) -> Iterator[str]:
    for subnet in subnets:
        gateway: IPv4Address | None = subnet_gateway(subnet)
        if gateway is not None:
            yield f"{gateway}/{IPv4Network(subnet.cidr).prefixlen}"


def _fabric_commands(physical_networks: Mapping[str, list[str]]) -> Iterator[str]:
    yield "link set lo up"
    yield from (f"link add {MANAGEMENT} type bridge", f"link set {MANAGEMENT} up")
    for number, gateways in enumerate(physical_networks.values()):
        yield f"link add sw{number} type bridge"
        yield from (f"address add {gateway} dev sw{number}" for gateway in gateways)
        yield f"link set sw{number} up"


def _host_commands(host: RealHost, number: int, fabric: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what makes a host's interfaces, then what plugs its cables into the fabric."""
    far = f"h{number}m"
    own = [
        "link set lo up",
        f"link add {MANAGEMENT} type veth peer name {far} netns {fabric}",
        f"address add {host.address}/{MANAGEMENT_ADDRESSES.prefixlen} dev {MANAGEMENT}",
        f"link set {MANAGEMENT} up",
    ]
    plugs = [f"link set {far} master {MANAGEMENT} up"]
    for bridge in host.bridges.values():
        switch = bridge.removeprefix("br")
        own += [
            f"link add {bridge} type bridge",
            f"link add up{switch} type veth peer name h{number}p{switch} netns {fabric}",
            f"link set up{switch} master {bridge} up",
            f"link set {bridge} up",
        ]
        plugs.append(f"link set h{number}p{switch} master sw{switch} up")
    yield host.namespace, tuple(own)
    yield fabric, tuple(plugs)


@contextlib.asynccontextmanager
async def built_network(network: RealNetwork) -> AsyncIterator[None]:
    """Have the namespaces for as long as the block runs; what it made goes at its end. Raises RealFailed."""
    begun: list[str] = []
    try:
        for namespace in network.namespaces:
            begun.append(namespace)  # before it is: what is interrupted may have made it
            await run_program("ip", "netns", "add", namespace)
        for namespace, lines in network.commands:
            await run_program("ip", "-n", namespace, "-batch", "-", text="\n".join(lines) + "\n")
        run_in(network.fabric, lambda: FORWARD.write_text("1"))
        yield
    except ProgramFailed as error:
        raise RealFailed(f"the hosts' network cannot be made: {error}") from error
    except PermissionError as error:
        raise RealFailed(f"the hosts' network cannot be made: {error.filename}: {error.strerror}") from error
    finally:
        for namespace in begun:
            await delete_namespace(namespace)


async def delete_namespace(namespace: str) -> None:
    """Delete a namespace, if it is there."""
    with contextlib.suppress(ProgramFailed):
        await run_program("ip", "netns", "delete", namespace)


def run_in(namespace: str, work: Callable[[], Result]) -> Result:
    """Return what `work` returns in another network namespace; its sockets stay there. Raises OSError."""

    def enter() -> Result:
        with (NAMESPACES / namespace).open() as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), namespace)
        return work()

    with ThreadPoolExecutor(1) as threads:  # a thread of its own, which ends there
        return threads.submit(enter).result()


def listening_socket(namespace: str, port: int) -> socket.socket:
    """Return a socket that listens on 127.0.0.1 of a namespace. Raises OSError."""
    return run_in(namespace, lambda: socket.create_server(("127.0.0.1", port)))


def client_socket(namespace: str) -> socket.socket:
    """Return a TCP socket that connects from a namespace. Raises OSError."""
    client = run_in(namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    client.setblocking(False)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client
