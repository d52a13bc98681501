"""Hosts that a story plays: they lose reports, repeat them, send them late, fail launches, are cut off, lose power.

They are cut off in one direction too, cabled otherwise, and installed anew.

What a host has is never wrong; what is heard of it may be. No two guests of a server ever have their NICs up at once.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, cast

from msgspec.structs import replace
from tests.simulation.agents import ports_of
from tests.simulation.identities import Identities
from tests.world import GuestUp

from roost.agent.drivers import LaunchFailed
from roost.agent.old_agents import AgentPorts
from roost.compute.errors import AgentRefused, HostHeld
from roost.compute.service import Compute, guests
from roost.network.model.ports import PortFilter
from roost.network.service import Networks
from roost.network.service.ports import list_ports
from roost.platform.errors import RoostError
from roost.seams.agent import (
    NICS_UP,
    AgentIdentity,
    GuestAttempt,
    GuestNic,
    GuestOrder,
    GuestReport,
    GuestsBody,
    ListedGuest,
    OrderId,
    Polled,
    PowerState,
    Refusal,
    ReportAnswer,
)
from roost.seams.compute import ServerPort
from roost.seams.guests import MemorySource

POWER_STATES: dict[str, PowerState] = {
    "running": "running",
    "stopped": "shutdown",
    "paused": "paused",
    "suspended": "suspended",
}


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
    """What a host has of a server. order: by which it came into its state; nics: as its agent was told of them.

    addresses: those of nics that the server has not given up. dark: since the host lost its power. as_told: no NIC of
    it was plugged, unplugged or changed since its agent was told of them. sequence: of all hosts' one driver.
    """

    attempt: int
    state: str
    order: GuestOrder
    nics: tuple[ServerPort, ...] = ()
    addresses: frozenset[str] = frozenset()
    dark: bool = False
    as_told: bool = True
    sequence: int = 0
    nics_version: int = 0

    def plug(self, nics: tuple[ServerPort, ...], nics_version: int) -> None:
        """Have these NICs."""
        self.nics, self.nics_version, self.as_told = nics, nics_version, True
        self.addresses = frozenset(address for nic in nics for address in nic.addresses)

    def listed(self) -> ListedGuest:
        """Return it as an agent of today lists it."""
        order, up = self.order, self.state in NICS_UP
        return ListedGuest(
            server_id=order.server_id, host=order.host, attempt=self.attempt, state=cast("Any", self.state),
            sequence=self.sequence, name=order.name, project_id=order.project_id, vcpus=order.vcpus,
            ram_mb=order.ram_mb, disk_gb=order.disk_gb, power_state=POWER_STATES.get(self.state),
            nics_version=self.nics_version,
            nics=tuple(
                GuestNic(
                    mac_address=nic.mac_address, addresses=nic.addresses, up=up, port_id=nic.port_id,
                    network_id=nic.network_id,
                )
                for nic in self.nics
            ),
        )  # fmt: skip


@dataclass
class Hosts:
    """All hosts. cut: nothing is heard of them; off: they have no power either. deaf: no answer reaches them.

    recabled: they reach other networks than at the beginning. unlisted: their agents have begun anew, and tell first
    which guests they have; doubtful: they tell it next, too. failed: servers that one failed. kept: guests that were
    there when the records went back, on hosts that were heard all along since.
    """

    compute: Compute
    networks: Networks
    names: tuple[str, ...]
    agents: Identities = field(default_factory=Identities)
    guests: dict[tuple[str, str], Guest] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    off: set[str] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)
    recabled: set[str] = field(default_factory=set)
    unlisted: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    late: list[tuple[AgentIdentity, GuestReport]] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    kept: set[tuple[str, str, int]] = field(default_factory=set)
    sequence: int = 0

    def lose_power(self, host: str) -> None:
        """All that runs there stops."""
        self.off.add(host)
        self.forget_kept(host)
        for (_, on), guest in self.guests.items():
            guest.dark = guest.dark or on == host

    def forget_kept(self, host: str) -> None:
        """Note that the host is not heard for some time."""
        self.kept = {key for key in self.kept if key[1] != host}

    def come_back(self, host: str, boot_id: str) -> None:
        """The host is heard again, with what it had; what is not to go goes on after its next turn."""
        if host in self.off:
            self.unlisted.add(host)
            if host in self.agents.own:
                self.agents.restart(host, boot_id)
        for lost in (self.cut, self.off, self.deaf):
            lost.discard(host)

    def reinstall(self, host: str, agent_id: str, boot_id: str) -> None:
        """The host is empty, and has another agent."""
        self.guests = {key: guest for key, guest in self.guests.items() if key[1] != host}
        self.agents.install(host, agent_id, boot_id)
        self.unlisted.add(host)

    def restart_agent(self, host: str, boot_id: str) -> None:
        """The host's agent begins anew; it names all hosts of its guests, so one that has lost some goes on."""
        theirs = self._hosts_of(self.agents.agent_of(host), [host])
        if self.cut.isdisjoint(theirs) and self.off.isdisjoint(theirs):
            self.agents.restart(host, boot_id)
            self.unlisted.update(theirs)

    def list_heard(self, hosts: Collection[str]) -> list[str]:
        """Return those of the hosts that are heard."""
        return [host for host in hosts if host not in self.cut | self.off]

    def _hosts_of(self, agent: AgentIdentity, hosts: Collection[str]) -> list[str]:
        """Return the hosts that an agent names where these are looked at: today all of its own, before just these."""
        named = self.names if agent.boot_id is not None else hosts
        return [host for host in named if self.agents.has_agent(host, agent)]

    async def poll(self, hosts: Collection[str], *, is_heard: bool = True) -> list[tuple[AgentIdentity, Polled]]:
        """Have the agents of these hosts poll, together; those that are not served are left out."""
        polls, agents = guests.Polls(self.compute), self.agents.group(hosts)

        async def poll(agent: AgentIdentity) -> Polled | None:
            names = self.list_heard(self._hosts_of(agent, hosts))
            try:
                return await polls.poll(names, agent=agent, busy=[], wait_s=0)
            except (HostHeld, AgentRefused):
                return None

        answers = await asyncio.gather(*map(poll, agents))
        for agent, polled in zip(agents, answers, strict=True):
            if polled is not None and is_heard and not self.deaf.issuperset(agents[agent]):
                self.agents.keep_mark(agent, polled.mark)
        return [(agent, polled) for agent, polled in zip(agents, answers, strict=True) if polled is not None]

    async def turn(
        self, hosts: Collection[str], how: Turn, *, meanwhile: Callable[[], Awaitable[None]] | None = None
    ) -> int:
        """Ask for the hosts' orders, carry them out and report; how many there were. meanwhile: before they begin."""
        heard, is_heard = self.list_heard(hosts), how is not Turn.UNHEARD
        if not heard:
            return 0
        polls = await self.poll(heard, is_heard=is_heard)
        if await self._list_due(polls, heard, is_heard=is_heard):
            polls = await self.poll(heard, is_heard=is_heard)
        mute = self.deaf | self.unlisted
        orders = [order for _, polled in polls for order in polled.orders if order.host in set(heard) - mute]
        if meanwhile is not None:
            await meanwhile()
        if not is_heard:
            return len(orders)
        reports = await self._carry_out_all(orders, how)
        for (_, on), guest in self.guests.items():
            if on in heard and guest.dark:  # nobody wants it gone
                guest.dark = False
        self.check_nics()
        if how is Turn.LATE:
            self.late += [(self.agents.agent_of(report.host), report) for report in reports]
        elif how is not Turn.LOST:
            for agent, theirs in self.agents.group(report.host for report in reports).items():
                told = [report for report in reports if report.host in theirs]
                await self.send(told * (2 if how is Turn.REPEATED else 1), agent, is_heard=how is not Turn.UNANSWERED)
        return len(orders)

    async def send(
        self, reports: Sequence[GuestReport], agent: AgentIdentity, *, is_heard: bool = True
    ) -> list[ReportAnswer]:
        """Report; guests that are superseded are destroyed, if the answer is heard. No answer: it is not served.

        Of what a guest did by itself the answer changes nothing, as with the agent.
        """
        try:
            answered = await guests.take_reports(self.compute, reports, agent=agent)
        except RoostError:
            return []
        if is_heard:
            self.agents.keep_mark(agent, answered.mark)
        for said, answer in zip(reports, answered.reports, strict=True):
            if is_heard and not said.by_itself and self.agents.has_agent(said.host, agent):
                if answer.refusal is Refusal.SUPERSEDED:
                    self._destroy(said)
                elif answer.refusal is Refusal.UNKNOWN and agent.boot_id is not None and said.state != "begun":
                    self.doubtful.add(said.host)
        return list(answered.reports)

    def _destroy(self, superseded: GuestAttempt) -> None:
        key, guest = superseded.key, self.guests.get(superseded.key)
        if guest is not None and guest.attempt == superseded.attempt:
            del self.guests[key]
            is_kept = (*key, guest.attempt) in self.kept
            is_last = not any(server_id == key[0] for server_id, _ in self.guests)
            assert not (is_kept and is_last), f"the only guest of {key[0]} is destroyed, on {key[1]}"

    async def list_guests(self, hosts: Collection[str]) -> None:
        """Have the agents of these hosts tell which guests they have, as far as they are heard."""
        self.doubtful.update(hosts)
        heard = self.list_heard(hosts)
        await self._list_due(await self.poll(heard), heard, is_heard=True)

    async def _list_due(
        self, polls: Sequence[tuple[AgentIdentity, Polled]], heard: Sequence[str], *, is_heard: bool
    ) -> bool:
        """Have those agents list their guests that owe it, or are asked for it; return whether one did."""
        due = [
            (agent, host, polled.as_of)
            for agent, polled in polls
            for host in heard
            if self.agents.has_agent(host, agent)
            and (polled.list_wanted or host in self.unlisted or host in self.doubtful)
        ]
        if due and self.versions:
            for agent, host, as_of in due:
                before = f"{host[:-1]}{int(host[-1]) - 1}"
                await self._list(agent, [host], as_of, is_heard=is_heard, after=before, until=host)
        else:
            for agent, as_of in dict.fromkeys((agent, as_of) for agent, _, as_of in due):
                await self._list(agent, self.list_heard(self._hosts_of(agent, ())), as_of, is_heard=is_heard)
        return bool(due)

    async def _list(
        self,
        agent: AgentIdentity,
        hosts: Collection[str],
        as_of: float,
        *,
        is_heard: bool,
        after: str = "",
        until: str | None = None,
    ) -> None:
        """List the guests of the hosts, which are all between two; those that are superseded are destroyed."""
        listed = [guest.listed() for (_, on), guest in self.guests.items() if on in hosts]
        if agent.boot_id is None:
            listed = [ListedGuest(server_id=item.server_id, host=item.host, attempt=item.attempt) for item in listed]
        body = GuestsBody(agent=agent, guests=tuple(listed), as_of=as_of, after=after, until=until)
        try:
            superseded = await guests.compare_guests(self.compute, body)
        except AgentRefused:
            return
        hearing = set(hosts) - self.deaf if is_heard else set[str]()
        self.unlisted -= hearing
        self.doubtful -= hearing
        for guest in superseded:
            if guest.host in hearing:
                self._destroy(guest)

    async def _carry_out_all(self, orders: Sequence[GuestOrder], how: Turn) -> list[GuestReport]:
        """Begin what brings NICs up, agent by agent, and do what each order says; return what is to be reported."""
        to_begin = [order for order in orders if self._is_begun(order)]
        refused: set[OrderId] = set()
        for agent, hosts in self.agents.group(order.host for order in to_begin).items():
            theirs = [order for order in to_begin if order.host in hosts]
            said = [self._begin(order) for order in theirs]
            answers = await self.send(said, agent, is_heard=how is not Turn.UNANSWERED)
            are_heard = bool(answers) and how is not Turn.UNANSWERED
            refused |= {
                order.id
                for order, answer in zip(theirs, answers or [None] * len(theirs), strict=True)
                if not are_heard or answer is None or not answer.accepted
            }
        going_on = [order for order in orders if order.id not in refused]
        return [report for order in going_on if (report := await self._carry_out(order, how)) is not None]

    def _is_begun(self, order: GuestOrder) -> bool:
        """Return whether the order is begun before it is carried out: a launch, and what brings NICs up."""
        if order.desired == "absent":
            return False
        guest = self.guests.get(order.key)
        if guest is None or guest.attempt != order.attempt:
            return True
        has = guest.state, guest.nics_version if self._says_nics(order) else order.nics_version
        return has != (order.desired, order.nics_version) and order.desired in NICS_UP

    def _says_nics(self, order: GuestOrder) -> bool:
        """Return whether the host's agent changes the NICs of a guest that runs: one of a release before does not."""
        return order.host not in self.versions

    async def _carry_out(self, order: GuestOrder, how: Turn) -> GuestReport | None:
        """Do what the order says; return what is to be reported. A stubborn host does nothing, and says what is."""
        key, state = order.key, str(order.desired)
        if how in (Turn.FAILS, Turn.STUBBORN):
            self.failed.add(order.server_id)
        guest = self.guests.get(key)
        if state == "absent":
            if guest is not None and guest.attempt > order.attempt:
                return None  # the order is of an older database
            self.guests.pop(key, None)
            await self._ports_of(order).give_back(order)
        elif guest is None or guest.attempt != order.attempt:
            nics = await self._take_ports(order)
            if how is Turn.FAILS or nics is None:
                self.guests.pop(key, None)
                self.failed.add(order.server_id)
                state = "failed"
            else:
                made = self.guests[key] = Guest(order.attempt, state, order, sequence=self._next())
                made.plug(nics, order.nics_version)
        elif how is Turn.STUBBORN and (guest.state != state or (order.meeting is not None and state in NICS_UP)):
            state = "failed" if guest.state == "incoming" else "unchanged"
            if state == "failed":
                del self.guests[key]
        else:
            is_told = guest.state != state or (guest.nics_version != order.nics_version and self._says_nics(order))
            if is_told and all(port.binding == "bound" for port in order.ports):
                guest.plug(order.ports, order.nics_version)
            guest.sequence = guest.sequence if guest.state == state else self._next()
            guest.state, guest.dark = state, False
        self.check_nics()
        return self._report(order, state)

    @property
    def versions(self) -> dict[str, int]:
        """Service versions of hosts' agents, where they are of a release before."""
        return self.agents.versions

    def _ports_of(self, order: GuestOrder) -> AgentPorts:
        return ports_of(self.networks, self.versions.get(order.host))

    async def _take_ports(self, order: GuestOrder) -> tuple[ServerPort, ...] | None:
        """Return the NICs that the guest gets; None where a port cannot be had."""
        try:
            return (await self._ports_of(order).take(order)).ports
        except LaunchFailed:
            return None

    def _begin(self, order: GuestOrder) -> GuestReport:
        """Return the report by which a host begins; agents of today say where they await memory, or a disk."""
        guest = self.guests.get(order.key)
        is_new = guest is None or guest.attempt != order.attempt
        is_far = is_new and order.disk is not None and order.disk.needed and not order.keeps_disk
        waits = (order.desired == "incoming" or is_far) and order.host not in self.versions
        meeting = MemorySource(address=order.host, token=str(self._next())) if waits else None
        return replace(self._report(order, "begun"), meeting=meeting)

    def _report(self, order: GuestOrder, state: str) -> GuestReport:
        sequence = self.guests[order.key].sequence if order.key in self.guests else 0
        return GuestReport(
            server_id=order.server_id, host=order.host, attempt=order.attempt, state=cast("Any", state),
            message="told to fail", desired=order.desired, sequence=sequence,
            meeting=order.meeting if state == order.desired else None,
            nics_version=order.nics_version if state == order.desired and self._says_nics(order) else None,
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
            await self.send([said], self.agents.agent_of(key[1]), is_heard=key[1] not in self.deaf)

    async def replug(self, server_id: str) -> None:
        """Note that NICs of a server were plugged, unplugged or changed, perhaps."""
        ports = await list_ports(self.networks, PortFilter(device_ids=(server_id,)))
        for (of_server, _), guest in self.guests.items():
            guest.as_told = guest.as_told and of_server != server_id
        self.unplug({server_id: {address.address for port in ports for address in port.addresses}})

    def unplug(self, addresses_by_server: Mapping[str, Collection[str]]) -> None:
        """Take from guests what their servers have given up meanwhile, where an agent of a release before is."""
        for (server_id, host), guest in self.guests.items():
            if host in self.versions and not guest.as_told and server_id in addresses_by_server:
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
