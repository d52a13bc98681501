"""What a poller knows of a Neutron from round to round, so that a round reads little."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from roost.placement.rules.neutron import NeutronState, Seen, list_needs, new_state, sum_needs
from roost.placement.service.ledger import CLAIM_GRACE_S
from roost.seams.neutron import NeutronClient, NeutronNetwork, NeutronPartial, NeutronPort, NeutronSegment

DOUBTS_MAX = 100
"""Ports that may be deleted that are asked for by their ids; of more, all ports are read."""


@dataclass
class NeutronView:
    """What a poller knows of Neutron from round to round; without it, a round reads everything.

    full_s: how often all ports are read, as deleted ones are among no changes. zones: of segments, see
    rules.neutron.new_state. clock: monotonic seconds. was_full: whether the last read was of all ports. segments_seen:
    in the last read.
    """

    full_s: float = 0.0
    grace_s: float = CLAIM_GRACE_S
    zones: Mapping[str, str] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    _ports: dict[str, NeutronPort] = field(default_factory=dict)
    _networks: Sequence[NeutronNetwork] = ()
    was_full: bool = False
    segments_seen: int = 0
    _changed_at: str = ""
    _full_at_s: float = float("-inf")
    _seen: Mapping[tuple[str, str], int] = field(default_factory=dict)
    _seen_at_s: float = 0.0
    _doubted: set[str] = field(default_factory=set)
    _doubts_of_all: int = 0
    _doubts_of_all_done: int = 0

    def doubt(self, port_id: str) -> None:
        """Ask Neutron at the next round whether that port is still there: somebody says that it is not."""
        if port_id in self._ports:
            self._doubted.add(port_id)

    def doubt_all(self) -> None:
        """Read all ports at the next round: some may be deleted, nobody says which."""
        self._doubts_of_all += 1

    async def read(self, neutron: NeutronClient) -> NeutronState:
        """Return all that Neutron says now. Raises NeutronUnavailable, NeutronPartial."""
        segments = await neutron.list_segments()
        self.segments_seen = len(segments)
        subnets = await neutron.list_subnets()
        await self._read_ports(neutron)
        await self._read_networks(neutron, segments)
        return new_state(segments, subnets, list(self._ports.values()), self._networks, zones=self.zones)

    async def read_again(self, neutron: NeutronClient, state: NeutronState) -> NeutronState:
        """Return a state of the same segments with what came meanwhile. Raises NeutronUnavailable."""
        subnets = await neutron.list_subnets()
        ports_before = self._ports
        await self._read_ports(neutron)
        ports = {**ports_before, **self._ports}
        return new_state(state.segments, subnets, list(ports.values()), state.networks, zones=self.zones)

    def seen(self) -> Seen:
        """Return what the round before saw."""
        return Seen(self._seen, self.clock() - self._seen_at_s)

    def note(self, state: NeutronState, at_s: float) -> None:
        """Keep what a round saw that began then."""
        self._seen, self._seen_at_s = sum_needs(list_needs(state)), at_s

    async def _read_networks(self, neutron: NeutronClient, segments: Sequence[NeutronSegment]) -> None:
        """Read the networks again where one is unknown. Raises NeutronPartial where Neutron hides one.

        That is proven by a segment that is there before its network is looked for, and after.
        """
        network_ids = {segment.network_id for segment in segments}
        if network_ids <= {network.id for network in self._networks}:
            return
        self._networks = await neutron.list_networks()
        if hidden := network_ids - {network.id for network in self._networks}:
            hidden &= {segment.network_id for segment in await neutron.list_segments()}
        if hidden:
            says = f"Neutron hides {len(hidden)} networks of segments that it shows from {neutron.who_asks()}"
            raise NeutronPartial(f"{says}, as {min(hidden)}", "get_network")

    async def _read_ports(self, neutron: NeutronClient) -> None:
        now_s = self.clock()
        doubted, doubts_of_all = sorted(self._doubted), self._doubts_of_all
        is_full_due = (
            now_s - self._full_at_s >= self.full_s
            or len(doubted) > DOUBTS_MAX
            or doubts_of_all > self._doubts_of_all_done
        )
        if not is_full_due and self._changed_at:
            page = await neutron.list_ports(changed_since=self._changed_at)
            if page is not None:
                self._ports = self._ports | {port.id: port for port in page.ports}
                self.was_full = False
                self._changed_at = max(self._changed_at, page.changed_at)
                await self._forget_deleted(neutron, doubted)
                return
        page = await neutron.list_ports()
        assert page is not None
        self._ports = {port.id: port for port in page.ports}
        self._networks = ()  # they are renamed now and then
        # Changes are asked for since before this list: a port may come to a page that was read already.
        self._changed_at = self._changed_at or page.changed_at
        self.was_full, self._full_at_s, self._doubts_of_all_done = True, now_s, doubts_of_all
        self._doubted.difference_update(doubted)

    async def _forget_deleted(self, neutron: NeutronClient, doubted: Sequence[str]) -> None:
        """Forget the ports that are said to be deleted, as far as Neutron says so too."""
        if not doubted:
            return
        page = await neutron.list_ports(ids=doubted)
        assert page is not None
        for port_id in {*doubted} - {port.id for port in page.ports}:
            self._ports.pop(port_id, None)
        self._doubted.difference_update(doubted)
