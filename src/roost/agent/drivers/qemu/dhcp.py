"""DHCP for the guests of a host: for each segment a namespace of its own, with a dnsmasq in it that holds it open.

It spends no address of any subnet: its interface has a link-local one. What it tells a guest is the order's. In IPv6 it
sends from its link-local address, and has the subnet-router anycast address, so that it knows the prefix.
"""

import contextlib
import os
import re
import shlex
import signal
from collections.abc import Collection, Mapping, Sequence
from ipaddress import IPv4Network, ip_address, ip_network
from itertools import accumulate
from pathlib import Path

import structlog

from roost.agent.drivers.programs import ProgramFailed, end_process, find_process, run_program
from roost.agent.drivers.qemu.nics import LINKS, MTU_USUAL, NicPlan, SegmentPlan
from roost.agent.drivers.state import write_whole
from roost.platform.errors import reason_of
from roost.seams.guests import NicSubnet, Route

INTERFACE = "eth0"
"""Of the namespace."""
METADATA_ADDRESS = "169.254.169.254"
LEASE_S = 86400
RA_INTERVAL_S = 60
SLAAC, STATELESS, STATEFUL = "slaac", "dhcpv6-stateless", "dhcpv6-stateful"
PREFIX_MIN = 64
"""dnsmasq takes no range of a larger subnet."""
MTU_MIN_V6 = 1280
OPTION_BYTES = 255
HOSTNAME = re.compile(
    r"(?!(?:[\d.]+[smhdw]?|ignore|infinite)\Z)[a-z0-9][a-z0-9_-]{0,62}(\.[a-z0-9_-]{1,63})*", re.IGNORECASE
)
"""What dnsmasq takes for a name, and for no address, length of a lease, or word of its own."""

log = structlog.get_logger()


class SegmentFiles:
    """Where the files of one segment's dnsmasq are. hosts: the guests that it knows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configuration, self.hosts, self.pid = folder / "dnsmasq.conf", folder / "hosts", folder / "pid"


def subnets_of(nics: Sequence[NicPlan]) -> list[NicSubnet]:
    """Return the subnets of a segment that its guests are told of, each once: the latest word on it."""
    subnets = {subnet.cidr: subnet for nic in nics for subnet in nic.subnets}
    return [subnets[cidr] for cidr in sorted(subnets)]


def render_configuration(nics: Sequence[NicPlan], files: SegmentFiles) -> str:
    """Return the configuration of a segment's dnsmasq."""
    lines = [
        *("port=0", "no-hosts", "no-resolv", "bind-interfaces", f"interface={INTERFACE}", "except-interface=lo"),
        *("leasefile-ro", "dhcp-authoritative", "dhcp-ignore=tag:!known", "quiet-dhcp", "quiet-dhcp6", "quiet-ra"),
        *("user=nobody", "group=nogroup", f"pid-file={files.pid}", f"dhcp-hostsfile={files.hosts}"),
    ]
    mtu = min((nic.mtu for nic in nics), default=MTU_USUAL)
    for number, subnet in enumerate(subnets_of(nics)):
        lines += _subnet_lines(subnet, prefixes_of(subnet, nics), tag=f"s{number}", mtu=mtu)
    if any(line.startswith("dhcp-range=") and ":" in line.split(",")[1] for line in lines):
        lines += [f"ra-param={INTERFACE},mtu:{max(mtu, MTU_MIN_V6)},{RA_INTERVAL_S},0"]
    if any(subnet.ra_mode for subnet in subnets_of(nics)):
        lines += ["enable-ra"]
    return "\n".join(lines) + "\n"


def _subnet_lines(subnet: NicSubnet, prefixes: Sequence[str], *, tag: str, mtu: int) -> list[str]:
    network = ip_network(subnet.cidr)
    if not isinstance(network, IPv4Network):
        return _subnet_lines_v6(subnet, prefixes, tag=tag)
    if not subnet.dhcp:
        return []
    routes = [f"{route.destination},{route.nexthop}" for route in _fitting(subnet.routes)]
    if routes and subnet.gateway:  # whoever reads these reads no other
        routes.append(f"0.0.0.0/0,{subnet.gateway}")
    return [
        f"shared-network={INTERFACE},{network.network_address}",
        f"dhcp-range=set:{tag},{network.network_address},static,{network.netmask},{LEASE_S}",
        ",".join([f"dhcp-option=tag:{tag},option:router", *([subnet.gateway] if subnet.gateway else [])]),
        ",".join([f"dhcp-option=tag:{tag},option:dns-server", *_of_version(subnet.dns, 4)]),
        f"dhcp-option=tag:{tag},option:mtu,{mtu}",
        *([f"dhcp-option=tag:{tag},option:classless-static-route,{','.join(routes)}"] if routes else []),
    ]


def _fitting(routes: Sequence[Route]) -> list[Route]:
    """Return the first routes that an option has room for, beside the default route.

    A subnet's own always fit. What does not is of other subnets of its network, by the gateway as the default route.
    """
    sizes = accumulate(5 + -(-ip_network(route.destination).prefixlen // 8) for route in routes)
    return [route for route, size in zip(routes, sizes, strict=True) if size <= OPTION_BYTES - 5]


def prefixes_of(subnet: NicSubnet, nics: Sequence[NicPlan]) -> list[str]:
    """Return the prefixes of an IPv6 subnet that dnsmasq serves: of a large one those of addresses, else the first."""
    network = ip_network(subnet.cidr)
    if network.version == 4 or _mode_v6(subnet) is None:
        return []
    own = [address for nic in nics for address in nic.addresses if ip_address(address) in network]
    length = max(network.prefixlen, PREFIX_MIN)
    addresses = own or [str(network.network_address)]
    return sorted({str(ip_network(f"{address}/{length}", strict=False)) for address in addresses})


def _mode_v6(subnet: NicSubnet) -> str | None:
    """Return what dnsmasq does in an IPv6 subnet: advertises as ra_mode asks, gives addresses as address_mode does."""
    mode = {SLAAC: "ra-only", STATELESS: "ra-stateless"}.get(subnet.ra_mode or "")
    return mode or ("static" if _is_stateful(subnet) else None)


def _subnet_lines_v6(subnet: NicSubnet, prefixes: Sequence[str], *, tag: str) -> list[str]:
    mode = _mode_v6(subnet)
    if mode is None:
        return []
    ranges = [prefix.replace("/", f",{mode},") for prefix in prefixes]
    servers = ",".join(f"[{server}]" for server in _of_version(subnet.dns, 6))
    return [
        *(f"dhcp-range=set:{tag},{words},{LEASE_S}" for words in ranges),
        *([f"dhcp-option=tag:{tag},option6:dns-server,{servers}"] if servers else []),
    ]


def _is_stateful(subnet: NicSubnet) -> bool:
    return subnet.dhcp and STATEFUL in (subnet.address_mode, subnet.ra_mode)


def _of_version(addresses: Sequence[str], version: int) -> list[str]:
    return [address for address in addresses if ip_address(address).version == version]


def render_hosts(nics: Sequence[NicPlan]) -> str:
    """Return the line of each guest's NIC: its MAC, its first address of IPv4, those by DHCPv6, its name."""
    lines = []
    for nic in nics:
        v4 = _of_version(nic.addresses, 4)[:1]
        stateful = [ip_network(subnet.cidr) for subnet in nic.subnets if _is_stateful(subnet)]
        v6 = [item for item in _of_version(nic.addresses, 6) if any(ip_address(item) in known for known in stateful)]
        name = [nic.hostname] if HOSTNAME.fullmatch(nic.hostname) else []
        words = [nic.mac, *v4, *(f"[{address}]" for address in v6), *name]
        lines.append(",".join(words))
    return "".join(f"{line}\n" for line in lines)


def namespace_script(nics: Sequence[NicPlan], *, interface: str, pid: int, configuration: Path) -> str:
    """Return what a shell in a new namespace does. interface: the cable's other end, which goes to process pid."""
    anycast = [prefix for subnet in subnets_of(nics) for prefix in prefixes_of(subnet, nics)]
    return "\n".join(
        [
            "set -e",
            "ip link set lo up",
            f"ip link add {INTERFACE} type veth peer name {interface} netns {pid}",
            f"ip address add {METADATA_ADDRESS}/32 dev {INTERFACE}",
            f"ip link set {INTERFACE} up",
            *(f"ip address add {address} dev {INTERFACE} nodad noprefixroute" for address in anycast),
            f"exec dnsmasq --conf-file={shlex.quote(str(configuration))}",
        ]
    )


class Dhcp:
    """The dnsmasqs of one host. folder: of their files, one folder for each segment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: set[str] = set()

    async def apply(self, nics: Sequence[NicPlan], *, needed: Collection[SegmentPlan] = ()) -> None:
        """Have exactly those segments served that have guests here, and each know exactly its guests.

        What fails for one segment is logged, and those that are needed come last: what fails there is raised,
        ProgramFailed, OSError.
        """
        nics_by_key: dict[str, list[NicPlan]] = {folder.name: [] for folder in self._folder.glob("*")}
        for nic in nics:
            nics_by_key.setdefault(nic.segment.key, []).append(nic)
        keys_needed = {segment.key for segment in needed}
        for key in sorted(nics_by_key, key=lambda key: key in keys_needed):
            try:
                await self._serve(key, nics_by_key[key])
            except (ProgramFailed, OSError) as error:
                if key in keys_needed:
                    raise
                log.error("a segment's DHCP is not as it should be", segment=key, error=reason_of(error))

    async def _serve(self, key: str, nics: Sequence[NicPlan]) -> None:
        """Have a segment's dnsmasq know these, or be gone with its files where there are none."""
        files = SegmentFiles(self._folder / key)
        pid = self._find(files)
        if not nics:
            if pid is not None:
                await end_process(pid)
            for path in files.folder.iterdir():
                path.unlink()
            return files.folder.rmdir()
        texts: Mapping[Path, str] = {
            files.hosts: render_hosts(nics),
            files.configuration: render_configuration(nics, files),
        }
        changed = {path for path, text in texts.items() if not path.exists() or path.read_text() != text}
        is_cut = not (LINKS / nics[0].segment.interface).exists()
        if pid is not None and (is_cut or files.configuration in changed):
            await end_process(pid)  # and its namespace with it
            pid = None
        files.folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        for path in changed:
            write_whole(path, texts[path].encode())
            path.chmod(0o644)
        if pid is None:
            await self._start(nics, files)
        elif changed or key not in self._known:  # of an agent before, which may have died in between
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGHUP)  # it forgets no host that is gone, otherwise
        self._known.add(key)

    @staticmethod
    async def _start(nics: Sequence[NicPlan], files: SegmentFiles) -> None:
        """Start a dnsmasq in a new namespace, with a new cable; that of one that ends may be there still."""
        interface = nics[0].segment.interface
        files.pid.unlink(missing_ok=True)
        with contextlib.suppress(ProgramFailed):  # there is none, or it goes by itself
            await run_program("ip", "link", "delete", interface)
        script = namespace_script(nics, interface=interface, pid=os.getpid(), configuration=files.configuration)
        await run_program("unshare", "--net", "--", "sh", "-c", script)

    @staticmethod
    def _find(files: SegmentFiles) -> int | None:
        return find_process(files.pid, "dnsmasq", f"--conf-file={files.configuration}")
