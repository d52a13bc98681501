"""Nova's part of the conversation with Placement, as an unmodified Nova 34 has it, on a ledger in this process.

Hosts are chosen by free memory, the first of the list where it is equal: whoever has made a small segment's hosts the
emptiest has the worst case. Source: captured from Nova 34, with query_placement_for_routed_network_aggregates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.placement.calls import Api
from tests.placement.providers import a_uuid

from roost.placement.service import claims as claims_service
from roost.placement.service.ledger import Ledger
from roost.platform.errors import DatabaseUnavailable
from roost.seams.placement import IPV4_ADDRESS, MEMORY_MB, VCPU, Inventory, ProviderState

ASKED = "limit=1000&resources=MEMORY_MB:64,VCPU:1&root_required=OWNER_NOVA,!COMPUTE_STATUS_DISABLED"
SERVER_MB = 64


@dataclass
class Segment:
    """A segment with the hosts on it, as Neutron publishes it: its provider does not share."""

    addresses: int
    hosts: list[str]
    uuid: str = field(default_factory=a_uuid)
    aggregate: str = field(default_factory=a_uuid)

    def states(self, *others: "Segment", memory_mb: int = 64 * 1024) -> list[ProviderState]:
        """Return the providers; the hosts are in the aggregates of the others too."""
        inventory = Inventory(self.addresses + 1, 1, 1, 1)
        name = f"Neutron segment id {self.uuid}"
        return [
            ProviderState(
                uuid=self.uuid, name=name, inventories={IPV4_ADDRESS: inventory},
                placement_aggregates=frozenset({self.aggregate}),
            ),
            *(
                ProviderState(
                    uuid=host, name=f"host {host}", traits=frozenset({"OWNER_NOVA"}),
                    inventories={VCPU: Inventory(1024), MEMORY_MB: Inventory(memory_mb)},
                    placement_aggregates=frozenset({self.aggregate, *(other.aggregate for other in others)}),
                )
                for host in self.hosts
            ),
        ]  # fmt: skip


def a_segment(addresses: int, hosts: int) -> Segment:
    return Segment(addresses, [a_uuid() for _ in range(hosts)])


def clause(*segments: Segment) -> str:
    """Return what Nova's request filter adds for a NIC: the aggregates of a network, or of a port's segment."""
    return "member_of=in:" + ",".join(segment.aggregate for segment in segments)


async def publish(ledger: Ledger, *segments: Segment) -> None:
    for segment in segments:
        await claims_service.ensure_providers(ledger, segment.states())


@dataclass
class Nova:
    """One Nova. hosts: server -> its host. refused: claims that were answered 409."""

    api: Api
    hosts: dict[str, str] = field(default_factory=dict)
    refused: int = 0

    async def candidates(self, *clauses: str) -> dict[str, dict[str, Any]]:
        """Return host -> the first allocation request for it."""
        query = "&".join((ASKED, *clauses))
        status, body = await self.api.call("GET", f"/allocation_candidates?{query}", version="1.36")
        assert status == 200, body
        by_host: dict[str, dict[str, Any]] = {}
        for request in body["allocation_requests"]:
            for provider in request["allocations"]:
                by_host.setdefault(provider, request)
        summaries = body["provider_summaries"]
        return {host: request for host, request in by_host.items() if MEMORY_MB in summaries[host]["resources"]}

    async def boot(self, count: int, *clauses: str, servers: Sequence[str] = ()) -> list[str]:
        """Boot servers by one request; none of them if one finds no host."""
        requests = await self.candidates(*clauses)
        free = await self._free(requests)
        booted: list[str] = []
        for number in range(count):
            server = servers[number] if servers else a_uuid()
            host = await self._place(server, requests, free)
            if host is None:
                for earlier in booted:
                    await self.delete(earlier)
                return []
            free[host] -= SERVER_MB
            self.hosts[server] = host
            booted.append(server)
        return booted

    async def delete(self, server: str) -> None:
        status, body = await self.api.call("DELETE", f"/allocations/{server}", version="1.36")
        assert status == 204, body
        self.hosts.pop(server, None)

    async def migrate(self, server: str, *clauses: str) -> str | None:
        """Begin a cold migration or resize; returns the migration's UUID, None where there is no host."""
        migration = a_uuid()
        claim = await self.claim_of(server)
        await self._swap({migration: (claim, None), server: ({}, claim["consumer_generation"])})
        requests = await self.candidates(*clauses)
        requests.pop(self.hosts[server], None)
        host = await self._place(server, requests, await self._free(requests))
        if host is None:
            await self.revert(server, migration)
            return None
        self.hosts[server] = host
        return migration

    async def confirm(self, migration: str) -> None:
        status, body = await self.api.call("DELETE", f"/allocations/{migration}", version="1.36")
        assert status == 204, body

    async def revert(self, server: str, migration: str) -> None:
        kept, now = await self.claim_of(migration), await self.claim_of(server)
        generation = now.get("consumer_generation")
        await self._swap({server: (kept, generation), migration: ({}, kept["consumer_generation"])})
        self.hosts[server] = next(iter(kept["allocations"]))

    async def evacuate(self, server: str, *clauses: str) -> str | None:
        """Claim another host beside the old one, and then drop the old one; returns the host."""
        requests, old = await self.candidates(*clauses), self.hosts[server]
        requests.pop(old, None)
        host = await self._place(server, requests, await self._free(requests))
        if host is None:
            return None
        claim = await self.claim_of(server)
        rest = {provider: held for provider, held in claim["allocations"].items() if provider != old}
        status, body = await self._put(server, rest, claim["consumer_generation"], version="1.28")
        assert status == 204, body
        self.hosts[server] = host
        return host

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

    async def _free(self, requests: dict[str, dict[str, Any]]) -> dict[str, int]:
        """Return the free memory of hosts as Nova knows it, whatever the ledger says."""
        on: dict[str, int] = {}
        for host in self.hosts.values():
            on[host] = on.get(host, 0) + 1
        return {host: 64 * 1024 - SERVER_MB * on.get(host, 0) for host in requests}

    async def _place(self, server: str, requests: dict[str, dict[str, Any]], free: dict[str, int]) -> str | None:
        """Claim the best host, and at every refusal the next one."""
        for host in sorted(requests, key=lambda host: -free[host]):
            held = await self.claim_of(server)
            allocations = {
                provider: {"resources": dict(entry["resources"])}
                for provider, entry in requests[host]["allocations"].items()
            }
            for provider, entry in held["allocations"].items():  # _move_operation_alloc_request
                allocations.setdefault(provider, {"resources": entry["resources"]})
            generation = held.get("consumer_generation") if held["allocations"] else None
            status, body = await self._put(server, allocations, generation, mappings=requests[host]["mappings"])
            if status == 204:
                return host
            assert status == 409, body
            self.refused += 1
        return None

    async def _put(
        self, server: str, allocations: Any, generation: int | None, *, version: str = "1.36", mappings: Any = None
    ) -> tuple[int, Any]:
        body = {
            "allocations": {provider: {"resources": entry["resources"]} for provider, entry in allocations.items()},
            "project_id": "p", "user_id": "u", "consumer_generation": generation,
        }  # fmt: skip
        if mappings is not None:
            body["mappings"] = mappings
        return await self.api.call("PUT", f"/allocations/{server}", body, version=version)

    async def _swap(self, claims: dict[str, tuple[dict[str, Any], int | None]]) -> None:
        body = {
            consumer: {
                "allocations": {
                    provider: {"resources": entry["resources"]}
                    for provider, entry in claim.get("allocations", {}).items()
                },
                "project_id": "p", "user_id": "u", "consumer_generation": generation,
            }
            for consumer, (claim, generation) in claims.items()
        }  # fmt: skip
        status, answer = await self.api.call("POST", "/allocations", body, version="1.28")
        assert status == 204, answer
