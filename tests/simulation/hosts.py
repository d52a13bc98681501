"""Hosts that a story plays: they lose reports, repeat them, send them late, fail launches, are cut off, lose power.

They are cut off in one direction too, cabled otherwise, and installed anew.

What a host has is never wrong; what is heard of it may be. No two guests of a server ever have their NICs up at once.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import msgspec
from tests.agent.cloud import AGENT
from tests.compute.reporting import report
from tests.simulation.agents import ports_of
from tests.world import GuestUp

from roost.agent.drivers import LaunchFailed
from roost.agent.ports import AgentPorts
from roost.compute.errors import HostHeld
from roost.compute.service import Compute, guests
from roost.network.model.ports import PortFilter
from roost.network.service import Networks
from roost.network.service.ports import list_ports
from roost.platform.errors import RoostError
from roost.seams.agent import (
    NICS_UP,
    AgentIdentity,
    GuestAttempt,
    GuestOrder,
    GuestReport,
    GuestsBody,
    ListedGuest,
    Polled,
    Refusal,
)

POWER_STATES = {"running": "running", "stopped": "shutdown", "paused": "paused", "suspended": "suspended"}


class Turn(Enum):
    """How a host's turn goes."""

    FINE = "fine"
    FAILS = "fails launches"
    LOST = "reports are lost"
    REPEATED = "reports come twice"
    LATE = "reports come later"
    STUBBORN = "changes nothing"
    UNHEARD = "answers are lost"
    UNANSWERED = "answers to reports are lost"


@dataclass
class Guest:
    """What a host has of a server. addresses: as its agent was told. dark: since the host lost its power.

    as_told: no NIC of it was plugged, unplugged or changed since its agent was told of them.
    sequence: of all hosts' one driver.
    """

    attempt: int
    state: str
    addresses: frozenset[str] = frozenset()
    dark: bool = False
    as_told: bool = True
    sequence: int = 0


@dataclass
class Hosts:
    """All hosts. cut: nothing is heard of them; off: they have no power either. deaf: no answer reaches them.

    recabled: they reach other networks than at the beginning. agents: of hosts that have their own; one has the rest.
    unlisted: their agents have begun anew, and tell first which guests they have. failed: servers that one failed.
    """

    compute: Compute
    networks: Networks
    names: tuple[str, ...]
    versions: dict[str, int] = field(default_factory=dict)
    guests: dict[tuple[str, str], Guest] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    off: set[str] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)
    recabled: set[str] = field(default_factory=set)
    agents: dict[str, AgentIdentity] = field(default_factory=dict)
    unlisted: set[str] = field(default_factory=set)
    late: list[tuple[AgentIdentity, GuestReport]] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    sequence: int = 0

    def lose_power(self, host: str) -> None:
        """All that runs there stops."""
        self.off.add(host)
        for (_, on), guest in self.guests.items():
            guest.dark = guest.dark or on == host

    def come_back(self, host: str) -> None:
        """The host is heard again, with what it had; what is not to go goes on after its next turn."""
        if host in self.off:
            self.unlisted.add(host)
        for lost in (self.cut, self.off, self.deaf):
            lost.discard(host)

    def reinstall(self, host: str, agent_id: str) -> None:
        """The host is empty, and has another agent."""
        self.guests = {key: guest for key, guest in self.guests.items() if key[1] != host}
        self.agents[host] = msgspec.structs.replace(AGENT, id=agent_id)
        self.unlisted.add(host)

    def agent_of(self, host: str) -> AgentIdentity:
        """Return who serves the host, or would."""
        agent, version = self.agents.get(host, AGENT), self.versions.get(host)
        return agent if version is None else msgspec.structs.replace(agent, service_version=version)

    async def poll(self, hosts: Sequence[str], agent: AgentIdentity) -> Polled | None:
        """Return what an agent's hosts are asked for; None where another agent still has them."""
        try:
            return await guests.Polls(self.compute).poll(hosts, agent=agent, busy=[], wait_s=0)
        except HostHeld:
            return None

    async def turn(self, hosts: Collection[str], how: Turn) -> int:
        """Ask for the hosts' orders, carry them out and report; how many there were."""
        heard = [host for host in hosts if host not in self.cut | self.off]
        if not heard:
            return 0
        hosts_by_agent: defaultdict[AgentIdentity, list[str]] = defaultdict(list)
        for host in heard:
            hosts_by_agent[self.agent_of(host)].append(host)
            if host in self.unlisted:
                await self.list_guests(host, is_heard=how is not Turn.UNHEARD and host not in self.deaf)
        orders: list[GuestOrder] = []
        for agent, theirs in hosts_by_agent.items():
            if (polled := await self.poll(theirs, agent)) is not None:
                orders += polled.orders
        orders = [order for order in orders if order.host not in self.deaf | self.unlisted]
        if how is Turn.UNHEARD:
            return len(orders)
        reports = [report for order in orders if (report := await self._carry_out(order, how)) is not None]
        for (_, on), guest in self.guests.items():
            if on in heard and guest.dark:  # nobody wants it gone
                guest.dark = False
        self.check_nics()
        if how is Turn.LATE:
            self.late += [(self.agent_of(report.host), report) for report in reports]
        elif how is not Turn.LOST:
            for agent in hosts_by_agent:
                theirs_told = [report for report in reports if self.agent_of(report.host) == agent]
                is_heard = how is not Turn.UNANSWERED
                await self.send(theirs_told * (2 if how is Turn.REPEATED else 1), agent, is_heard=is_heard)
        return len(orders)

    async def send(self, reports: Sequence[GuestReport], agent: AgentIdentity, *, is_heard: bool = True) -> None:
        """Report; guests that are superseded are destroyed, if the answer is heard."""
        answers = await report(self.compute, reports, agent=agent)
        for said, answer in zip(reports, answers, strict=True):
            if is_heard and answer.refusal is Refusal.SUPERSEDED and self.agent_of(said.host) == agent:
                self._destroy(said)

    def _destroy(self, superseded: GuestAttempt) -> None:
        guest = self.guests.get(superseded.key)
        if guest is not None and guest.attempt == superseded.attempt:
            del self.guests[superseded.key]

    async def list_guests(self, host: str, *, is_heard: bool) -> None:
        """Tell which guests a host has, once its agent has the lease; those that are superseded are destroyed."""
        agent = self.agent_of(host)
        if (polled := await self.poll([host], agent)) is None:
            return
        listed = tuple(
            ListedGuest(server_id=server_id, host=on, attempt=guest.attempt, state=guest.state, sequence=guest.sequence)
            for (server_id, on), guest in self.guests.items()
            if on == host
        )
        before = f"{host[:-1]}{int(host[-1]) - 1}"
        body = GuestsBody(agent=agent, guests=listed, as_of=polled.as_of, after=before, until=host)
        superseded = await guests.compare_guests(self.compute, body)
        if is_heard:
            self.unlisted.discard(host)
            for guest in superseded:
                self._destroy(guest)

    async def _carry_out(self, order: GuestOrder, how: Turn) -> GuestReport | None:
        key, state = order.key, str(order.desired)
        if how in (Turn.FAILS, Turn.STUBBORN):
            self.failed.add(order.server_id)
        guest = self.guests.get(key)
        if state == "absent":
            self.guests.pop(key, None)
            await self._ports_of(order).give_back(order)
        elif guest is None or guest.attempt != order.attempt:
            if not await self._begin(order) or how is Turn.UNANSWERED:
                return None
            addresses = await self._take_ports(order)
            if how is Turn.FAILS or addresses is None:
                self.guests.pop(key, None)
                self.failed.add(order.server_id)
                state = "failed"
            else:
                self.guests[key] = Guest(order.attempt, state, addresses, sequence=self._next())
        elif how is Turn.STUBBORN:
            state = "failed" if guest.state == "incoming" else "unchanged"
            if state == "failed":
                del self.guests[key]
        else:
            if guest.state != state and all(port.binding == "bound" for port in order.ports):
                guest.addresses = frozenset(address for port in order.ports for address in port.addresses)
                guest.as_told = True
            guest.sequence = guest.sequence if guest.state == state else self._next()
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
            agent = self.agent_of(order.host)
            (answer,) = await report(self.compute, [self._report(order, "begun")], agent=agent)
        except RoostError:
            return False
        return answer.accepted

    def _report(self, order: GuestOrder, state: str) -> GuestReport:
        sequence = self.guests[order.key].sequence if order.key in self.guests else 0
        return GuestReport(
            server_id=order.server_id, host=order.host, attempt=order.attempt, state=state, message="told to fail",
            desired=order.desired, sequence=sequence,
        )  # fmt: skip

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence

    async def change_by_itself(self, key: tuple[str, str], state: str, *, is_told: bool) -> None:
        """Have a guest in another state though nobody asked for it. is_told: its host reports it."""
        guest = self.guests[key]
        guest.state, guest.sequence = state, self._next()
        self.check_nics()
        if is_told:
            said = GuestReport(
                server_id=key[0], host=key[1], attempt=guest.attempt, state="unchanged", by_itself=True,
                power_state=POWER_STATES[state], sequence=guest.sequence,
            )  # fmt: skip
            await self.send([said], self.agent_of(key[1]), is_heard=key[1] not in self.deaf)

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
