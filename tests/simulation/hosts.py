"""Hosts that a story plays: they lose reports, repeat them, send them late, fail launches, are cut off, lose power.

What a host has is never wrong; what is heard of it may be. No two guests of a server ever have their NICs up at once.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

import msgspec
from tests.agent.cloud import AGENT
from tests.compute.reporting import report
from tests.simulation.agents import ports_of
from tests.world import GuestUp

from roost.agent.drivers import LaunchFailed
from roost.agent.ports import AgentPorts
from roost.compute.service import Compute, guests
from roost.network.model.ports import PortFilter
from roost.network.service import Networks
from roost.network.service.ports import list_ports
from roost.platform.errors import RoostError
from roost.seams.agent import NICS_UP, GuestOrder, GuestReport, Refusal


class Turn(Enum):
    """How a host's turn goes."""

    FINE = "fine"
    FAILS = "fails launches"
    LOST = "reports are lost"
    REPEATED = "reports come twice"
    LATE = "reports come later"
    STUBBORN = "changes nothing"
    UNHEARD = "answers are lost"


@dataclass
class Guest:
    """What a host has of a server. addresses: as its agent was told. dark: since the host lost its power.

    as_told: no NIC of it was plugged, unplugged or changed since its agent was told of them.
    """

    attempt: int
    state: str
    addresses: frozenset[str] = frozenset()
    dark: bool = False
    as_told: bool = True


@dataclass
class Hosts:
    """All hosts. cut: nothing is heard of them; off: they have no power either. failed: servers that one failed."""

    compute: Compute
    networks: Networks
    names: tuple[str, ...]
    versions: dict[str, int] = field(default_factory=dict)
    guests: dict[tuple[str, str], Guest] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    off: set[str] = field(default_factory=set)
    late: list[GuestReport] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)

    def lose_power(self, host: str) -> None:
        """All that runs there stops."""
        self.off.add(host)
        for (_, on), guest in self.guests.items():
            guest.dark = guest.dark or on == host

    def come_back(self, host: str) -> None:
        """The host is heard again, with what it had; what is not to go goes on after its next turn."""
        self.cut.discard(host)
        self.off.discard(host)

    async def turn(self, hosts: Collection[str], how: Turn) -> int:
        """Ask for the hosts' orders, carry them out and report; how many there were."""
        heard = [host for host in hosts if host not in self.cut | self.off]
        if not heard:
            return 0
        orders: list[GuestOrder] = []
        for version in sorted({self.versions.get(host, 0) for host in heard}):
            agent = msgspec.structs.replace(AGENT, service_version=version) if version else AGENT
            theirs = [host for host in heard if self.versions.get(host, 0) == version]
            orders += (await guests.Polls(self.compute).poll(theirs, agent=agent, busy=[], wait_s=0)).orders
        if how is Turn.UNHEARD:
            return len(orders)
        reports = [report for order in orders if (report := await self._carry_out(order, how)) is not None]
        for (_, on), guest in self.guests.items():
            if on in heard and guest.dark:  # nobody wants it gone
                guest.dark = False
        self.check_nics()
        if how is Turn.LATE:
            self.late += reports
        elif how is not Turn.LOST:
            await self.send(reports * (2 if how is Turn.REPEATED else 1))
        return len(orders)

    async def send(self, reports: list[GuestReport]) -> None:
        """Report; guests that are superseded are destroyed."""
        answers = await report(self.compute, reports, agent=AGENT)
        for said, answer in zip(reports, answers, strict=True):
            if answer.refusal is Refusal.SUPERSEDED:
                guest = self.guests.get(said.key)
                if guest is not None and guest.attempt == said.attempt:
                    del self.guests[said.key]

    async def _carry_out(self, order: GuestOrder, how: Turn) -> GuestReport | None:
        key, state = order.key, str(order.desired)
        if how in (Turn.FAILS, Turn.STUBBORN):
            self.failed.add(order.server_id)
        guest = self.guests.get(key)
        if state == "absent":
            self.guests.pop(key, None)
            await self._ports_of(order).give_back(order)
        elif guest is None or guest.attempt != order.attempt:
            if not await self._begin(order):
                return None
            addresses = await self._take_ports(order)
            if how is Turn.FAILS or addresses is None:
                self.guests.pop(key, None)
                self.failed.add(order.server_id)
                state = "failed"
            else:
                self.guests[key] = Guest(order.attempt, state, addresses)
        elif how is Turn.STUBBORN:
            state = "failed" if guest.state == "incoming" else "unchanged"
            if state == "failed":
                del self.guests[key]
        else:
            if guest.state != state and all(port.binding == "bound" for port in order.ports):
                guest.addresses = frozenset(address for port in order.ports for address in port.addresses)
                guest.as_told = True
            guest.state, guest.dark = state, False
        self.check_nics()
        return self._report(order, state)

    def _ports_of(self, order: GuestOrder) -> AgentPorts:
        return ports_of(self.networks, self.versions.get(order.host))

    async def _take_ports(self, order: GuestOrder) -> frozenset[str] | None:
        """Return the addresses that the guest's NICs get; None where a port cannot be had."""
        try:
            taken = await self._ports_of(order).take(order)
        except LaunchFailed:
            return None
        return frozenset(address for port in taken.ports for address in port.addresses)

    async def _begin(self, order: GuestOrder) -> bool:
        try:
            (answer,) = await report(self.compute, [self._report(order, "begun")], agent=AGENT)
        except RoostError:
            return False
        return answer.accepted

    def _report(self, order: GuestOrder, state: str) -> GuestReport:
        return GuestReport(
            server_id=order.server_id, host=order.host, attempt=order.attempt, state=state, message="told to fail",
            desired=order.desired,
        )  # fmt: skip

    async def replug(self, server_id: str) -> None:
        """Note that NICs of a server were plugged, unplugged or changed, perhaps."""
        ports = await list_ports(self.networks, PortFilter(device_ids=(server_id,)))
        for (of_server, _), guest in self.guests.items():
            guest.as_told = guest.as_told and of_server != server_id
        self.unplug({server_id: {address.address for port in ports for address in port.addresses}})

    def unplug(self, addresses_by_server: Mapping[str, Collection[str]]) -> None:
        """Take from guests that were replugged what their servers have given up meanwhile."""
        for (server_id, _), guest in self.guests.items():
            if not guest.as_told and server_id in addresses_by_server:
                guest.addresses &= frozenset(addresses_by_server[server_id])

    def list_present(self) -> set[tuple[str, str]]:
        """Return (server, host) of guests on hosts that have had power all along."""
        return {key for key, guest in self.guests.items() if not guest.dark}

    def list_up(self) -> list[GuestUp]:
        """Return the guests that have their NICs up."""
        return [
            GuestUp(server_id, host, tuple(sorted(guest.addresses)), guest.as_told)
            for (server_id, host), guest in self.guests.items()
            if guest.state in NICS_UP and not guest.dark and host not in self.off
        ]

    def check_nics(self) -> None:
        """Raise AssertionError where two guests with their NICs up are one server's, or have one address."""
        guests_up = self.list_up()
        for name, owners in (
            ("server", [(guest.server_id, guest.host) for guest in guests_up]),
            ("address", [(address, guest.host) for guest in guests_up for address in guest.addresses]),
        ):
            twice = [owner for owner, count in Counter(owner for owner, _ in owners).items() if count > 1]
            assert not twice, f"NICs of one {name} are up twice: {[pair for pair in owners if pair[0] in twice]}"
