"""A network service on an empty database, with the real ledger and a compute service reduced to what it must say."""

from collections.abc import Mapping, Sequence

import pytest
from tests.network.cloud import Cloud
from tests.placements import open_placement

from roost.clients.local_network import LocalNetwork
from roost.network.service import Networks
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.database import Database
from roost.platform.env import Env
from roost.seams.compute import HostAggregateMembers, HostAggregateState, HostHeartbeat, PortsChange, ServerState


class MemberCompute:
    """ComputeClient in memory: host aggregates and their members, and the servers that a test says there are."""

    def __init__(self) -> None:
        self.aggregates: dict[str, str] = {}
        self.members: dict[str, set[str]] = {}
        self.existing: set[str] = set()
        self.unfinished: set[str] = set()
        self.told: list[PortsChange] = []
        self.behind: set[str] = set()
        self.heartbeats: dict[str, HostHeartbeat] = {}
        self.recovery: str | None = None

    async def ensure_host_aggregates(self, aggregates: Sequence[HostAggregateState]) -> None:
        for aggregate in aggregates:
            self.aggregates.setdefault(aggregate.uuid, aggregate.name)
            self.members.setdefault(aggregate.uuid, set())

    async def delete_host_aggregates(self, uuids: Sequence[str]) -> None:
        for uuid in uuids:
            self.aggregates.pop(uuid, None)
            self.members.pop(uuid, None)

    async def set_segment_aggregates(
        self, aggregates_by_host: Mapping[str, frozenset[str]], *, managed: frozenset[str]
    ) -> None:
        for host, wanted in aggregates_by_host.items():
            for uuid in managed & set(self.members):
                (self.members[uuid].add if uuid in wanted else self.members[uuid].discard)(host)

    async def list_host_aggregates(self) -> dict[str, HostAggregateMembers]:
        return {
            uuid: HostAggregateMembers(name, frozenset(self.members[uuid])) for uuid, name in self.aggregates.items()
        }

    async def list_hosts_behind(self) -> set[str]:
        return self.behind

    async def get_heartbeats(self, hosts: Sequence[str]) -> dict[str, HostHeartbeat]:
        return {name: self.heartbeats[name] for name in hosts if name in self.heartbeats}

    async def tell_recovery(self) -> str | None:
        return self.recovery

    async def ports_changed(self, changes: Sequence[PortsChange]) -> None:
        self.told += changes

    async def get_server_states(self, server_ids: Sequence[str]) -> dict[str, ServerState]:
        known = (self.existing | self.unfinished) & set(server_ids)
        return {server: ServerState(claiming=True, unfinished=server in self.unfinished) for server in known}


@pytest.fixture
async def compute() -> MemberCompute:
    return MemberCompute()


@pytest.fixture
async def networks(database: Database, compute: MemberCompute) -> Networks:
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    return Networks(database=database, env=Env(), placement=await open_placement(ledger), compute=compute)


@pytest.fixture
def cloud(networks: Networks, compute: MemberCompute) -> Cloud:
    return Cloud(networks, LocalNetwork(networks), compute)
