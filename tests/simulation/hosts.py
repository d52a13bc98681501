"""Hosts that a story plays: they lose reports, repeat them, send them late, fail launches, are cut off, lose power.

What a host has is never wrong; what is heard of it may be. No two guests of a server ever have their NICs up at once.
"""

from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

import msgspec
from tests.agent.cloud import AGENT
from tests.simulation.agents import ports_of

from roost.agent.drivers import LaunchFailed
from roost.agent.ports import AgentPorts
from roost.compute.service import Compute, guests
from roost.compute.service.servers import get_server
from roost.network.service import Networks
from roost.platform.errors import RoostError
from roost.seams.agent import NICS_UP, GuestOrder, GuestReport, GuestsBody, ListedGuest, Refusal

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


@dataclass
class Guest:
    """What a host has of a server. addresses: as its NICs were bound. dark: since the host lost its power.

    sequence: of all hosts' one driver.
    """

    attempt: int
    state: str
    addresses: frozenset[str] = frozenset()
    dark: bool = False
    sequence: int = 0


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
    sequence: int = 0

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
        for report, answer in zip(reports, await guests.report(self.compute, reports, agent=AGENT), strict=True):
            if answer.refusal is Refusal.SUPERSEDED:
                guest = self.guests.get(report.key)
                if guest is not None and guest.attempt == report.attempt:
                    del self.guests[report.key]

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
                self.guests[key] = Guest(order.attempt, state, addresses, sequence=self._next())
        elif how is Turn.STUBBORN:
            state = "failed" if guest.state == "incoming" else "unchanged"
            if state == "failed":
                del self.guests[key]
        else:
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
            (answer,) = await guests.report(self.compute, [self._report(order, "begun")], agent=AGENT)
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
            report = GuestReport(
                server_id=key[0], host=key[1], attempt=guest.attempt, state="unchanged", by_itself=True,
                power_state=POWER_STATES[state], sequence=guest.sequence,
            )  # fmt: skip
            await guests.report(self.compute, [report], agent=AGENT)

    async def list_guests(self, host: str) -> None:
        """List what the host has; destroy what must go."""
        listed = tuple(
            ListedGuest(
                server_id=server_id, host=host, attempt=guest.attempt, state=guest.state, sequence=guest.sequence
            )
            for (server_id, on), guest in sorted(self.guests.items())
            if on == host
        )
        async with self.compute.database.connection() as connection:
            as_of = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::double precision")
        before = max((name for name in self.names if name < host), default="")
        body = GuestsBody(agent=AGENT, guests=listed, as_of=as_of, after=before, until=host)
        for superseded in await guests.compare_guests(self.compute, body):
            self.guests.pop(superseded.key, None)

    async def replug(self) -> None:
        """Take from guests the addresses that their servers have given up while they run."""
        for (server_id, _), guest in self.guests.items():
            with suppress(RoostError):
                ports = (await get_server(self.compute, server_id)).ports
                guest.addresses &= {address for port in ports for address in port.addresses}

    def list_present(self) -> set[tuple[str, str]]:
        """Return (server, host) of guests on hosts that have had power all along."""
        return {key for key, guest in self.guests.items() if not guest.dark}

    def check_nics(self) -> None:
        """Raise AssertionError where two guests with their NICs up are one server's, or have one address."""
        up = [
            (server, host, guest)
            for (server, host), guest in self.guests.items()
            if guest.state in NICS_UP and not guest.dark and host not in self.off
        ]
        for name, owners in (
            ("server", [(server, host) for server, host, _ in up]),
            ("address", [(address, host) for _, host, guest in up for address in guest.addresses]),
        ):
            twice = [owner for owner, count in Counter(owner for owner, _ in owners).items() if count > 1]
            assert not twice, f"NICs of one {name} are up twice: {[pair for pair in owners if pair[0] in twice]}"
