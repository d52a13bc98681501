"""Small clouds for the tests of the network service."""

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tests.invariants import assert_books_agree

from roost.clients.local_network import LocalNetwork
from roost.network.model.networks import Network, NetworkRequest, Segment, SegmentRequest, Subnet, SubnetRequest
from roost.network.rules.subnets import plan_subnet
from roost.network.service import Networks, networks, subnets
from roost.platform.env import Env
from roost.seams.network import Bound, EnsuredPorts, Nic, Port, PortBind, ServerNics
from roost.seams.placement import IPV4_ADDRESS, Claimed, ClaimGroup, ConsumerClaim

NEVER: Any = Env().now()
PROJECT = "project"


@dataclass
class Cloud:
    """The service, its client and its neighbours."""

    networks: Networks
    client: LocalNetwork
    compute: Any

    async def plain(self, cidr: str = "10.0.0.0/24", physical_network: str | None = None, **pools: Any) -> Network:
        network = await self.network(physical_network=physical_network)
        await self.subnet(network, cidr, **pools)
        return network

    async def network(self, *, physical_network: str | None = None, flat: bool = False) -> Network:
        wanted = NetworkRequest(
            name="net", project_id=PROJECT, description="", network_type=None, flat=flat,
            physical_network=physical_network, segmentation_id=None,
        )  # fmt: skip
        return (await networks.create_networks(self.networks, [wanted]))[0]

    async def segment(self, network: Network, physical_network: str | None) -> Segment:
        wanted = SegmentRequest(
            network_id=network.id, name=physical_network, description="", network_type="vlan",
            physical_network=physical_network, segmentation_id=None,
        )  # fmt: skip
        return (await networks.create_segments(self.networks, [wanted]))[0]

    async def subnet(
        self,
        network: Network,
        cidr: str,
        segment: Segment | None = None,
        pools: list[tuple[str, str]] | None = None,
        **more: Any,
    ) -> Subnet:
        """more: other fields of a SubnetRequest, such as ipv6_ra_mode."""
        plan = plan_subnet(cidr, pools=pools)
        wanted = SubnetRequest(
            network_id=network.id, segment_id=segment.id if segment else None, description="",
            project_id=PROJECT, ip_version=6 if ":" in cidr else 4, cidr=cidr, gateway_ip=plan.gateway_ip,
            pools=plan.pools, **{"name": "", "enable_dhcp": True, **more},
        )  # fmt: skip
        return (await subnets.create_subnets(self.networks, [wanted]))[0]

    async def routed(self, *cidrs: str) -> tuple[Network, list[Segment]]:
        """A network with a segment `rack<n>` for each cidr, and a host `h<n>` on it."""
        network = await self.network()
        segments = []
        for number, cidr in enumerate(cidrs, 1):
            segment = await self.segment(network, f"rack{number}")
            await self.subnet(network, cidr, segment)
            segments.append(segment)
        await self.client.set_hosts({f"h{number}": [f"rack{number}"] for number in range(1, len(cidrs) + 1)})
        return network, segments

    async def flat(self, **cidr_by_cell: str) -> Network:
        """A flat network of the legacy kind with a pool in each of these cells."""
        network = await self.network(flat=True)
        for cell, cidr in cidr_by_cell.items():
            await self.subnet(network, cidr, cell=cell)
        return network

    def server(self, *nics: Nic) -> ServerNics:
        server_id = str(uuid.uuid4())
        self.compute.unfinished.add(server_id)
        return ServerNics(server_id=server_id, project_id=PROJECT, nics=nics)

    async def ensure(self, *servers: ServerNics) -> list[Port]:
        answers = await self.client.ensure_ports(servers)
        assert all(isinstance(answer, EnsuredPorts) for answer in answers), answers
        return [port for answer in answers for port in answer.ports]

    async def claim(self, port_ids: list[str], provider_uuid: str, classes: tuple[str, ...] = (IPV4_ADDRESS,)) -> bool:
        """As the conductor does."""
        consumers = tuple(
            ConsumerClaim(
                consumer_uuid=port_id, generation=None, consumer_type="PORT", project_id=PROJECT, user_id=PROJECT,
                allocations={provider_uuid: dict.fromkeys(classes, 1)},
            )
            for port_id in port_ids
        )  # fmt: skip
        return isinstance((await self.networks.placement.claim([ClaimGroup(consumers)]))[0], Claimed)

    async def bind(self, server: ServerNics, port: Port, host: str, provider_uuid: str | None) -> Bound:
        wanted = PortBind(
            port_id=port.id, server_id=server.server_id, host=host, provider_uuid=provider_uuid, revision=port.revision
        )
        (answer,) = await self.client.bind_ports([wanted])
        assert isinstance(answer, Bound), answer
        return answer

    async def used(self, provider_uuid: str, resource_class: str = IPV4_ADDRESS) -> tuple[int, int]:
        """(capacity, used) of a provider."""
        return (await self.networks.placement.list_usages([provider_uuid]))[provider_uuid][resource_class]


async def assert_sound(cloud: Cloud) -> None:
    """Fail with everything that never may be, whoever is at work."""
    await assert_books_agree(cloud.networks.database, settled=False)


async def execute(cloud: Cloud, sql: str, *arguments: object) -> None:
    """SQL of a test's own on the network's database."""
    async with cloud.networks.database.transaction() as tx:
        await tx.execute(sql, *arguments)


@contextmanager
def counting(cloud: Cloud) -> Iterator[list[str]]:
    """The network's own statements while it lasts."""
    seen: list[str] = []
    database = cloud.networks.database
    transaction, connection = database.transaction, database.connection

    def note(query: Any) -> None:
        if query.query.lstrip().startswith("-- network."):
            seen.append(query.query)

    @asynccontextmanager
    async def watched(held: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        async with held as watching:
            with watching.query_logger(note):
                yield watching

    with (
        patch.object(database, "transaction", lambda *, snapshot=False: watched(transaction(snapshot=snapshot))),
        patch.object(database, "connection", lambda: watched(connection())),
    ):
        yield seen
