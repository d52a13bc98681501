"""The cloud file: what it may say, and every reason why one is refused, before anything is created.

`read_cloud` reads YAML, checks shape (msgspec), then sense: names, ranges of hosts, subnets, pools. Every problem names
the file, the line, the key and what was expected there. docs/reference/cloud-file.md explains each key.
"""

import ipaddress
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import yaml
from msgspec import UNSET, Meta, Struct, UnsetType

from roost.compute.rules.host_names import find_bad_host_name
from roost.platform.errors import RoostError
from roost.platform.mismatch import explain_mismatch

HOSTS_MAX = 100_000
SERVERS_MAX = 100_000

Name = Annotated[str, Meta(min_length=1, max_length=255)]
Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
NotNegative = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Address = ipaddress.IPv4Address
Path = tuple[str | int, ...]
"""Keys and indexes from the top of the file."""


class Flavor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A size of servers."""

    name: Name
    vcpus: Positive
    ram_mb: Positive
    disk_gb: NotNegative = 0


class Pool(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Addresses that servers may get, both ends included."""

    start: str
    end: str


class Subnet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """IPv4 addresses of a segment or a plain network. gateway: the first address by default; None: there is none.

    cell: of a flat network, the cell whose pool it is.
    """

    cidr: str
    cell: Name | None = None
    name: str = ""
    gateway: str | UnsetType | None = UNSET
    pools: Annotated[tuple[Pool, ...], Meta(min_length=1)] | UnsetType = UNSET


class Segment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stretch of a routed network, reached by the hosts that name its physical network."""

    name: Name
    physical_network: Name
    network_type: str = "vlan"
    segmentation_id: NotNegative | None = None
    subnets: tuple[Subnet, ...] = ()


class Network(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Routed with `segments`, plain with `subnets`, flat with `kind` and pools of cells. The rest is a plain one's."""

    name: Name
    shared: bool = False
    kind: Literal["flat"] | None = None
    segments: tuple[Segment, ...] = ()
    physical_network: Name | None = None
    network_type: str | None = None
    segmentation_id: NotNegative | None = None
    subnets: tuple[Subnet, ...] = ()


class Hosts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hosts that are alike; name may hold ranges: `r1-h[1-4]`, `r[01-12]-h[1-4]`."""

    name: Name
    vcpus: Positive
    ram_mb: Positive
    disk_gb: Positive
    physical_networks: tuple[Name, ...] = ()
    cell: Name = "cell1"

    def names(self) -> list[str]:
        """Return every host's name, in order."""
        return list(expand_ranges(self.name))


class Servers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Servers that are alike: what `demo` boots, and `load --servers`."""

    name: Name
    flavor: Name
    networks: Annotated[tuple[Name, ...], Meta(min_length=1)]
    count: Annotated[int, Meta(ge=1, le=SERVERS_MAX)] = 1


class Cloud(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole cloud file."""

    flavors: tuple[Flavor, ...] = ()
    networks: tuple[Network, ...] = ()
    hosts: tuple[Hosts, ...] = ()
    servers: tuple[Servers, ...] = ()


class CloudFileError(RoostError):
    """The cloud file is not right."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Problem(Struct, frozen=True):
    """Something wrong in the file. text: what was expected there, and what there is."""

    path: Path
    text: str


def read_cloud(file: pathlib.Path) -> tuple[Cloud, list[str]]:
    """Read and check a cloud file whole; returns it with warnings. Raises CloudFileError with every problem found."""
    try:
        return parse_cloud(file.read_text(encoding="utf-8"), name=str(file))
    except OSError as error:
        raise CloudFileError([f"{file}: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise CloudFileError([f"{file}: expected text in UTF-8: {error}"]) from error


def parse_cloud(text: str, *, name: str) -> tuple[Cloud, list[str]]:
    """Read a text as `read_cloud` does a file. name: what problems call it."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text) if root else {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where else ""
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise CloudFileError([f"{name}{line}: this is not YAML: {what}"]) from error

    def sentences(problems: Iterable[Problem]) -> list[str]:
        return [_sentence(name, root, problem) for problem in problems]

    shape = [*_check_keys(root, ()), *_shape_problems(content, Cloud, ())]
    sections = content if isinstance(content, dict) else {}
    whole = set(Cloud.__struct_fields__) - {problem.path[0] for problem in shape if problem.path}
    cloud = msgspec.convert({key: value for key, value in sections.items() if key in whole}, Cloud, strict=True)
    sense = [*_check_names(cloud), *_check_networks(cloud), *_check_hosts(cloud)]
    if whole >= {"flavors", "networks"}:
        sense += _check_servers(cloud)
    if shape or sense:
        raise CloudFileError(sentences([*shape, *sense]))
    return cloud, sentences(_warnings(cloud))


def expand_ranges(pattern: str) -> Iterator[str]:
    """Yield the names of a pattern; several ranges multiply. Raises ValueError with what was expected instead.

    `h[1-3]` is h1, h2, h3; `h[08-10]` keeps the zeros: h08, h09, h10.
    """
    before, opened, rest = pattern.partition("[")
    if not opened:
        if "]" in pattern:
            raise ValueError("a [ before the ]")
        yield pattern
        return
    inside, closed, rest = rest.partition("]")
    match = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,9})", inside)
    if not closed or match is None:
        raise ValueError("a range such as [1-4]")
    first, last = int(match[1]), int(match[2])
    if first > last:
        raise ValueError(f"a range that counts up, such as [{match[2]}-{match[1]}]")
    if last - first >= HOSTS_MAX:
        raise ValueError(f"at most {HOSTS_MAX} hosts")
    width = len(match[1]) if match[1].startswith("0") else 0
    for number in range(first, last + 1):
        for tail in expand_ranges(rest):
            yield f"{before}{number:0{width}d}{tail}"


def subnet_gateway(subnet: Subnet) -> Address | None:
    """Return the gateway of a checked subnet: its own, or its first address."""
    if isinstance(subnet.gateway, str):
        return Address(subnet.gateway)
    return None if subnet.gateway is None else ipaddress.IPv4Network(subnet.cidr)[1]


def subnet_pools(subnet: Subnet) -> list[tuple[Address, Address]]:
    """Return the pools of a checked subnet as (first, last): its own, or all addresses but the gateway."""
    if subnet.pools is not UNSET:
        return [(Address(pool.start), Address(pool.end)) for pool in subnet.pools]
    cidr, gateway = ipaddress.IPv4Network(subnet.cidr), subnet_gateway(subnet)
    first, last = cidr[1], cidr[-2]
    if gateway is None or not first <= gateway <= last:
        return [(first, last)]
    ranges = [(first, gateway - 1), (gateway + 1, last)]
    return [(start, end) for start, end in ranges if start <= end]


# What was expected: shape.


def _shape_problems(value: Any, kind: Any, path: Path) -> Iterator[Problem]:
    """Yield all that is wrong with the shape of a value; msgspec ends at the first."""
    kind, item_kind = _kinds_of(kind)
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, Struct):
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        hints = get_type_hints(kind, include_extras=True)
        for name in value.keys() - fields.keys():
            yield Problem(path, f"unknown key {name!r}: known here are {', '.join(fields)}")
        for name, field in fields.items():
            if name in value:
                yield from _shape_problems(value[name], hints[name], (*path, name))
            elif field.required:
                yield Problem(path, f"the key {name!r} is missing")
    elif isinstance(value, list) and value and item_kind is not None:
        for index, item in enumerate(value):
            yield from _shape_problems(item, item_kind, (*path, index))
    else:
        try:
            msgspec.convert(value, kind, strict=True)
        except msgspec.ValidationError as error:
            yield Problem(path, explain_mismatch(error))


def _kinds_of(kind: Any) -> tuple[Any, Any]:
    """Return a field's type without UNSET, which no file can say, and the type of its items if it is a list."""
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        kind = Union[tuple(member for member in get_args(kind) if member is not UnsetType)]  # noqa: UP007 - built, not written
    listed = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return kind, get_args(listed)[0] if get_origin(listed) is tuple else None


# What was expected: sense.


def _check_names(cloud: Cloud) -> Iterator[Problem]:
    for section in ("flavors", "networks", "servers"):
        yield from _check_unique((section,), [item.name for item in getattr(cloud, section)])
    for index, network in enumerate(cloud.networks):
        yield from _check_unique(("networks", index, "segments"), [segment.name for segment in network.segments])


def _check_unique(path: Path, names: Sequence[str]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in first:
            text = f"expected a name of its own, {name!r} is {_path_text((*path, first[name]))} already"
            yield Problem((*path, index, "name"), text)
        first.setdefault(name, index)


def _check_networks(cloud: Cloud) -> Iterator[Problem]:
    for index, network in enumerate(cloud.networks):
        path: Path = ("networks", index)
        subnets = [((*path, "subnets", number), subnet) for number, subnet in enumerate(network.subnets)]
        for number, segment in enumerate(network.segments):
            below = (*path, "segments", number, "subnets")
            subnets += [((*below, place), subnet) for place, subnet in enumerate(segment.subnets)]
        if network.segments and network.subnets:
            yield Problem((*path, "subnets"), "expected no subnets here: a network with segments has them in those")
        elif network.segments:
            yield from _check_no_carrier(path, network, "expected this in each segment: the network has segments")
        if network.kind is None:
            for place, subnet in subnets:
                if subnet.cell is not None:
                    text = "expected none here: only the subnets of a flat network are pools of cells"
                    yield Problem((*place, "cell"), text)
        else:
            yield from _check_flat(path, network, subnets)
        if not subnets:
            yield Problem(path, f"expected a subnet: network {network.name!r} has no addresses at all")
        yield from _check_subnets(subnets)


def _check_no_carrier(path: Path, network: Network, text: str) -> Iterator[Problem]:
    for key in ("physical_network", "network_type", "segmentation_id"):
        if getattr(network, key) is not None:
            yield Problem((*path, key), text)


def _check_flat(path: Path, network: Network, subnets: Sequence[tuple[Path, Subnet]]) -> Iterator[Problem]:
    """Yield what a flat network has that carries it, and its subnets that are the pool of no cell."""
    if network.segments:
        yield Problem((*path, "segments"), "expected none here: a flat network has subnets of cells")
    text = "expected none here: a flat network is of cells, not of a physical network"
    yield from _check_no_carrier(path, network, text)
    for place, subnet in subnets:
        if subnet.cell is None:
            yield Problem(place, "expected a cell: the network is flat, so each subnet is the pool of one")


def _check_subnets(subnets: Sequence[tuple[Path, Subnet]]) -> Iterator[Problem]:
    """Yield what is wrong with each, and those of one network that overlap."""
    seen: list[tuple[Path, ipaddress.IPv4Network]] = []
    for path, subnet in subnets:
        try:
            cidr = ipaddress.IPv4Network(subnet.cidr)
        except ValueError as error:
            text = f"expected an IPv4 network such as 203.0.113.0/28, got {subnet.cidr!r} ({error})"
            yield Problem((*path, "cidr"), text)
            continue
        if cidr.prefixlen > 30:
            yield Problem((*path, "cidr"), f"expected at least four addresses (/30), got {subnet.cidr}")
            continue
        for other_path, other in seen:
            if cidr.overlaps(other):
                text = f"expected addresses of its own, {cidr} overlaps {other} of {_path_text(other_path)}"
                yield Problem((*path, "cidr"), text)
        seen.append((path, cidr))
        yield from _check_addresses(path, subnet, cidr)


def _check_addresses(path: Path, subnet: Subnet, cidr: ipaddress.IPv4Network) -> Iterator[Problem]:
    """Yield a gateway and pools that are not inside, or not apart from each other."""
    gateway = None if subnet.gateway is None else cidr[1]
    if isinstance(subnet.gateway, str):
        gateway = _address_inside(subnet.gateway, cidr)
        if gateway is None:
            yield Problem((*path, "gateway"), f"expected an address inside {cidr}, got {subnet.gateway!r}")
    taken: list[tuple[Address, Address, str]] = []
    for index, pool in enumerate(() if subnet.pools is UNSET else subnet.pools):
        at = (*path, "pools", index)
        start, end = _address_inside(pool.start, cidr), _address_inside(pool.end, cidr)
        for key, address, text in (("start", start, pool.start), ("end", end, pool.end)):
            if address is None:
                yield Problem((*at, key), f"expected an address inside {cidr}, got {text!r}")
        if start is None or end is None:
            continue
        if start > end:
            yield Problem((*at, "end"), f"expected an address from {start} on, got {end}")
            continue
        if gateway is not None and start <= gateway <= end:
            yield Problem(at, f"expected a pool without the gateway {gateway}, got {start} to {end}")
        for first, last, where in taken:
            if start <= last and first <= end:
                yield Problem(at, f"expected addresses of its own, {start} to {end} overlaps {where}")
        taken.append((start, end, _path_text(at)))


def _address_inside(text: str, cidr: ipaddress.IPv4Network) -> Address | None:
    """Return the address, None if it is none or is not one of the network's own hosts'."""
    try:
        address = Address(text)
    except ValueError:
        return None
    return address if cidr[1] <= address <= cidr[-2] else None


def _check_hosts(cloud: Cloud) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, hosts in enumerate(cloud.hosts):
        path = ("hosts", index, "name")
        try:
            names = hosts.names()
        except ValueError as error:
            yield Problem(path, f"expected {error}, got {hosts.name!r}")
            continue
        if (flaw := find_bad_host_name(names)) is not None:
            yield Problem(path, flaw)
            continue
        if len(seen) + len(names) > HOSTS_MAX:
            yield Problem(path, f"expected at most {HOSTS_MAX} hosts in all")
            return
        twice = [name for name in names if name in seen]
        if twice:
            text = f"expected names of their own, {twice[0]!r} is among hosts[{seen[twice[0]]}] already"
            yield Problem(path, text)
        seen.update(dict.fromkeys(names, index))


def _check_servers(cloud: Cloud) -> Iterator[Problem]:
    flavors = {flavor.name for flavor in cloud.flavors}
    networks = {network.name for network in cloud.networks}
    for index, servers in enumerate(cloud.servers):
        path: Path = ("servers", index)
        yield from _check_known((*path, "flavor"), "flavor", servers.flavor, flavors)
        for number, name in enumerate(servers.networks):
            yield from _check_known((*path, "networks", number), "network", name, networks)


def _check_known(path: Path, kind: str, name: str, names: set[str]) -> Iterator[Problem]:
    if name not in names:
        listed = ", ".join(sorted(names)) or "it has none"
        yield Problem(path, f"expected a {kind} of this file ({listed}), got {name!r}")


def _warnings(cloud: Cloud) -> Iterator[Problem]:
    reached = {name for hosts in cloud.hosts for name in hosts.physical_networks}
    cells = {hosts.cell for hosts in cloud.hosts}
    for index, network in enumerate(cloud.networks):
        for number, subnet in enumerate(network.subnets):
            if subnet.cell is not None and subnet.cell not in cells:
                text = f"no host of this file is in {subnet.cell!r}; without one, no server has an address of this pool"
                yield Problem(("networks", index, "subnets", number, "cell"), text)
        if network.physical_network and network.physical_network not in reached:
            text = f"no host of this file reaches {network.physical_network!r}; without one, no server can be here"
            yield Problem(("networks", index, "physical_network"), text)
        for number, segment in enumerate(network.segments):
            if segment.physical_network not in reached:
                text = f"no host of this file reaches {segment.physical_network!r}; without one, no server can be here"
                yield Problem(("networks", index, "segments", number, "physical_network"), text)


# Where in the file.


def _sentence(name: str, root: Any, problem: Problem) -> str:
    node = root
    for part in problem.path:
        below = _child(node, part)
        if below is None:
            break
        node = below
    line = f":{node.start_mark.line + 1}" if node is not None else ""
    key = f"{_path_text(problem.path)}: " if problem.path else ""
    return f"{name}{line}: {key}{problem.text}"


def _child(node: Any, part: str | int) -> Any:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part]
    return None


def _path_text(path: Sequence[str | int]) -> str:
    words = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return words.lstrip(".")


def _check_keys(node: Any, path: Path) -> Iterator[Problem]:
    """Yield the keys of which YAML would take the last without a word."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            at = (*path, str(key.value))
            if key.value in seen:
                yield Problem(at, "expected this key once, it is here twice")
            seen.add(key.value)
            yield from _check_keys(value, at)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _check_keys(value, (*path, index))
