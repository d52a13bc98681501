"""A driver whose guests are lines in a file: for demonstrations, tests and benchmarks.

`guests.journal` says which guests there are, `launches.journal` which launches were ever tried, so that a test can
prove that none was tried on a host. Both are only ever appended to; the first is rewritten, atomically, when most of
its lines say nothing any more. A line that a SIGKILL cut short is dropped at the next start. `nics-end` says until when
the guests' NICs are up, so that whoever reads it knows that they are down afterwards, also when the agent is dead.

`kernel` says which start of the host's kernel the guests ran under: under another one they are stopped. Where there is
a file `kernel-now`, it stands for what the kernel says of itself.
"""

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.state import POWER_STATES, AgentState, describe_guest, write_whole
from roost.agent.lease import now_s
from roost.platform.structs import copy_as
from roost.seams.agent import NICS_UP, Desired, GuestKey, GuestOrder, ListedGuest
from roost.seams.guests import MemorySource

ALWAYS = sys.maxsize
NS = 1_000_000_000
NEVER_NS = 2**63
STALE_LINES_MAX = 20_000
"""Lines about guests that are gone, above which the journal of guests is rewritten."""


DIE_LOOK_S = 0.2
"""How often the file of --fake-die is looked for."""
FATES: Mapping[str, Desired] = {
    **{power_state: state for state, power_state in POWER_STATES.items()},
    "crashed": "stopped",
}
"""What guests can be told to do by themselves, as their power state -> their state."""

log = structlog.get_logger()


class GuestLine(ListedGuest, frozen=True, kw_only=True, omit_defaults=True):
    """A guest is there in a state from now on, or is gone, or (in the other journal) its launch is tried.

    at_ns: when, in nanoseconds since 1970. addresses: those that it was made with, or told of since. power_state: where
    it does not follow from the state.
    """

    server_id: str
    host: str
    state: Desired = "running"
    gone: bool = False
    at_ns: int = 0
    addresses: tuple[str, ...] = ()


class NicsEnd(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Until when NICs are up, in nanoseconds since 1970, on all hosts but some; None: with no end.

    by_host: of hosts that kept the time that they had.
    """

    at_ns: int | None = None
    by_host: dict[str, int] = {}

    def of(self, host: str) -> int | None:
        """Return the end of that host's guests."""
        return self.by_host.get(host, self.at_ns)


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What the driver is told to do wrong. hosts: only there; empty: on every host.

    delay_s: how long a launch takes; pre_copy_s: one that takes over another guest's memory. states_refused: no guest
    comes into these. fail_first, vanish_first: so many launches of this process fail, or neither end
    nor leave anything (first those that vanish); ALWAYS for all of them. die_file: where it finds what guests do by
    themselves, in lines of a power state and a server, or `all`; it deletes the file first. keeps_disks: it says that
    its guests have disks.
    """

    delay_s: float = 0.0
    pre_copy_s: float = 0.0
    states_refused: frozenset[str] = frozenset()
    fail_first: int = 0
    vanish_first: int = 0
    hosts: frozenset[str] = frozenset()
    die_file: Path | None = None
    keeps_disks: bool = False


class FakeDriver(AgentState):
    """Implements roost.agent.drivers.Driver."""

    needs_descriptions = False

    def __init__(self, directory: Path, faults: Faults = Faults()) -> None:
        """Open the state directory, which is made if it is missing. Raises StateInUse."""
        self._directory = directory
        self._faults = faults
        self.keeps_disks = faults.keeps_disks
        self._fail_left = faults.fail_first
        self._vanish_left = faults.vanish_first
        super().__init__(directory)
        self._nics_end = read_nics_end(directory)
        self._guests: dict[GuestKey, GuestLine] = {}
        self._sequence = 0
        self._copies: dict[GuestKey, asyncio.Event] = {}  # of memory, until they end
        self._stale = 0
        for line in _read_lines(directory / "guests.journal"):
            self._note(line)
        self._guests_fd = _open_journal(directory / "guests.journal")
        self._launches_fd = _open_journal(directory / "launches.journal")
        self._stop_with_kernel()

    async def open(self) -> None:
        """Do nothing: the constructor read the journals."""

    def guests_by_key(self) -> Mapping[GuestKey, ListedGuest]:
        """Return the guests in the journal."""
        return self._guests

    def list_guests(self) -> Sequence[ListedGuest]:
        """Return the guests in the journal, with what they were told of when they were ordered."""
        now_ns = time.time_ns()
        return [_listed(line, now_ns < (self._nics_end.of(line.host) or NEVER_NS)) for line in self._guests.values()]

    async def own_changes(self) -> Set[GuestKey]:
        """Have guests do what the file of --fake-die says, once there is one; return which did."""
        if self._faults.die_file is None:
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(DIE_LOOK_S)
            if keys := self._meet_fates():
                return keys

    def _meet_fates(self) -> Set[GuestKey]:
        file = self._faults.die_file
        if file is None or not file.exists():
            return frozenset()
        fates = file.read_text().split()
        file.unlink()
        if len(fates) % 2 or not FATES.keys() >= set(fates[::2]):
            log.error("the file of --fake-die is not read: expected lines of a power state and a server", words=fates)
            return frozenset()
        keys = set[GuestKey]()
        for power_state, server_id in zip(fates[::2], fates[1::2], strict=True):
            for key, line in list(self._guests.items()):
                if server_id in ("all", line.server_id) and line.state not in ("incoming", FATES[power_state]):
                    crashed = "crashed" if power_state == "crashed" else None
                    self._write(replace(line, state=FATES[power_state], power_state=crashed, resume=False))
                    keys.add(key)
        return keys

    def _stop_with_kernel(self) -> None:
        """Stop the guests that ran under an earlier start of the kernel: the host lost its power since."""
        if self.is_kernel_new():
            for line in list(self._guests.values()):
                if line.state in NICS_UP:
                    self._write(replace(line, state="stopped", power_state=None, resume=line.state == "running"))
        self.note_kernel()

    async def launch(self, order: GuestOrder) -> None:
        """Write the guest down, after the delay, unless a fault is due."""
        line = _line_of(order)
        _append(self._launches_fd, line)
        if not self._faults.hosts or order.host in self._faults.hosts:
            if self._vanish_left > 0:
                self._vanish_left -= 1
                await asyncio.Event().wait()
            if self._fail_left > 0:
                self._fail_left -= 1
                await asyncio.sleep(self._faults.delay_s)
                raise LaunchFailed("fake driver: told to fail")
        if order.desired == "incoming" and not order.hurry:
            await self._copy_memory(order.key)
        elif self._faults.delay_s:
            await asyncio.sleep(self._faults.delay_s)
        self._refuse(order)
        self._write(line)

    async def _copy_memory(self, key: GuestKey) -> None:
        hurried = self._copies[key] = asyncio.Event()
        try:
            await asyncio.wait_for(hurried.wait(), self._faults.pre_copy_s)
        except TimeoutError:
            pass
        finally:
            self._copies.pop(key, None)

    async def expect(self, order: GuestOrder) -> MemorySource | None:
        """Return None: the source sends nothing."""
        return None

    def hurry(self, key: GuestKey) -> None:
        """End the pretended copying of memory."""
        if key in self._copies:
            self._copies[key].set()

    async def change(self, order: GuestOrder) -> None:
        """Write the new state down, unless it is to be refused."""
        self._refuse(order)
        self._write(_line_of(order))

    def _refuse(self, order: GuestOrder) -> None:
        here = not self._faults.hosts or order.host in self._faults.hosts
        if here and order.desired in self._faults.states_refused:
            raise LaunchFailed(f"fake driver: told to refuse {order.desired}")

    async def destroy(self, key: GuestKey, *, attempt: int, disk: bool = True) -> None:
        """Write down that the guest is gone, if it is there."""
        present = self._guests.get(key)
        if present is not None and present.attempt <= attempt:
            self._write(GuestLine(server_id=key[0], host=key[1], attempt=present.attempt, gone=True))

    def cut_off(self, key: GuestKey, *, attempt: int) -> None:
        """Write down that the guest is stopped, if it is there."""
        present = self._guests.get(key)
        if present is not None and present.attempt <= attempt and present.state in NICS_UP:
            self._write(replace(present, state="stopped"))

    def nics_end_s(self, *, but_on: Set[str] = frozenset()) -> float | None:
        """Return the earliest time in the file."""
        by_host = self._nics_end.by_host
        ends = [by_host[host] for host in by_host.keys() - but_on]
        ends += [] if self._nics_end.at_ns is None else [self._nics_end.at_ns]
        return min(ends) / NS - time.time() + now_s() if ends else None

    def limit_nics(self, at_s: float) -> None:
        """Write the time down where there is none or a later one."""
        at_ns = _nanoseconds(at_s)
        by_host = {host: min(end, at_ns) for host, end in self._nics_end.by_host.items()}
        self._write_nics_end(NicsEnd(at_ns=min(self._nics_end.at_ns or at_ns, at_ns), by_host=by_host))

    def end_nics(self, at_s: float | None, *, but_on: Set[str] = frozenset()) -> None:
        """Write the time down, atomically."""
        at_ns = None if at_s is None else _nanoseconds(at_s)
        kept = {host: end for host in but_on if (end := self._nics_end.of(host)) is not None}
        self._write_nics_end(NicsEnd(at_ns=at_ns, by_host=kept))

    def _write_nics_end(self, nics_end: NicsEnd) -> None:
        self._nics_end = nics_end
        write_whole(self._directory / "nics-end", msgspec.json.encode(nics_end))

    async def close(self) -> None:
        """Close the journals; another agent may have them now."""
        for fd in (self._guests_fd, self._launches_fd):
            os.close(fd)
        self.unlock()

    def _write(self, line: GuestLine) -> None:
        line = replace(line, at_ns=time.time_ns(), sequence=self._sequence + 1)
        _append(self._guests_fd, line)
        self._note(line)
        if self._stale > STALE_LINES_MAX and self._stale > len(self._guests):
            self._compact()

    def _note(self, line: GuestLine) -> None:
        self._sequence = max(self._sequence, line.sequence)
        if line.gone:
            self._stale += 2
            self._guests.pop(line.key, None)
        else:
            self._stale += line.key in self._guests
            self._guests[line.key] = line

    def _compact(self) -> None:
        half = self._directory / "guests.journal.new"
        latest = _read_lines(self._directory / "guests.journal")[-1:]  # whatever it says, it has the highest sequence
        lines = [*self._guests.values(), *latest]
        half.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        half.rename(self._directory / "guests.journal")
        os.close(self._guests_fd)
        self._guests_fd = _open_journal(self._directory / "guests.journal")
        self._stale = 0


def _line_of(order: GuestOrder) -> GuestLine:
    """Return what is written of a guest that is as it was ordered."""
    addresses = tuple(address for port in order.ports for address in port.addresses)
    return describe_guest(order, GuestLine, state=order.desired, addresses=addresses)


def _listed(line: GuestLine, nics_may_be_up: bool) -> ListedGuest:
    """Return what a list says of a guest."""
    nics_up = nics_may_be_up and line.state in NICS_UP
    return copy_as(
        ListedGuest,
        line,
        power_state=line.power_state or POWER_STATES.get(line.state),
        nics=tuple(replace(nic, up=nics_up) for nic in line.nics),
    )


def list_launches(directory: Path) -> list[GuestLine]:
    """Return every launch that was ever tried with this state directory, in order."""
    return _read_lines(directory / "launches.journal")


def list_guests(directory: Path) -> dict[GuestKey, int]:
    """Return the guests that a state directory holds, with their attempts; also while its agent runs."""
    return {key: line.attempt for key, line in list_present(directory).items()}


def list_present(directory: Path) -> dict[GuestKey, GuestLine]:
    """Return what is written of each guest that a state directory holds; also while its agent runs."""
    lines: dict[GuestKey, GuestLine] = {}
    for line in _read_lines(directory / "guests.journal"):
        lines[line.server_id, line.host] = line
    return {key: line for key, line in lines.items() if not line.gone}


def read_nics_end(directory: Path) -> NicsEnd:
    """Return until when the guests of a state directory have their NICs up; also while its agent runs."""
    try:
        return msgspec.json.decode((directory / "nics-end").read_bytes(), type=NicsEnd)
    except FileNotFoundError:
        return NicsEnd()


def _nanoseconds(at_s: float) -> int:
    """Return a time of CLOCK_BOOTTIME in nanoseconds since 1970."""
    return round((at_s - now_s() + time.time()) * NS)


def _read_lines(path: Path) -> list[GuestLine]:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    whole = text[: text.rfind(b"\n") + 1]
    return msgspec.json.Decoder(GuestLine).decode_lines(whole)


def _open_journal(path: Path) -> int:
    """Open for appending, behind the last whole line."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    text = path.read_bytes()
    os.ftruncate(fd, text.rfind(b"\n") + 1)
    return fd


def _append(fd: int, line: GuestLine) -> None:
    os.write(fd, msgspec.json.encode(line) + b"\n")
