"""One guest on its host: what is known of it, its QEMU, and the connection to it."""

import asyncio
import base64
import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.programs import ProgramFailed, end_process, find_process, start_daemon, wait_process
from roost.agent.drivers.qemu.command import (
    CONSOLE_BYTES,
    Account,
    GuestFiles,
    Machine,
    Plug,
    guest_command,
    monitor_option,
    plan_plugs,
)
from roost.agent.drivers.qemu.image import BootFiles
from roost.agent.drivers.qemu.nics import NicPlan, open_taps
from roost.agent.drivers.qemu.qmp import Event, Qmp
from roost.agent.drivers.state import POWER_STATES, describe_guest, write_whole
from roost.platform.crash import crash_point
from roost.platform.errors import reason_of
from roost.seams.agent import NICS_UP, Desired, GuestOrder, ListedGuest, PowerState

SOFT_STOP_S = 60.0
"""How long a guest has to shut down when it is asked to. Source: Nova's shutdown_timeout."""
QUIT_S = 10.0
MEMORY_S = 600.0
"""How long memory may take to be written to its file, or read from it."""
CANCEL_S = 20.0
RATE_MOST = 2**40
"""Bytes a second, of memory that nothing holds back."""
LOOK_S = 0.05
RETRY_S = 0.5
"""How long a guest that its disk had halted is looked at, when it goes on: what failed is tried again at once."""
IO_REASONS = {"nospace": "the host's disk is full", "failed": "the host cannot write it"}

log = structlog.get_logger()
CONSOLE_KEPT_S = 86400.0
"""How long the console of a guest is kept that was destroyed."""


class GuestMeta(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is written of a guest. is_made: its launch came to its end. leaving: its memory is another host's by now.

    cut_off: its NICs are down for good.
    plugs: the NICs that its QEMU has, or had last; perhaps others that it was about to get or to lose.
    slots_freed: PCI ports that lost a NIC while it ran, the latest last.
    """

    order: GuestOrder
    state: Desired
    machine: Machine
    sequence: int = 0
    is_made: bool = False
    leaving: bool = False
    cut_off: bool = False
    power_state: PowerState | None = None
    resume: bool = False
    plugs: tuple[Plug, ...] = ()
    slots_freed: tuple[int, ...] = ()


OnChange = Callable[["Guest"], None]
"""Called when a guest's QEMU has said something or ended, and when nothing more is at work on it."""


class Guest:
    """A guest whose folder is there. nics_up: they are to be up.

    works: of how many that are at work; what it does meanwhile was asked of it. halted: QEMU said last that it stands.
    is_shut_down: it said last that the guest, or somebody on the host, ends it.
    is_settled: its QEMU has said that it has its order's NICs, and no others.
    """

    def __init__(self, meta: GuestMeta, files: GuestFiles, nics: tuple[NicPlan, ...], on_change: OnChange) -> None:
        self.meta = meta
        self.files = files
        self.nics = nics
        self._on_change = on_change
        self.nics_up = False
        self.works = 0
        self.plugging = asyncio.Lock()
        self.is_settled = False
        self.finding = asyncio.Lock()
        self.halted = self.is_shut_down = False
        self._qmp: Qmp | None = None

    @property
    def qmp(self) -> Qmp:
        """Return the connection to its QEMU. Raises LaunchFailed where there is none."""
        if self._qmp is None or not self._qmp.is_open:
            raise LaunchFailed("the guest's QEMU does not run")
        return self._qmp

    @property
    def is_alive(self) -> bool:
        """Return whether its QEMU runs."""
        return self._qmp is not None and self._qmp.is_open

    @property
    def is_up(self) -> bool:
        """Return whether its NICs are to be up, and may be."""
        return self.nics_up and not self.meta.cut_off

    @property
    def has_ended(self) -> bool:
        """Return whether its QEMU ended, after it had answered."""
        return self._qmp is not None and not self._qmp.is_open

    @property
    def is_silent(self) -> bool:
        """Return whether its QEMU runs, or should, and says nothing."""
        state = self.meta.state
        if self.is_alive or not self.meta.is_made or state == "incoming":
            return False
        return state in NICS_UP or self.find_process() is not None

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Have what it does meanwhile be asked for; what is so afterwards, and was not, it did by itself."""
        self.works += 1
        try:
            yield
        finally:
            self.works -= 1
            self._on_change(self)

    def listed(self, *, nics_up: bool) -> ListedGuest:
        """Return what a list says of it."""
        meta = self.meta
        return describe_guest(
            meta.order,
            ListedGuest,
            nics_up=nics_up,
            state=meta.state,
            power_state=meta.power_state or POWER_STATES.get(meta.state),
            sequence=meta.sequence,
            resume=meta.resume,
        )

    def keep(self, meta: GuestMeta) -> None:
        """Note what is known of it, and write it, whole or not at all. Raises OSError."""
        self.meta = meta
        self.files.folder.mkdir(parents=True, exist_ok=True, mode=0o711)
        write_whole(self.files.meta, msgspec.json.encode(meta))

    def keep_plugs(self, plugs: Iterable[Plug], **other: Any) -> None:
        """Note and write which NICs its QEMU has, if these are others. Raises OSError."""
        if (meta := replace(self.meta, plugs=tuple(plugs), **other)) != self.meta:
            self.keep(meta)

    @property
    def plugs_kept(self) -> tuple[Plug, ...]:
        """Return what of its QEMU's NICs is of its order."""
        own = {(nic.tap, nic.mac) for nic in self.nics}
        return tuple(plug for plug in self.meta.plugs if (plug.tap, plug.mac) in own and not plug.dead)

    def find_process(self) -> int | None:
        """Return its QEMU's process, if it lives. One that an older agent started wrote its number itself."""
        words = "-uuid", self.meta.order.server_id, monitor_option(self.files)
        return find_process(self.files.pid, *words) or find_process(self.files.run / "pid", *words)

    async def connect(self) -> None:
        """Connect to its QEMU. Raises LaunchFailed."""
        self.halted = self.is_shut_down = False
        self.is_settled = False  # what is written may be what was about to be done
        qmp = self._qmp = await Qmp.connect(self.files.qmp)
        qmp.on_event = self._note_event
        qmp.on_close = lambda: self._on_change(self)

    def _note_event(self, event: Event) -> None:
        if event["event"] in ("STOP", "RESUME"):
            self.halted = event["event"] == "STOP"
        elif event["event"] == "SHUTDOWN":
            self.is_shut_down = event.get("data", {}).get("reason") in ("guest-shutdown", "host-signal")
        self._on_change(self)

    async def disconnect(self) -> None:
        """Close the connection; its QEMU goes on."""
        if self._qmp is not None:
            await self._qmp.close()
            self._qmp = None

    async def start(self, image: BootFiles, account: Account, *, waits_for_memory: bool = False) -> None:
        """Start its QEMU, which stands before its first instruction, with its NICs down.

        One that waits for memory has the NICs that the memory knows.
        Raises LaunchFailed.
        """
        await self.kill()
        order, run = self.meta.order, self.files.run
        run.mkdir(mode=0o700, exist_ok=True)
        os.chown(run, account.uid, account.gid)
        if order.disk_gb and not self.files.disk.exists():
            raise ProgramFailed(f"the server's disk is gone from its host: {self.files.disk}")
        plugs = self.meta.plugs if waits_for_memory else plan_plugs(self.nics, self.plugs_kept)
        self.keep_plugs(plugs)
        with open_taps(plug.tap for plug in plugs) as taps:
            command = guest_command(
                order,
                machine=self.meta.machine,
                files=self.files,
                kernel=image.kernel,
                initrd=image.initrd,
                nics=list(zip(plugs, taps, strict=True)),
                account=account,
                waits_for_memory=waits_for_memory,
            )
            await start_daemon(command, taps, pid_file=self.files.pid, ready=self.files.qmp, errors=self.files.errors)
        await self.connect()

    async def go_on(self) -> None:
        """Have it run. Raises LaunchFailed, also where its disk halts it again, as it had before."""
        was_halted = self.meta.state == "paused" and (await self.qmp.execute("query-status"))["status"] == "io-error"
        await self.qmp.execute("cont")
        await self.qmp.execute("announce-self", {"initial": 50, "max": 550, "rounds": 5, "step": 100})
        deadline_s = time.monotonic() + RETRY_S
        while was_halted and time.monotonic() < deadline_s:
            if self.halted:
                statuses = {device.get("io-status") for device in await self.qmp.execute("query-block")}
                reasons = [IO_REASONS[status] for status in IO_REASONS if status in statuses]
                raise LaunchFailed(f"the server's disk halts it: {', '.join(reasons) or 'QEMU gives no reason'}")
            await asyncio.sleep(LOOK_S)

    async def shut_down(self, *, soft: bool) -> None:
        """Have its QEMU end: with soft, the guest is asked first, and has a while. Raises ProgramFailed."""
        pid = self.find_process()
        with contextlib.suppress(LaunchFailed):
            if soft and pid is not None:
                await self.qmp.execute("system_powerdown")
                await wait_process(pid, timeout_s=SOFT_STOP_S)
        with contextlib.suppress(LaunchFailed):
            await self.drain_console()
            await self.qmp.execute("quit", timeout_s=QUIT_S)
        with contextlib.suppress(ProgramFailed):
            if pid is not None:
                await wait_process(pid, timeout_s=QUIT_S)
        await self.kill()

    async def kill(self) -> None:
        """Have no QEMU of it. Raises ProgramFailed."""
        if (pid := self.find_process()) is not None:
            await end_process(pid)
        await self.disconnect()
        await asyncio.to_thread(shutil.rmtree, self.files.run, ignore_errors=True)

    async def list_devices(self) -> set[str]:
        """Return the ids of its QEMU's devices. Raises LaunchFailed."""
        return {item["name"] for item in await self.qmp.execute("qom-list", {"path": "/machine/peripheral"})}

    async def note_plugs(self) -> None:
        """Write which NICs it has, before its memory moves: it may have let some go since. Raises as list_devices."""
        devices = await self.list_devices()
        self.keep_plugs(plug for plug in self.meta.plugs if plug.device in devices)

    async def write_memory(self) -> None:
        """Write the memory of a guest that stands to its file, whole or not at all. Raises LaunchFailed."""
        await self.note_plugs()
        half = self.files.memory_half
        try:
            with half.open("wb") as file:
                await self.qmp.send_file("memory", file.fileno())
            await self.begin_migration("fd:memory", {"max-bandwidth": RATE_MOST}, pauses=False)
            await self.wait_migration("completed", within_s=MEMORY_S)
        except BaseException:
            await self.cancel_migration()
            await asyncio.to_thread(half.unlink, missing_ok=True)
            raise
        half.rename(self.files.memory)
        crash_point("guest.after-memory")

    async def read_memory(self) -> None:
        """Have the guest be what its file has. Raises LaunchFailed."""
        with self.files.memory.open("rb") as file:
            await self.qmp.send_file("memory", file.fileno())
            await self.qmp.execute("migrate-incoming", {"uri": "fd:memory"})
            await self.wait_migration("completed", within_s=MEMORY_S)

    async def begin_migration(self, uri: str, parameters: Mapping[str, int], *, pauses: bool) -> None:
        """Have its QEMU begin to send its memory; with `pauses`, it waits before the end. Raises LaunchFailed."""
        capability = {"capability": "pause-before-switchover", "state": pauses}
        await self.qmp.execute("migrate-set-capabilities", {"capabilities": [capability]})
        await self.qmp.execute("migrate-set-parameters", parameters)
        await self.qmp.execute("migrate", {"uri": uri})

    async def cancel_migration(self) -> None:
        """Have its QEMU write and send no memory, so far as it answers: what goes on would halt the guest later."""
        with contextlib.suppress(LaunchFailed):
            await self.qmp.execute("migrate_cancel")
            await self.wait_migration("none", "cancelled", "failed", "completed", within_s=CANCEL_S)

    async def wait_migration(self, *wanted: str, within_s: float) -> str:
        """Return the migration's status once it is one of these. Raises LaunchFailed when it failed or takes longer."""
        deadline_s = time.monotonic() + within_s
        while (status := (await self.find_migration(*wanted)).get("status", "none")) not in wanted:
            if time.monotonic() > deadline_s:
                raise LaunchFailed(f"the memory was not copied within {within_s:.0f} s: its copy is {status}")
            await asyncio.sleep(LOOK_S)
        return str(status)

    async def find_migration(self, *statuses_awaited: str) -> Mapping[str, Any]:
        """Return what QEMU says of its migration. Raises LaunchFailed, also when it failed and that is not awaited."""
        migration: Mapping[str, Any] = await self.qmp.execute("query-migrate")
        status = migration.get("status")
        if status in ("failed", "cancelled") and status not in statuses_awaited:
            raise LaunchFailed(f"the memory was not copied: {migration.get('error-desc', status)}")
        return migration

    async def drain_console(self) -> None:
        """Append what the guest said to its file, which is a ring; what cannot be written is lost.

        Raises LaunchFailed.
        """
        text = await self.qmp.execute("ringbuf-read", {"device": "console", "size": CONSOLE_BYTES, "format": "base64"})
        try:
            if text:
                append_ring(self.files.console, base64.b64decode(text), CONSOLE_BYTES)
        except OSError as error:
            log.warning("a guest's console is not written", server_id=self.meta.order.server_id, error=reason_of(error))

    def keep_console(self, folder: Path) -> None:
        """Keep what it said last in a folder, and of others that are gone what is not too old."""
        for path in folder.iterdir():
            if path.stat().st_mtime < time.time() - CONSOLE_KEPT_S:
                path.unlink()
        if self.files.console.exists():
            self.files.console.rename(folder / f"{self.meta.order.server_id}-{self.meta.order.attempt}.log")

    def change_order(self, order: GuestOrder, nics: tuple[NicPlan, ...]) -> None:
        """Write what it is ordered to be; its NICs are those of the order before until it has these."""
        self.keep(replace(self.meta, order=replace(order, nics_version=self.meta.order.nics_version)))
        self.is_settled = self.is_settled and self.nics == nics
        self.nics = nics


@contextlib.contextmanager
def failing_plainly() -> Iterator[None]:
    """Raise LaunchFailed for what files say, and for what takes too long."""
    try:
        yield
    except TimeoutError as error:
        raise LaunchFailed("it took too long") from error
    except OSError as error:
        raise LaunchFailed(f"{error.filename or 'the host'}: {error.strerror}") from error


def append_ring(path: Path, content: bytes, size: int) -> None:
    """Append to a file; what is above its size goes from the front, half of it at once."""
    with path.open("ab") as file:
        file.write(content)
    if path.stat().st_size > size:
        path.write_bytes(path.read_bytes()[-size // 2 :])
