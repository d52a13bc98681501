"""Requests to the Network API, good, bad and absurd, made up from the document that it serves by a seeded random.

Paths, parameters and bodies are the document's, so that nothing needs to be listed here when an operation is added. A
request starts as its schemas have it, about one network and with what exists there, so that many get through; then
anything in it may be exchanged for what nobody should send.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote

from tests.platform.malformed import (
    BAD_BODIES,
    BAD_QUERY_BYTES,
    BAD_SEGMENTS,
    BAD_TEXT,
    METHODS,
    Pairs,
    Spoiler,
)

NOTHING = "00000000-0000-4000-8000-00000000000f"
OWNER = "p1"
TIGHT = "tight"
"""A project whose quotas are set at random; the others' are not, or nothing could be made for long."""

Headers = list[tuple[bytes, bytes]]


def _caller(token: bytes, *roles: bytes) -> Headers:
    return [(b"x-auth-token", token), (b"x-roles", b",".join(roles))]


ADMIN = _caller(b"admin:" + OWNER.encode(), b"admin", b"member", b"reader")
CALLERS: list[Headers] = [
    *[_caller(b"u1:" + OWNER.encode(), b"member", b"reader")] * 3,
    *[_caller(b"u2:" + OWNER.encode(), b"reader")] * 3,
    _caller(b"u3:other", b"member", b"reader"),
    _caller(b"u4:other", b"reader"),
    _caller(b"service:service", b"service"),
    _caller(b"nova:service", b"admin", b"service"),
    [(b"x-auth-token", b"admin"), (b"openstack-system-scope", b"all")],
]  # fmt: skip
"""Who asks, besides the administrator."""
BAD_CALLERS: list[Headers] = [
    [], [(b"x-auth-token", b"")], [(b"x-auth-token", b":")], [(b"x-auth-token", b"\xff:\xff")],
    [(b"x-auth-token", b"a" * 8000)], _caller(b"u1:" + OWNER.encode()), _caller(b"u1:p", b",\xff, ,ADMIN"),
    [(b"x-auth-token", b"u"), (b"x-project-id", b"%(project_id)s"), (b"x-roles", b"reader,%s,rule:admin_only")],
    [(b"x-auth-token", b"u"), (b"x-project-id", b"x" * 300), (b"x-roles", b"member,reader")],
]  # fmt: skip
CIDRS = [f"10.{number}.0.0/{size}" for number in range(1, 9) for size in (22, 29, 29, 30)] + [
    "2001:db8:1::/64", "2001:db8:2::/120", "fd00::/126", "10.1.0.64/29", "198.51.100.0/30",
]  # fmt: skip
BAD_CIDRS = [
    "0.0.0.0/0", "::/0", "127.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32", "10.0.0.1/24", "10.0.0.0/33", "10.0.0.0",
    "10.0.0.0/-1", "10.0.0.0/8", "010.0.0.0/24", "10.0.0.0/255.255.255.0", "10.0.0.0/0.0.0.255", "fe80::/10",
    "fe80::%eth0/64", "::ffff:10.0.0.0/120", "2001:db8::/0", "10.0.0.0/31", "1/8", "/24", "2001:db8::/128", "ff00::/8",
    "10.0.0.0/٢٤", "10.0.0.0/24 ", " 10.0.0.0/24", "10.0.0.0/024", "10.0.0.0/24\n", "0/0", "::1/128", "10.0/16",
    "fe80::%\0/64",
]  # fmt: skip
BAD_ADDRESSES = [
    "0.0.0.0", "255.255.255.255", "256.1.1.1", "10.1.0.1/24", "10.1.1", "010.001.000.001", "0x0a010001", "167837697",
    "::", "::1", "fe80::1%eth0", "fe80::1%", "::ffff:10.1.0.1", "10.1.0.1%25", "１０.1.0.1", "10.1.0.1\n", "localhost",
    "fe80::1%\0", "224.0.0.1", "127.0.0.1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
]  # fmt: skip
MACS = [f"fa:16:3e:00:00:{number:02x}" for number in range(6)]
BAD_MACS = [
    "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "FA-16-3E-00-00-01", "fa163e000001", "fa:16:3e:00:00", "x" * 17,
    "01:00:5e:00:00:01", "fa:16:3e:00:00:0g", "fa:16:3e:00:00:01\n", "fa:16:3e:00:00:٠١", "fa:16:3e:0:0:1",
]  # fmt: skip
USUAL: Mapping[str, Sequence[str]] = {
    "provider:network_type": ["vlan", "flat", "vxlan", "local", "geneve"],
    "network_type": ["vlan", "flat", "vxlan"],
    "project_id": [OWNER, OWNER, "other", TIGHT],
    "tenant_id": [OWNER, OWNER, "other"],
    "device_owner": ["", "compute:nova", "compute:nova", "network:routed", "baremetal:none", "network:router_gateway"],
    "binding:vnic_type": ["normal", "direct", "macvtap", "baremetal"],
    "vnic_type": ["normal", "direct"],
    "segmentation_id": ["0", "7", "101", "4094", "4095"],
    "ipv6_address_mode": ["slaac", "dhcpv6-stateful", "dhcpv6-stateless"],
    "ipv6_ra_mode": ["slaac", "dhcpv6-stateful", "dhcpv6-stateless"],
    "service_types": ["compute:nova", "network:dhcp", "network:routed"],
    "alias": ["segment", "subnet_allocation", "quotas", "standard-attr-tag", "none"],
    "ip_version": ["4", "6"], "admin_state_up": ["true", "false", "1", "x"], "limit": ["0", "1", "2", "-1", "1.5"],
    "sort_dir": ["asc", "desc", "x"], "page_reverse": ["true", "false", "True", "x"], "tags": ["red", "blue", "red,x"],
    "tags-any": ["red,blue"], "not-tags": ["red"], "not-tags-any": ["red,blue"], "tag": ["red", "blue", "green"],
    "status": ["ACTIVE", "DOWN"], "revision_number": ["1", "2"], "ip_allocation": ["immediate", "deferred", "none"],
}  # fmt: skip
"""Texts that mean something, by the name of the attribute or parameter."""

KINDS = {"networks": "network", "segments": "segment", "subnets": "subnet", "ports": "port"}
LIKELY = {
    "name": 0.5, "fixed_ips": 0.2, "binding:host_id": 0.35, "segment_id": 0.5, "allocation_pools": 0.2, "ports": 0.15,
    "networks": 0.15, "subnets": 0.15, "segments": 0.15, "port": 0.9, "network": 0.9, "subnet": 0.9, "segment": 0.9,
    "subnet_id": 0.6, "ip_address": 0.6, "provider:network_type": 0.3, "gateway_ip": 0.15, "cidr": 0.9, "shared": 0.05,
    "router:external": 0.1, "device_id": 0.3, "device_owner": 0.2, "mac_address": 0.08,
}  # fmt: skip
"""How often an attribute is there that may be left out; others are there one time in eight."""


@dataclass(frozen=True)
class Sent:
    """A request as it goes over the wire. path: as the document has it; served: so has the document its method."""

    path: str
    method: str
    target: bytes
    headers: Headers
    body: Sequence[bytes]
    served: bool = True


@dataclass
class Known:
    """What exists at the moment: kind -> the rows of its table, and the hosts with their physical networks."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {kind: [] for kind in KINDS.values()})
    hosts: dict[str, list[str]] = field(default_factory=dict)

    def of(self, kind: str, network_id: str) -> list[dict[str, Any]]:
        """Those of a network."""
        return [row for row in self.rows[kind] if row.get("network_id", row["id"]) == network_id]


class Maker(Spoiler):
    """Makes requests up from a document. known: what they name; whoever sends them keeps it."""

    def __init__(self, random: Random, document: Mapping[str, Any], known: Known) -> None:
        super().__init__(random, document["components"]["schemas"])
        self.known = known
        self.operations = [
            (path, method.upper(), operation)
            for path, item in document["paths"].items()
            for method, operation in item.items()
            if method != "parameters"
        ]
        # As often those that make and change something as all that show or take away.
        makers = [one for one in self.operations if one[1] in ("POST", "PUT") and "tags" not in one[0]]
        self.operations += makers * (len(self.operations) // len(makers))
        self.operations += (
            [one for one in makers if re.fullmatch("/v2.0/ports(/{id})?", one[0])]
            * 2
            * (len(self.operations) // len(makers))
        )
        self.network_id = NOTHING
        self.cidr = CIDRS[0]

    def request(self) -> Sent:
        """One request; of each five, two have nothing in them that nobody would send."""
        self.benign = self.odds(0.4)
        path, method, operation = self.random.choice(self.operations)
        if method == "DELETE" and self.odds(0.6):  # or there would soon be nothing left
            path, method, operation = self.random.choice(self.operations)
        networks = self.known.rows["network"]
        self.network_id = self.random.choice(networks)["id"] if networks else NOTHING
        headers = list(ADMIN if self.odds(0.6) else self.random.choice(CALLERS))
        if self.bad(0.03):
            headers = list(self.random.choice(BAD_CALLERS))
        served = not self.bad(0.03)
        if not served:
            method = self.random.choice(METHODS)
        target = self._path(path)
        self.cidr = self._cidr(target.decode())
        body = self._body(operation) if method in ("POST", "PUT", "PATCH") or self.bad(0.03) else b""
        if method in ("PUT", "DELETE") and self.odds(0.1):
            headers.append((b"if-match", self._revision()))
        more, chunks = self.envelope(body)
        return Sent(path, method, target + self._query(operation), [*headers, *more], chunks, served)

    # Paths and queries.

    def _path(self, path: str) -> bytes:
        def segment(match: re.Match[str]) -> str:
            if self.bad(0.1):
                return self.random.choice(BAD_SEGMENTS).decode()
            kind = re.findall(r"\w[\w-]*", path[: match.start()])[-1:]
            if match[1] == "project_id":  # whose quotas become small or go: seldom of who asks most
                return self.random.choice([TIGHT] * 6 + ["other", OWNER])
            name = f"{KINDS.get(kind[0], 'network')}_id" if match[1] == "id" and kind else match[1]
            return quote(self.text({}, name), safe="")

        made = re.sub(r"{(\w+)}", segment, path).encode()
        odd = [b"/", b"//", b"/x", b"%00", b"%0A", b"/%2e%2e", b";a=b", b".json"]
        return made + self.random.choice(odd) if self.bad(0.02) else made

    def _cidr(self, target: str) -> str:
        """The CIDR that a request is about: of the subnet in its path, of one of its network, or a new one."""
        subnets = self.known.of("subnet", self.network_id)
        named = [row["cidr"] for row in self.known.rows["subnet"] if row["id"] in target]
        if named:
            return str(named[0])
        if subnets and "/ports" in target:
            return str(self.random.choice(subnets)["cidr"])
        return self.random.choice(CIDRS)

    def _query(self, operation: Mapping[str, Any]) -> bytes:
        if self.bad(0.03):
            return b"?" + self.random.choice(BAD_QUERY_BYTES)
        names = {one["name"]: one["schema"] for one in operation.get("parameters", ())}
        if not names:
            return b"?fields=id" if self.odds(0.02) else b""
        pairs = []
        for name in self.random.choices([*names], k=self.random.choice([0, 0, 0, 1, 1, 2, 3])):
            made = "x" if self.bad(0.1) else name
            if self.bad(0.15):
                value = self.random.choice(BAD_TEXT)
            elif name in ("fields", "sort_key"):
                value = self.random.choice([*names])
            elif name == "fixed_ips":
                keys = self.random.choices(["ip_address", "subnet_id", "ip_address_substr", "x"], [3, 3, 2, 1])
                value = f"{keys[0]}={self.text({}, keys[0])}"
            else:
                value = self.text({}, name)
            text = f"{quote(made)}={quote(value, safe=self.random.choice(['', ':,!=']))}".encode()
            pairs.append(text + self.random.choice([b"%", b"%FF", b"\xff"]) if self.bad(0.02) else text)
        return b"?" + b"&".join(pairs) if pairs else b""

    def _revision(self) -> bytes:
        if self.bad(0.4):
            return self.random.choice([b"*", b"", b"revision_number=", b"revision_number=-1", b'"1"', b"\xff",
                b"revision_number=" + b"9" * 30, b"revision_number=1\n", b"revision_number=\xd9\xa3"])  # fmt: skip
        return b"revision_number=%d" % self.random.randint(1, 3)

    # Bodies.

    def _body(self, operation: Mapping[str, Any]) -> bytes:
        if self.bad(0.06):
            return self.random.choice(BAD_BODIES)
        if "requestBody" not in operation:
            return b""
        made = self.instance(operation["requestBody"]["content"]["application/json"]["schema"], "")
        if not made.pairs:  # an envelope around nothing
            made = self.instance(operation["requestBody"]["content"]["application/json"]["schema"], "")
        if len(made.pairs) == 2 and not self.bad(0.2):  # one and many: an envelope has either
            made = Pairs(made.pairs[:1])
        return self.written(made)

    def optional(self, name: str, schema: Mapping[str, Any]) -> bool:
        """Rarely what is not served, and seldom so much that nothing gets through."""
        return self.odds(LIKELY.get(name, 0.125 if set(schema) - {"default"} else 0.02))

    def instance(self, schema: Mapping[str, Any], name: str) -> Any:
        """As schemas have it, with whole numbers that often mean something."""
        if not set(schema) - {"default", "description", "title"}:
            return self.random.choice([None, [], False, "", {}])
        if schema.get("type") == "integer" and name == "ip_version" and not self.bad(0.2):
            return 6 if ":" in self.cidr else 4
        if schema.get("type") == "integer" and "segmentation_id" in name and not self.bad(0.2):
            return self.random.randint(1, 4094)
        if schema.get("type") == "integer" and name == "mtu" and not self.bad(0.2):
            return self.random.choice([0, 68, 1280, 1500, 9000])
        return super().instance(schema, name)

    def text(self, schema: Mapping[str, Any], name: str) -> str:
        """One that exists and fits the others of the request, or could, or that nobody should send."""
        if self.bad(0.06):
            return self.random.choice(BAD_TEXT)
        if name in ("id", "marker"):
            name = f"{self.random.choice([*KINDS.values()])}_id"
        kind = name.removesuffix("_id")
        if name.endswith("_id") and kind in KINDS.values():
            return self._id(kind)
        if name in ("cidr", "destination"):
            return self.random.choice(BAD_CIDRS) if self.bad(0.2) else self.cidr
        if name in ("ip_address", "gateway_ip", "start", "end", "nexthop", "dns_nameservers", "ip_address_substr"):
            return self._address(first=name == "start", last=name == "end")
        if name == "mac_address":
            return self.random.choice(BAD_MACS if self.bad(0.3) else MACS)
        if name in ("binding:host_id", "host", "host_id"):
            return self.random.choice([*self.known.hosts, "", "nowhere"][: -1 if self.odds(0.7) else None])
        if "physical_network" in name:
            return self.random.choice(["rack1", "rack2", "rack3", "datacentre"])
        if name == "device_id":
            devices = [row["device_id"] for row in self.known.rows["port"]]
            return self.random.choice([*devices[:5], NOTHING, "", "x"])
        usual = USUAL.get(name.removeprefix("provider:"), USUAL.get(name, ["", "x", "red", f"n{self.random.random()}"]))
        return self.random.choice(usual)

    def key(self, pattern: str) -> str:
        """Whatever; no body of the Network API has such keys."""
        return self.random.choice(["a", "vnic", pattern])

    def _id(self, kind: str) -> str:
        if self.bad(0.08):
            return f"{self.random.getrandbits(32):08x}-0000-4000-8000-000000000000"
        rows = self.known.of(kind, self.network_id) if self.odds(0.9) else self.known.rows[kind]
        found = str(self.random.choice(rows or self.known.rows[kind] or [{"id": NOTHING}])["id"])
        return self.random.choice([found.upper(), found.replace("-", "")]) if self.odds(0.05) else found

    def _address(self, *, first: bool = False, last: bool = False) -> str:
        if self.bad(0.1):
            return self.random.choice(BAD_ADDRESSES)
        network = ipaddress.ip_network(self.cidr)
        size = min(network.num_addresses, 16)
        at = self.random.randint(0, 2) if first else size - self.random.randint(1, 4) if last else None
        if at is None:
            at = self.random.randint(-1, size)
        whole = int(network.network_address) + at
        return str(ipaddress.IPv4Address(whole) if network.version == 4 else ipaddress.IPv6Address(whole))
