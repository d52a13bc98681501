"""Nova's part of the conversation with Placement, as an unmodified Nova 34 has it.

Hosts are chosen by free memory, the first of the list where it is equal: whoever has made a small segment's hosts the
emptiest has the worst case.
Source: captured from Nova 34, with query_placement_for_routed_network_aggregates; its scheduler/client/report.py.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from tests.placement.calls import Api
from tests.placement.providers import a_uuid

from roost.placement.service import claims as claims_service
from roost.placement.service.ledger import Ledger
from roost.platform.errors import DatabaseUnavailable
from roost.seams.placement import IPV4_ADDRESS, MEMORY_MB, SEGMENT_NAME, VCPU, Inventory, ProviderState

ASKED = "limit=1000&resources=MEMORY_MB:64,VCPU:1&root_required=OWNER_NOVA,!COMPUTE_STATUS_DISABLED"
SERVER_MB = 64


@dataclass
class Segment:
    """A segment with the hosts on it, as Neutron publishes it: its provider does not share."""

    addresses: int
    hosts: list[str]
    uuid: str = field(default_factory=a_uuid)
    aggregate: str = field(default_factory=a_uuid)

    def states(self, *, memory_mb: int = 64 * 1024) -> list[ProviderState]:
        """Return the providers, those of its hosts after its own."""
        own = ProviderState(
            uuid=self.uuid, name=SEGMENT_NAME.format(self.uuid),
            inventories={IPV4_ADDRESS: Inventory(self.addresses + 1, 1, 1, 1)},
            placement_aggregates=frozenset({self.aggregate}),
        )  # fmt: skip
        return [own, *self.host_states(self.aggregate, memory_mb=memory_mb)]

    def host_states(self, *aggregates: str, memory_mb: int = 64 * 1024) -> list[ProviderState]:
        """Return the providers of its hosts; in no aggregate as long as Neutron has not told Nova of the segment."""
        return [
            ProviderState(
                uuid=host, name=f"host {host}", traits=frozenset({"OWNER_NOVA"}),
                inventories={VCPU: Inventory(1024), MEMORY_MB: Inventory(memory_mb)},
                placement_aggregates=frozenset(aggregates),
            )
            for host in self.hosts
        ]  # fmt: skip


def a_segment(addresses: int, hosts: int) -> Segment:
    return Segment(addresses, [a_uuid() for _ in range(hosts)])


def clause(*segments: Segment) -> str:
    """Return what Nova's request filter adds for a NIC: the aggregates of a network, or of a port's segment."""
    return "member_of=in:" + ",".join(sorted(segment.aggregate for segment in segments))


async def publish(ledger: Ledger, *segments: Segment) -> None:
    for segment in segments:
        await claims_service.ensure_providers(ledger, segment.states())


GLOBAL_ID: ContextVar[str] = ContextVar("global_id")
"""Nova's own id of the request that the running task works for."""


@dataclass(frozen=True)
class Sent:
    """A request that Nova has sent, and what it was answered; its path is in Nova's encoding."""

    method: str
    path: str
    version: str | None
    global_id: str
    status: int


@dataclass
class Nova:
    """One Nova. hosts: server -> its host. refused: claims that were answered 409. sent: all its requests.

    aggregates: placement aggregate -> hosts, of the host aggregates that Neutron had it make.
    """

    api: Api
    hosts: dict[str, str] = field(default_factory=dict)
    refused: int = 0
    sent: list[Sent] = field(default_factory=list)
    aggregates: dict[str, set[str]] = field(default_factory=dict)

    # What users and operators want; each is one request to Nova, of one id.

    async def boot(self, count: int, *clauses: str, servers: Sequence[str] = ()) -> list[str]:
        """Boot servers by one request; none of them if one finds no host."""
        _begin()
        requests = await self._candidates(*clauses)
        free = await self._free(requests)
        booted: list[str] = []
        for number in range(count):
            server = servers[number] if servers else a_uuid()
            host = await self._place(server, requests, free)
            if host is None:
                for earlier in booted:
                    await self._delete(earlier)
                return []
            free[host] -= SERVER_MB
            self.hosts[server] = host
            booted.append(server)
        return booted

    async def delete(self, server: str) -> None:
        """Delete or shelve-offload a server; one that is shelved has nothing to delete."""
        _begin()
        await self._delete(server)

    async def migrate(self, server: str, *clauses: str) -> str | None:
        """Begin a cold migration or resize; returns the migration's UUID, None where there is no host."""
        _begin()
        migration = a_uuid()
        await self._read(server)
        await self._move(server, migration)
        requests = await self._candidates(*clauses)
        requests.pop(self.hosts[server], None)
        host = await self._place(server, requests, await self._free(requests))
        if host is None:
            await self._move(migration, server)
            return None
        self.hosts[server] = host
        return migration

    async def confirm(self, migration: str) -> None:
        """Have the migration hold nothing any more: Nova does not delete its claim, it sends an empty one."""
        _begin()
        await self._put(migration, {**await self._read(migration), "allocations": {}})

    async def revert(self, server: str, migration: str) -> None:
        _begin()
        self.hosts[server] = next(iter(await self._move(migration, server)))

    async def evacuate(self, server: str, *clauses: str) -> str | None:
        """Claim another host beside the old one, and then drop the old one; returns the host."""
        _begin()
        requests, old = await self._candidates(*clauses), self.hosts[server]
        requests.pop(old, None)
        host = await self._place(server, requests, await self._free(requests))
        if host is None:
            return None
        claim = await self._read(server)
        _, body = await self._call("GET", f"/resource_providers?in_tree={old}", version="1.14")
        tree = {provider["uuid"] for provider in body["resource_providers"]}
        rest = {provider: entry for provider, entry in claim["allocations"].items() if provider not in tree}
        await self._put(server, {**claim, "allocations": rest})
        self.hosts[server] = host
        return host

    async def candidates(self, *clauses: str) -> dict[str, dict[str, Any]]:
        """Return host -> the first allocation request for it."""
        _begin()
        return await self._candidates(*clauses)

    # What Neutron wants of its host aggregates.

    async def add_host(self, aggregate: str, host: str) -> None:
        _begin()
        self.aggregates[aggregate].add(host)
        await self._set_aggregates(host, lambda before: before | {aggregate})

    async def remove_host(self, aggregate: str, host: str) -> None:
        """Raises KeyError where it is no member."""
        _begin()
        self.aggregates[aggregate].remove(host)
        await self._set_aggregates(host, lambda before: before - {aggregate})

    # What tests look at.

    async def claim_of(self, consumer: str) -> dict[str, Any]:
        status, body = await self.api.call("GET", f"/allocations/{consumer}", version="1.36")
        assert status == 200
        return dict(body)

    async def held(self, consumer: str) -> dict[str, int]:
        """Return provider -> the addresses that a consumer holds of it."""
        allocations = (await self.claim_of(consumer))["allocations"]
        amounts = {provider: entry["resources"].get(IPV4_ADDRESS, 0) for provider, entry in allocations.items()}
        return {provider: amount for provider, amount in amounts.items() if amount}

    async def used(self, segment: Segment) -> int:
        status, body = await self.api.call("GET", f"/resource_providers/{segment.uuid}/usages", version="1.9")
        if status == 503:
            raise DatabaseUnavailable(body)
        assert status == 200, body
        return int(body["usages"].get(IPV4_ADDRESS, 0))

    # What it says.

    async def _call(self, method: str, path: str, body: Any = None, *, version: str | None) -> tuple[int, Any]:
        headers = {"Accept": "application/json", "X-Openstack-Request-Id": GLOBAL_ID.get()}
        status, answer = await self.api.call(method, path, body, version=version, headers=headers)
        self.sent.append(Sent(method, path, version, GLOBAL_ID.get(), status))
        return status, answer

    async def _candidates(self, *clauses: str) -> dict[str, dict[str, Any]]:
        pairs = sorted((*parse_qsl(ASKED), *(pair for clause in clauses for pair in parse_qsl(clause))))
        status, body = await self._call("GET", f"/allocation_candidates?{urlencode(pairs)}", version="1.36")
        assert status == 200, body
        by_host: dict[str, dict[str, Any]] = {}
        for request in body["allocation_requests"]:
            for provider in request["allocations"]:
                by_host.setdefault(provider, request)
        summaries = body["provider_summaries"]
        return {host: request for host, request in by_host.items() if MEMORY_MB in summaries[host]["resources"]}

    async def _free(self, requests: dict[str, dict[str, Any]]) -> dict[str, int]:
        """Return the free memory of hosts as Nova knows it, whatever the ledger says."""
        on: dict[str, int] = {}
        for host in self.hosts.values():
            on[host] = on.get(host, 0) + 1
        return {host: 64 * 1024 - SERVER_MB * on.get(host, 0) for host in requests}

    async def _place(self, server: str, requests: dict[str, dict[str, Any]], free: dict[str, int]) -> str | None:
        """Claim the best host, and at every refusal the next one."""
        for host in sorted(requests, key=lambda host: -free[host]):
            status, body = await self._claim(server, requests[host])
            if status == 204:
                return host
            assert status == 409, body
            assert body["errors"][0]["code"] != "placement.concurrent_update", "Nova would try this host again"
            self.refused += 1
        return None

    async def _claim(self, server: str, request: dict[str, Any]) -> tuple[int, Any]:
        """Send the candidate as it came, or, of a server that has a claim, what that has and the candidate adds."""
        claim = await self._read(server)
        payload, generation = request, None
        if claim["allocations"]:
            kept = {uuid: {"resources": entry["resources"]} for uuid, entry in claim["allocations"].items()}
            payload, generation = {"allocations": request["allocations"] | kept}, claim["consumer_generation"]
        payload = {**payload, "project_id": "p", "user_id": "u", "consumer_generation": generation}
        return await self._call("PUT", f"/allocations/{server}", payload, version="1.36")

    async def _read(self, consumer: str) -> dict[str, Any]:
        status, body = await self._call("GET", f"/allocations/{consumer}", version="1.28")
        assert status == 200, body
        return dict(body)

    async def _put(self, consumer: str, claim: dict[str, Any]) -> None:
        """Send a claim as it was read, but for what was taken out."""
        status, body = await self._call("PUT", f"/allocations/{consumer}", claim, version="1.28")
        assert status == 204, body

    async def _move(self, source: str, target: str) -> dict[str, Any]:
        """Give all that one consumer has to another, which loses what it had; returns it."""
        claim, before = await self._read(source), await self._read(target)
        owner = {"project_id": claim["project_id"], "user_id": claim["user_id"]}
        body = {
            source: {"allocations": {}, **owner, "consumer_generation": claim["consumer_generation"]},
            target: {
                "allocations": claim["allocations"], **owner,
                "consumer_generation": before.get("consumer_generation"),
            },
        }  # fmt: skip
        status, answer = await self._call("POST", "/allocations", body, version="1.28")
        assert status == 204, answer
        return dict(claim["allocations"])

    async def _delete(self, server: str) -> None:
        status_wanted = 204 if server in self.hosts else 404
        status, body = await self._call("DELETE", f"/allocations/{server}", version=None)
        assert status == status_wanted, body
        self.hosts.pop(server, None)

    async def _set_aggregates(self, host: str, change: Callable[[set[str]], set[str]]) -> None:
        """Add to what there is, or take from it; tried four times, as claims on the host change its generation."""
        path = f"/resource_providers/{host}/aggregates"
        status = 409
        for _ in range(4):
            if status == 409:
                _, body = await self._call("GET", path, version="1.19")
                body["aggregates"] = sorted(change(set(body["aggregates"])))
                status, body = await self._call("PUT", path, body, version="1.19")
        assert status == 200, body


def _begin() -> None:
    GLOBAL_ID.set(f"req-{a_uuid()}")
