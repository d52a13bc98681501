"""A cloud of an unmodified Nova and a Neutron around one ledger, as rounds with Neutron find it."""

from dataclasses import dataclass, field

from tests.fake_neutron import FakeNeutron
from tests.placement.calls import Api
from tests.placement.neutron import Notifier
from tests.placement.nova import Nova, Segment, a_segment, clause

from roost.placement.rules.neutron_sight import Sight
from roost.placement.service import claims as claims_service
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.service.neutron import Round, read_address_figures, run_round
from roost.placement.service.neutron_view import NeutronView
from roost.placement.settings import PlacementSettings
from roost.platform.database import Database
from roost.seams.placement import IPV4_ADDRESS


@dataclass
class Cloud:
    """One routed network; others: another one's segments. notifier: Neutron's, which publishes them."""

    ledger: Ledger
    nova: Nova
    neutron: FakeNeutron
    notifier: Notifier
    segments: list[Segment]
    others: list[Segment] = field(default_factory=list)
    view: NeutronView = field(default_factory=lambda: NeutronView(full_s=0.0))

    @classmethod
    async def make(cls, database: Database, *sizes: tuple[int, int]) -> "Cloud":
        """sizes: (addresses, hosts) of each segment."""
        ledger = Ledger(database, settings=PlacementSettings(implied_addresses=True))
        await sync_standard_names(ledger)
        segments = [a_segment(addresses, hosts) for addresses, hosts in sizes]
        nova = Nova(Api(ledger))
        cloud = cls(ledger, nova, FakeNeutron(), Notifier(nova), segments)
        for segment in segments:
            await claims_service.ensure_providers(ledger, segment.host_states())
        await cloud.publish(*segments)
        await cloud.round()
        return cloud

    async def publish(self, *segments: Segment) -> None:
        """Have Neutron make a network with these segments, on hosts that there are, and tell of it."""
        self.neutron.add_network({segment.uuid: segment.addresses for segment in segments})
        assert await self.notifier.send(*map(self.notifier.subnet, segments))

    async def add_network(self, *sizes: int) -> None:
        """Another routed network, each of its segments on the hosts of one of the first network's."""
        pairs = zip(self.segments, sizes, strict=True)
        self.others = [Segment(addresses, first.hosts) for first, addresses in pairs]
        await self.publish(*self.others)
        await self.round()

    async def sight(self) -> Sight:
        """What is kept of the last round's."""
        figures, _ = await read_address_figures(self.ledger)
        return figures.sight

    async def round(self) -> Round:
        return await run_round(self.ledger, self.neutron, self.view)

    def segment_of(self, server: str) -> Segment:
        return next(segment for segment in self.segments if self.nova.hosts[server] in segment.hosts)

    def network(self) -> str:
        return clause(*self.segments)

    async def boot(self, count: int = 1, nics: int = 1, *, on_both: bool = False, host: str = "") -> list[str]:
        """Boot by network; each server's ports are made on its host. Raises NoAddress where that is full.

        on_both: with a NIC on the other network too. host: named by an administrator.
        """
        clauses = [self.network()] * nics + [clause(*self.others)] * on_both + [f"in_tree={host}"] * bool(host)
        servers = await self.nova.boot(count, *clauses)
        for server in servers:
            for _ in range(nics):
                self.neutron.add_port(self.segment_of(server).uuid, server)
            if on_both:
                other = self.others[self.segments.index(self.segment_of(server))]
                self.neutron.add_port(other.uuid, server)
        return servers

    def pinned(self, server: str) -> list[str]:
        """The clauses of a server whose ports have their addresses."""
        by_uuid = {segment.uuid: segment for segment in [*self.segments, *self.others]}
        return [clause(by_uuid[uuid]) for uuid in self.neutron.segments_of(server)]

    async def delete(self, server: str) -> None:
        self.neutron.delete_ports_of(server)
        if (await self.nova.claim_of(server))["allocations"]:
            await self.nova.delete(server)

    async def assert_agrees(self) -> None:
        for segment in [*self.segments, *self.others]:
            _, body = await self.nova.api.call("GET", f"/resource_providers/{segment.uuid}/inventories")
            inventory, used = body["inventories"][IPV4_ADDRESS], await self.nova.used(segment)
            assert used == self.neutron.served(segment.uuid)
            assert inventory["total"] - inventory["reserved"] - used == self.neutron.free(segment.uuid)
