"""A Neutron with routed networks: segments, subnets, ports with addresses, in this process and over real HTTP.

It implements roost.seams.neutron.NeutronClient itself, and serves the same lists, with pages and `changed_since`. What
its policy hides from who asks is left out of a list that is answered 200, and so are members of objects.
Source: Networking API v2.0; Neutron 29: neutron/conf/policies/, pecan_wsgi/hooks/policy_enforcement.py (`after`),
db/network_ip_availability_db.py. Neutron is not Roost's, so a stand-in of it is allowed.
"""

import asyncio
import ssl
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any

from aiohttp import web

from roost.seams.neutron import (
    GET_SEGMENT,
    GET_SEGMENT_ID,
    NeutronNetwork,
    NeutronPartial,
    NeutronPort,
    NeutronSegment,
    NeutronSubnet,
    NeutronUnavailable,
    PortPage,
)

BOTH, ADMIN = frozenset({"admin", "service"}), frozenset({"admin"})
POLICIES: Mapping[str, frozenset[str]] = {
    "get_network": BOTH, "get_segment": ADMIN, "get_subnet": BOTH, "get_subnet:segment_id": ADMIN, "get_port": BOTH,
    "get_network_ip_availability": BOTH,
}  # fmt: skip
"""Neutron's defaults: the roles to which it shows what is of other projects."""
OWNED = frozenset({"networks", "subnets", "ports"})
"""Lists in which everybody sees what is of their own project."""


class NoAddress(Exception):
    """IpAddressGenerationFailure: a server was sent to a host whose segment is full."""


@dataclass
class FakeNeutron:
    """networks: names by id. ports: documents by id. is_down: it answers nobody; is_slow: it does not answer for ports.

    devices_asked: whose ports were asked for in this process. asked: over HTTP. pages_max: objects in a page at most.
    roles: of who asks; policies: of each right the roles that have it; project: whose objects others see too.
    """

    roles: frozenset[str] = ADMIN
    policies: dict[str, frozenset[str]] = field(default_factory=lambda: dict(POLICIES))
    project: str = "roost's own"
    tokens_forgotten: int = 0
    networks: dict[str, str] = field(default_factory=dict)
    segments: dict[str, str] = field(default_factory=dict)
    subnets: dict[str, dict[str, Any]] = field(default_factory=dict)
    ports: dict[str, dict[str, Any]] = field(default_factory=dict)
    is_down: bool = False
    is_slow: bool = False
    tells_changes: bool = True
    token: str | None = None
    pages: bool = True
    pages_max: int = 1000
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    port: int = 0
    devices_asked: list[str] = field(default_factory=list)
    _now: int = 0

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def add_network(self, sizes: dict[str, int], *, enable_dhcp: bool = False) -> str:
        """A network with these segments, each with a subnet of so many addresses beside its gateway; its id."""
        network = str(uuid.uuid4())
        self.networks[network] = f"network {len(self.networks) + 1}"
        for segment, size in sizes.items():
            self.segments[segment] = network
            self.add_subnet(segment, size, enable_dhcp=enable_dhcp)
        return network

    def add_subnet(self, segment: str, size: int, *, enable_dhcp: bool = False, **members: Any) -> str:
        """An IPv4 subnet of a segment, of so many addresses beside its gateway; its id. members: others than usual."""
        base = IPv4Address("10.0.0.0") + 65536 * len(self.subnets)
        subnet = str(uuid.uuid4())
        self.subnets[subnet] = {
            "id": subnet, "network_id": self.segments[segment], "segment_id": segment, "ip_version": 4,
            "gateway_ip": str(base + 1), "enable_dhcp": enable_dhcp,
            "name": f"subnet of {segment}", "cidr": f"{base}/16", "project_id": "p", "service_types": [],
            "allocation_pools": [{"start": str(base + 2), "end": str(base + 1 + size)}], **members,
        }  # fmt: skip
        return subnet

    def delete_network(self, segment: str) -> None:
        """Delete the network of a segment, with all its segments and subnets."""
        network = self.segments[segment]
        del self.networks[network]
        self.segments = {key: value for key, value in self.segments.items() if value != network}
        self.subnets = {key: subnet for key, subnet in self.subnets.items() if subnet["network_id"] != network}

    def add_port(self, segment: str | None, server: str = "", *, owner: str | None = None, address: str = "") -> str:
        """A port with an address of a segment. Raises NoAddress."""
        port = str(uuid.uuid4())
        self.ports[port] = {
            "id": port, "network_id": self.segments.get(segment or "", ""), "device_id": server, "project_id": "p",
            "device_owner": ("compute:nova" if server else "") if owner is None else owner,
            "fixed_ips": [], "updated_at": self._time(),
        }  # fmt: skip
        try:
            if segment is not None:
                self.ports[port]["fixed_ips"] = [self._fixed_ip(segment, address)]
        except NoAddress:
            del self.ports[port]
            raise
        return port

    def update_port(self, port: str, **members: Any) -> None:
        self.ports[port] |= {**members, "updated_at": self._time()}

    def delete_ports_of(self, server: str) -> None:
        for port in self.ports_of(server):
            del self.ports[port]

    def ports_of(self, server: str) -> list[str]:
        return [uuid for uuid, port in self.ports.items() if port["device_id"] == server]

    def segments_of(self, server: str) -> list[str]:
        """The segments of a server's addresses, one for each."""
        fixed = [ip for port in self.ports_of(server) for ip in self.ports[port]["fixed_ips"]]
        return [self.subnets[ip["subnet_id"]]["segment_id"] for ip in fixed]

    def free(self, segment: str) -> int:
        """How many addresses a segment can still give."""
        return len(list(self._free(self._subnet(segment))))

    def served(self, segment: str) -> int:
        """How many addresses of a segment servers have."""
        subnet = self._subnet(segment)
        return sum(
            ip["subnet_id"] == subnet["id"]
            for port in self.ports.values()
            if port["device_owner"].startswith("compute:")
            for ip in port["fixed_ips"]
        )

    def _subnet(self, segment: str) -> dict[str, Any]:
        return next(subnet for subnet in self.subnets.values() if subnet["segment_id"] == segment)

    def _free(self, subnet: dict[str, Any]) -> Any:
        taken = {
            ip["ip_address"] for port in self.ports.values() for ip in port["fixed_ips"]
            if ip["subnet_id"] == subnet["id"]
        }  # fmt: skip
        for pool in subnet["allocation_pools"]:
            for number in range(int(IPv4Address(pool["start"])), int(IPv4Address(pool["end"])) + 1):
                if (text := str(IPv4Address(number))) not in taken:
                    yield text

    def _fixed_ip(self, segment: str, address: str) -> dict[str, str]:
        subnet = self._subnet(segment)
        address = address or next(self._free(subnet), "")
        if not address:
            raise NoAddress(segment)
        return {"subnet_id": subnet["id"], "ip_address": address}

    def _time(self) -> str:
        self._now += 1
        return f"2026-01-01T{self._now // 3600:02}:{self._now // 60 % 60:02}:{self._now % 60:02}Z"

    # In this process.

    def _check(self) -> None:
        if self.is_down:
            raise NeutronUnavailable("Neutron is away")

    def who_asks(self) -> str:
        return f"the user roost, roles: {', '.join(sorted(self.roles))}"

    def forget_token(self) -> None:
        self.tokens_forgotten += 1

    def _may(self, right: str) -> bool:
        return bool(self.roles & self.policies[right])

    def _shown(self, name: str) -> list[dict[str, Any]]:
        """The objects of a list that who asks may see, with the members that they may see."""
        documents: dict[str, list[dict[str, Any]]] = {
            "networks": [{"id": uuid, "name": name, "project_id": "p"} for uuid, name in self.networks.items()],
            "segments": [{"id": uuid, "network_id": network} for uuid, network in self.segments.items()],
            "subnets": [*self.subnets.values()], "ports": [*self.ports.values()],
            "network_ip_availabilities": self._counts(),
        }  # fmt: skip
        shown = documents[name]
        right = "get_network_ip_availability" if name == "network_ip_availabilities" else f"get_{name[:-1]}"
        if not self._may(right):
            shown = [one for one in shown if name in OWNED and one.get("project_id") == self.project]
        if name == "subnets" and not self._may(GET_SEGMENT_ID):
            shown = [{key: value for key, value in one.items() if key != "segment_id"} for one in shown]
        return shown

    def _counts(self) -> list[dict[str, Any]]:
        used = Counter(ip["subnet_id"] for port in self.ports.values() for ip in port["fixed_ips"])
        by_network: dict[str, list[dict[str, Any]]] = {network: [] for network in self.networks}
        for subnet in self.subnets.values():
            by_network[subnet["network_id"]].append(
                {"subnet_id": subnet["id"], "ip_version": subnet["ip_version"], "used_ips": used[subnet["id"]]}
            )
        return [{"network_id": network, "subnet_ip_availability": subnets} for network, subnets in by_network.items()]

    async def list_networks(self) -> list[NeutronNetwork]:
        self._check()
        return [NeutronNetwork(**document) for document in self._shown("networks")]

    async def list_segments(self) -> list[NeutronSegment]:
        self._check()
        return [NeutronSegment(**document) for document in self._shown("segments")]

    async def list_subnets(self) -> list[NeutronSubnet]:
        self._check()
        shown = [subnet for subnet in self._shown("subnets") if subnet["ip_version"] == 4]
        if any("segment_id" not in subnet for subnet in shown):
            raise NeutronPartial("Neutron does not say on which segments its subnets are", GET_SEGMENT, GET_SEGMENT_ID)
        return [
            NeutronSubnet(
                id=subnet["id"], segment_id=subnet["segment_id"] or "", gateway_ip=subnet["gateway_ip"],
                enable_dhcp=subnet["enable_dhcp"],
                pools=tuple((pool["start"], pool["end"]) for pool in subnet["allocation_pools"]),
                network_id=subnet["network_id"], name=subnet["name"], cidr=subnet["cidr"],
                service_types=tuple(subnet["service_types"]),
            )
            for subnet in shown
        ]  # fmt: skip

    async def count_addresses(self, network_ids: Sequence[str]) -> dict[str, dict[str, int]]:
        self._check()
        return {
            network["network_id"]: {
                subnet["subnet_id"]: subnet["used_ips"]
                for subnet in network["subnet_ip_availability"]
                if subnet["ip_version"] == 4
            }
            for network in self._shown("network_ip_availabilities")
            if network["network_id"] in network_ids
        }

    async def list_ports(
        self, *, changed_since: str = "", ids: Sequence[str] = (), device_id: str = ""
    ) -> PortPage | None:
        self._check()
        self.devices_asked += [device_id] * bool(device_id)
        if self.is_slow:
            await asyncio.Event().wait()
        if changed_since and not self.tells_changes:
            return None
        ports = [
            port
            for port in self._shown("ports")
            if port["updated_at"] >= changed_since
            and (not ids or port["id"] in ids)
            and device_id in ("", port["device_id"])
        ]
        return PortPage(
            [
                NeutronPort(
                    id=port["id"], network_id=port["network_id"], device_id=port["device_id"],
                    device_owner=port["device_owner"], project_id=port["project_id"],
                    addresses=tuple((ip["subnet_id"], ip["ip_address"]) for ip in port["fixed_ips"]),
                )
                for port in ports
            ],
            max((port["updated_at"] for port in ports), default=""),
        )  # fmt: skip

    # Over HTTP.

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Serve on a port of its own for as long as the block runs."""
        app = web.Application()
        app.router.add_get("/v2.0/{name}", self._list)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=self.tls).start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await runner.cleanup()

    async def _list(self, request: web.Request) -> web.Response:
        name, query = request.match_info["name"], request.query
        self.asked.append((name, dict(query)))
        if self.is_down:
            return web.json_response({}, status=503)
        if self.token is not None and request.headers.get("X-Auth-Token") != self.token:
            return web.json_response({}, status=401)
        if len(query.getall("id", ())) > 40:
            return web.json_response({}, status=414)
        if "changed_since" in query and not self.tells_changes:
            return web.json_response({"NeutronError": {"type": "HTTPBadRequest"}}, status=400)
        if name == "network-ip-availabilities":
            counts = self._shown("network_ip_availabilities")
            asked = query.getall("network_id")
            some = [one for one in counts if one["network_id"] in asked][: self.pages_max]
            return web.json_response({"network_ip_availabilities": some})
        links: list[dict[str, str]] = []
        items = sorted(self._shown(name), key=lambda item: str(item["id"]))
        if "ip_version" in query:
            items = [item for item in items if str(item["ip_version"]) == query["ip_version"]]
        if "id" in query:
            items = [item for item in items if item["id"] in query.getall("id")]
        if "device_id" in query:
            items = [item for item in items if item["device_id"] in query.getall("device_id")]
        if "changed_since" in query:
            items = [item for item in items if item["updated_at"] >= query["changed_since"]]
        if self.pages:
            ids = [item["id"] for item in items]
            if "marker" in query and query["marker"] not in ids:
                return web.json_response({"NeutronError": {"type": "NotFound"}}, status=404)
            start = ids.index(query["marker"]) + 1 if "marker" in query else 0
            after = start + min(int(query["limit"]), self.pages_max)
            links = [{"rel": "next", "href": "x"}] if after < len(items) else []
            items = items[start:after]
        fields = query.getall("fields")
        shown = [{key: item[key] for key in fields if key in item} for item in items]
        return web.json_response({name: shown, f"{name}_links": links})
