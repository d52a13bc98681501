"""The driver whose guests are QEMU's: implements roost.agent.drivers.Driver for one host.

Each guest has a folder with what is known of it, and a QEMU that is its own daemon: it goes on without the agent, and a
new agent finds it by its process and its socket. What was half done when an agent died is ended at the next start: a
launch leaves nothing, everything else is as it was reported last, or as its QEMU says.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Coroutine, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
from msgspec.structs import replace

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.programs import run_program
from roost.agent.drivers.qemu.command import PROGRAM, Account, GuestFiles, Machine, find_misfit
from roost.agent.drivers.qemu.disks import Disks
from roost.agent.drivers.qemu.guest import Guest, GuestMeta, failing_plainly
from roost.agent.drivers.qemu.host_network import HostNetwork
from roost.agent.drivers.qemu.image import ensure_image
from roost.agent.drivers.qemu.moves import Contexts, MeetingPoint, end_receiving, prepare_receiving
from roost.agent.drivers.qemu.nics import NicPlan, check_bridges, plan_nics
from roost.agent.drivers.qemu.plugs import replug
from roost.agent.drivers.qemu.sending import Sending, send_disk
from roost.agent.drivers.qemu.upkeep import find_guest, keep_up, read_guest, settle_guest
from roost.agent.drivers.state import AgentState, write_whole
from roost.platform.crash import crash_point
from roost.platform.errors import reason_of
from roost.seams.agent import NICS_UP, Desired, GuestKey, GuestOrder, ListedGuest, PowerState
from roost.seams.guests import MemorySource

PRIVATE = 0o066
"""Of modes: folders are passed through by the accounts of QEMU and dnsmasq, files are the agent's alone."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class QemuOptions:
    """What a host's driver works with. bridges: physical network -> bridge. account: QEMU's.

    disks: the folder of root disks, which other hosts have too; None for one of this host's. tls: under which agents
    meet.
    """

    host: str
    directory: Path
    bridges: Mapping[str, str]
    machine: Machine
    account: Account
    migrate_listen: str = "0.0.0.0"
    disks: Path | None = None
    tls: Contexts | None = None


class QemuDriver(AgentState):
    """Implements roost.agent.drivers.Driver."""

    needs_descriptions = True
    keeps_disks = True

    def __init__(self, options: QemuOptions) -> None:
        """Lock the state directory. Raises StateInUse."""
        self._options = options
        super().__init__(options.directory, mode=0o711)
        self._guests: dict[GuestKey, Guest] = {}
        self._sendings: dict[GuestKey, Sending] = {}
        self._point = MeetingPoint(options.migrate_listen, options.tls)
        self._disks = Disks(options.disks or options.directory / "disks", options.host, options.account)
        self._network = HostNetwork(options.directory, self._nics, kernel_is_new=self.is_kernel_new())
        self._changed: set[GuestKey] = set()
        self._changes = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sequence_file = options.directory / "sequence"
        self._sequence = int(self._sequence_file.read_text()) if self._sequence_file.exists() else 0

    async def open(self) -> None:
        """Find the guests that are here, end what was half done, and listen for live migrations.

        Raises ProgramFailed, OSError.
        """
        os.umask(PRIVATE)
        kernel_is_new = self.is_kernel_new()
        for name in ("guests", "consoles", "disks"):
            (self._options.directory / name).mkdir(exist_ok=True, mode=0o711)
        await self._point.open()
        folders = sorted((self._options.directory / "guests").iterdir())
        guests = [read_guest(self._files(folder.name), self._options.bridges, self._look) for folder in folders]
        self._guests.update({guest.meta.order.key: guest for guest in guests if guest is not None})  # R55
        settle = partial(self._settle, kernel_is_new=kernel_is_new)
        await asyncio.gather(*[find_guest(guest, settle, self._remove) for guest in list(self._guests.values())])
        self.note_kernel()
        await self._network.apply()
        for guest in self._guests.values():
            self._keep_up(guest)
        self._spawn(self._network.renew())

    async def _settle(self, guest: Guest, status: str, *, kernel_is_new: bool = False) -> None:
        state = await settle_guest(guest, status)
        guest.nics_up = state in NICS_UP
        if state != guest.meta.state:
            died = state == "stopped" and not kernel_is_new
            resume = state == "stopped" and kernel_is_new and guest.meta.state == "running"
            self._note(guest, state, power_state="crashed" if died else None, resume=resume)

    async def _find(self, guest: Guest) -> bool:
        """Take a guest as it is, if its QEMU answers again."""

        async def settle(guest: Guest, status: str) -> None:
            await self._settle(guest, status)
            await self._network.apply()
            self._tell(guest)

        return await find_guest(guest, settle, self._remove)

    def _keep_up(self, guest: Guest) -> None:
        key = guest.meta.order.key
        upkeep = keep_up(
            guest,
            self._find,
            is_known=lambda: self._guests.get(key) is guest,
            may_plug=lambda: self._is_here(guest) and not self._is_sent(guest),
        )
        self._spawn(upkeep)

    # What there is.

    def guests_by_key(self) -> Mapping[GuestKey, ListedGuest]:
        """Return the guests that are made."""
        return {guest.key: guest for guest in self.list_guests()}

    def list_guests(self) -> Sequence[ListedGuest]:
        """Return the guests that are made, as they are now."""
        over, guests = self._network.is_over, self._guests.values()
        return [guest.listed(nics_up=guest.is_up and not over) for guest in guests if guest.meta.is_made]

    async def own_changes(self) -> Set[GuestKey]:
        """Wait until guests have changed by themselves, and return them."""
        await self._changes.wait()
        self._changes.clear()
        changed, self._changed = self._changed, set()
        return changed

    def _look(self, guest: Guest) -> None:
        """Take note of what a guest has done by itself."""
        if guest.works or not self._is_here(guest):
            return
        if guest.has_ended and guest.meta.state in NICS_UP:
            self._note(guest, "stopped", power_state=None if guest.is_shut_down else "crashed")
        elif guest.halted and guest.meta.state == "running" and not self._is_sent(guest):
            self._note(guest, "paused", power_state=None)
        else:
            return
        self._tell(guest)
        self._spawn(self._network.apply())

    def _is_here(self, guest: Guest) -> bool:
        """Return whether a guest is this host's: it is made, was not replaced, does not come, and has not left."""
        meta = guest.meta
        is_whole = meta.is_made and not meta.leaving and meta.state != "incoming"
        return is_whole and self._guests.get(meta.order.key) is guest

    def _tell(self, guest: Guest) -> None:
        self._changed.add(guest.meta.order.key)
        self._changes.set()

    def _note(self, guest: Guest, state: Desired, *, power_state: PowerState | None, **other: bool) -> None:
        """Note what a guest did by itself, also on a full disk: the next agent asks QEMU."""
        guest.nics_up = state in NICS_UP
        try:
            self._keep(guest, state=state, power_state=power_state, **other)
        except OSError as error:
            log.error("what a guest did is not written", server_id=guest.meta.order.server_id, error=reason_of(error))

    def _keep(self, guest: Guest, *, state: Desired, power_state: PowerState | None = None, **other: bool) -> None:
        """Note and write what a guest is now, with a sequence that is higher than all before. Raises OSError."""
        self._sequence += 1
        crash_point("guest.before-keep")
        changes = {"is_made": True, "resume": False, "leaving": False, **other}
        guest.meta = replace(guest.meta, state=state, power_state=power_state, sequence=self._sequence, **changes)
        write_whole(self._sequence_file, str(self._sequence).encode())
        guest.keep(guest.meta)

    # Guests.

    async def launch(self, order: GuestOrder) -> None:
        """Make the guest; what an earlier attempt left goes first. Raises LaunchFailed."""
        if (former := self._guests.get(order.key)) is not None:
            with former.at_work(), failing_plainly():
                await former.shut_down(soft=order.soft and former.meta.state == "running")
            await self._remove(former)
        guest = await self._plan(order)
        self._guests[order.key] = guest
        self._keep_up(guest)
        with failing_plainly(), guest.at_work():
            guest.keep(guest.meta)
            crash_point("guest.after-plan")
            if order.desired == "incoming":
                await self._receive(guest)
            else:
                await self._disks.have(order, self._point)
            if order.desired in NICS_UP:
                await self._boot(guest, order.desired)
            self._keep(guest, state=order.desired)

    async def _plan(self, order: GuestOrder) -> Guest:
        if order.image is not None and order.image.url:
            raise LaunchFailed(f"image {order.image.id}: this agent has only the built-in image")
        files = self._files(order.server_id)
        nics = plan_nics(order, self._options.bridges)
        check_bridges(nics)
        meta = GuestMeta(order=order, state=order.desired, machine=self._options.machine)
        return Guest(meta, files, nics, self._look)

    def _files(self, server_id: str) -> GuestFiles:
        folder, is_shared = self._options.directory / "guests" / server_id, self._options.disks is not None
        return GuestFiles(folder, self._disks.path(server_id), is_shared=is_shared)

    async def _boot(self, guest: Guest, desired: Desired) -> None:
        """Have its QEMU start, its NICs come up, and it run, in this order."""
        check_bridges(guest.nics)
        suspended = guest.files.memory.exists()
        image = await ensure_image()
        await self._network.apply(guest.nics)
        try:
            await guest.start(image, self._options.account, waits_for_memory=suspended)
            crash_point("guest.after-start")
            if suspended:
                await guest.read_memory()
            await self._go_on(guest, desired)
        except BaseException:
            guest.nics_up = False
            await guest.kill()
            raise

    async def _go_on(self, guest: Guest, desired: Desired) -> None:
        """Have its NICs come up and it run. Switches learn where it is: DHCP, which stays here, tells them nothing."""
        await self._set_nics(guest, up=True)
        if desired == "running":
            await guest.go_on()

    async def _set_nics(self, guest: Guest, *, up: bool) -> None:
        guest.nics_up = up
        await self._network.apply(guest.nics if up else ())

    async def change(self, order: GuestOrder) -> None:
        """Bring the guest into another state, or have its memory sent. Raises LaunchFailed."""
        guest = self._guests[order.key]
        is_silent = guest.is_silent and guest.meta.state in NICS_UP and guest.find_process() is not None
        if is_silent and not await self._find(guest) and order.desired != "stopped":
            raise LaunchFailed("the guest's QEMU runs and does not answer: the guest stays as it is until it does")
        with failing_plainly(), guest.at_work():
            await self._carry_out(guest, order)
            guest.keep(replace(guest.meta, order=order))

    async def _carry_out(self, guest: Guest, order: GuestOrder) -> None:
        nics_before = guest.nics
        guest.change_order(order, plan_nics(order, self._options.bridges))
        if guest.nics != nics_before:
            needed = guest.nics if order.desired in NICS_UP else ()
            await self._network.apply(needed)  # what it has no longer is dead from here on
        if order.desired == guest.meta.state and order.desired not in NICS_UP and order.meeting is None:
            return
        if order.desired in NICS_UP and order.meeting is not None:
            return await self._send(guest, order.meeting)
        sending = self._sendings.get(order.key)
        if sending is not None and sending.has_begun and not sending.is_over and order.desired == "stopped":
            return await self._hand_over(guest, sending)
        if sending is not None:
            await self._forget_sending(order.key)
        if order.desired == "stopped" and order.meeting is not None:
            return await send_disk(guest, order.meeting, self._options.tls)
        await self._become(guest, order)
        self._keep(guest, state=order.desired)
        if order.desired in NICS_UP:
            await asyncio.to_thread(guest.files.memory.unlink, missing_ok=True)

    async def _become(self, guest: Guest, order: GuestOrder) -> None:
        if order.desired == "stopped":
            await guest.shut_down(soft=order.soft and guest.meta.state == "running")
            await self._set_nics(guest, up=False)
        elif order.desired == "suspended":
            await self._suspend(guest)
        elif guest.meta.state == "incoming":
            await end_receiving(guest)
            self._point.forget(order.key)
            await self._go_on(guest, order.desired)
        elif not guest.is_alive:
            await self._boot(guest, order.desired)
        else:
            await replug(guest)
            if order.desired == "paused":
                await guest.qmp.execute("stop")
            await self._go_on(guest, order.desired)

    async def _suspend(self, guest: Guest) -> None:
        """Write its memory to a file; a guest whose memory cannot be written goes on."""
        try:
            async with guest.plugging:  # a guest that stands lets no NIC go
                await self._set_nics(guest, up=False)
                await guest.qmp.execute("stop")
                await guest.write_memory()
        except BaseException:
            await self._go_on(guest, guest.meta.state)
            raise
        await guest.shut_down(soft=False)

    async def destroy(self, key: GuestKey, *, attempt: int, disk: bool) -> None:
        """Leave nothing of the guest but its console's last words, and its disk, if that is not to go."""
        if (guest := self._guests.get(key)) is not None:
            if guest.meta.order.attempt > attempt:
                return
            await self._remove(guest)
        if disk:
            await asyncio.to_thread(self._disks.delete, key[0])

    async def _remove(self, guest: Guest) -> None:
        key = guest.meta.order.key
        async with guest.finding:
            guest.works += 1
        await self._forget_sending(key)
        self._point.forget(key)
        with contextlib.suppress(LaunchFailed):
            await guest.drain_console()
        await guest.kill()
        if self._guests.get(key, guest) is not guest:
            return  # R51
        crash_point("guest.after-kill")
        guest.keep_console(self._options.directory / "consoles")
        await asyncio.to_thread(shutil.rmtree, guest.files.folder, ignore_errors=True)
        self._guests.pop(key, None)
        await self._network.apply()

    # Migration.

    async def expect(self, order: GuestOrder) -> MemorySource | None:
        """Return where the memory, or the disk, of a guest is awaited that is to be launched."""
        guest = self._guests.get(order.key)
        is_new = guest is None or guest.meta.order.attempt != order.attempt
        awaits = order.desired == "incoming" or (is_new and await self._disks.is_awaited(order))
        return self._point.expect(order.key) if awaits else None

    def hurry(self, key: GuestKey) -> None:
        """Have the memory taken over as it is."""
        with contextlib.suppress(LaunchFailed):  # nobody awaits it
            self._point.get(key).hurried.set()

    async def _receive(self, guest: Guest) -> None:
        order = guest.meta.order
        meeting = self._point.get(order.key)
        if order.hurry:
            meeting.hurried.set()
        offer = await meeting.wait_offer()
        with meeting.refusing(), failing_plainly():
            known = await run_program(PROGRAM, "-machine", "help")
            misfit = find_misfit(offer.machine, self._options.machine, known)
            if misfit is not None:
                raise LaunchFailed(misfit)
            guest.keep(replace(guest.meta, machine=offer.machine, plugs=offer.plugs))
            image = await ensure_image()
            has_disk = await self._disks.have(order)
            await guest.start(image, self._options.account, waits_for_memory=True)
            await self._network.apply(guest.nics)
            await prepare_receiving(guest, meeting, has_disk=has_disk)
        await meeting.wait_near()
        crash_point("receive.after-near")

    async def _send(self, guest: Guest, source: MemorySource) -> None:
        key = guest.meta.order.key
        if (sending := self._sendings.get(key)) is None or sending.source != source or sending.is_over:
            await self._forget_sending(key)
            sending = self._sendings[key] = Sending(guest, source, self._options.tls)
        await sending.wait_near()  # a stop that overtakes this order hands over what is left
        crash_point("send.after-begin")

    async def _hand_over(self, guest: Guest, sending: Sending) -> None:
        """Send the rest of the memory: the guest's QEMU stands from then on, until it is destroyed or is to go on."""
        try:
            await self._set_nics(guest, up=False)
            await sending.finish()
            crash_point("send.after-finish")
        except BaseException:
            await self._forget_sending(guest.meta.order.key)
            await self._go_on(guest, guest.meta.state)
            raise
        self._keep(guest, state="stopped", leaving=True)
        self._sendings.pop(guest.meta.order.key, None)

    async def _forget_sending(self, key: GuestKey) -> None:
        if (sending := self._sendings.get(key)) is not None:
            await sending.cancel()
            if self._sendings.get(key) is sending:
                del self._sendings[key]

    def _is_sent(self, guest: Guest) -> bool:
        """Return whether its memory is on its way."""
        return (sending := self._sendings.get(guest.meta.order.key)) is not None and not sending.is_over

    # NICs.

    def cut_off(self, key: GuestKey, *, attempt: int) -> None:
        """Have its NICs be down: soon after this returns, and before a later end holds for any."""
        guest = self._guests.get(key)
        if guest is not None and guest.meta.order.attempt <= attempt:
            self._spawn(self._network.apply())
            guest.keep(replace(guest.meta, cut_off=True))

    def nics_end_s(self, *, but_on: Set[str] = frozenset()) -> float | None:
        """Return when NICs go down."""
        return None if self._options.host in but_on else self._network.end_s

    def limit_nics(self, at_s: float) -> None:
        """Have NICs stay up no longer; it holds once this returns."""
        if self._network.end_s is None or at_s < self._network.end_s:
            self._network.note_end(at_s)
            self._network.apply_now()

    def end_nics(self, at_s: float | None, *, but_on: Set[str] = frozenset()) -> None:
        """Have NICs go down then: soon after this returns, so that they may go down too early."""
        if self._options.host not in but_on:
            self._spawn(self._network.apply())  # it runs later, and also where this cannot be written
            self._network.note_end(at_s)

    def _nics(self) -> list[tuple[NicPlan, bool]]:
        return [(nic, guest.is_up) for guest in self._guests.values() for nic in guest.nics]

    # Beside orders.

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the driver does not keep up", error=str(error))

    async def close(self) -> None:
        """Close what is open; the guests stay."""
        for key in list(self._sendings):
            await self._forget_sending(key)
        await self._point.close()
        for task in list(self._tasks):
            task.cancel()
        for guest in self._guests.values():
            await guest.disconnect()
        self.unlock()
