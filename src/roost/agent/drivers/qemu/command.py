"""The command line of a guest's QEMU: from its order and what its host has. Pure.

Whatever a disk is, its format is stated and never probed. QEMU runs as an account of its own, in its own sandbox, with
its NICs as open files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from msgspec import Struct

from roost.agent.drivers.qemu.nics import NicPlan
from roost.seams.agent import GuestOrder

PROGRAM = "qemu-system-x86_64"
TCG_BUFFER_MB = 32
CONSOLE_BYTES = 1024 * 1024
KERNEL_LINE = "console=ttyS0 quiet mitigations=off random.trust_cpu=on panic=-1"
SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
CPU_BY_ACCEL = {"kvm": "host", "tcg": "qemu64"}
NICS_SPARE = 8
"""PCI slots for NICs that come while a guest runs."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """Whom QEMU runs as. groups: besides its own."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a guest's QEMU is to be, which both ends of a live migration have alike. type: of a version, no alias.

    cpu: as QEMU calls it. cpu_name: the same, or what the machine's own is called.
    """

    accel: str
    type: str
    cpu: str
    cpu_name: str


class Plug(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A NIC that a QEMU has. slot: the PCI port that it is behind; behind none of its own from NICS_SPARE on.

    dead: its host's end is gone, and the guest is to let it go.
    """

    tap: str
    mac: str
    mtu: int
    slot: int
    dead: bool = False

    @property
    def device(self) -> str:
        """Return its id as a device."""
        return f"dev-{self.tap}"


class GuestFiles:
    """Where a guest's files are. run: the folder that QEMU may write in; all else but the disk is the agent's.

    meta: what the driver knows of it. qmp: QEMU's monitor. memory: of a guest that is suspended. memory_half: the same
    while it is written. console: what it said last. errors: what its QEMU said. is_shared: the disk is in a folder that
    hosts share.
    """

    def __init__(self, folder: Path, disk: Path, *, is_shared: bool = False) -> None:
        self.folder, self.run, self.disk, self.is_shared = folder, folder / "run", disk, is_shared
        self.qmp, self.pid = self.run / "qmp", folder / "pid"
        self.meta, self.memory = folder / "meta.json", folder / "memory"
        self.memory_half = folder / "memory.new"
        self.console, self.errors = folder / "console.log", folder / "qemu.log"


def guest_command(
    order: GuestOrder,
    *,
    machine: Machine,
    files: GuestFiles,
    kernel: Path,
    initrd: Path,
    nics: Sequence[tuple[Plug, int]] = (),
    account: Account,
    waits_for_memory: bool = False,
) -> list[str]:
    """Return the arguments of a QEMU that is stopped before its first instruction.

    It does not become a daemon by itself, which its sandbox forbids.
    nics: with the number of the open file of each tap. waits_for_memory: it is told later where that comes from.
    """
    accel = f"tcg,tb-size={TCG_BUFFER_MB}" if machine.accel == "tcg" else machine.accel
    arguments = [
        *(*account_command(account), PROGRAM, "-name", order.server_id, "-uuid", order.server_id),
        *("-nodefaults", "-no-user-config", "-display", "none", "-sandbox", SANDBOX),
        *("-machine", machine.type, "-accel", accel, "-cpu", machine.cpu),
        *("-m", f"{order.ram_mb}M", "-smp", str(max(order.vcpus, 1))),
        *("-kernel", str(kernel), "-initrd", str(initrd), "-append", kernel_line(order)),
        *("-chardev", f"ringbuf,id=console,size={CONSOLE_BYTES}", "-serial", "chardev:console"),
        *("-chardev", monitor_option(files), "-mon", "chardev=qmp,mode=control", "-S"),
    ]
    for slot in range(NICS_SPARE):
        arguments += ["-device", f"pcie-root-port,id=port{slot},chassis={slot + 1}"]
    if order.disk_gb:
        arguments += ["-blockdev", disk_option(files), "-device", "virtio-blk-pci,id=root,drive=disk"]
    for plug, fd in nics:
        properties = ",".join(f"{name}={value}" for name, value in nic_device(plug).items())
        arguments += ["-netdev", f"tap,id={plug.tap},fd={fd}", "-device", properties.removeprefix("driver=")]
    return [*arguments, "-incoming", "defer"] if waits_for_memory else arguments


def monitor_option(files: GuestFiles) -> str:
    """Return QEMU's monitor as -chardev takes it: no other QEMU has the same."""
    return f"socket,id=qmp,path={_value(files.qmp)},server=on,wait=off"


def kernel_line(order: GuestOrder) -> str:
    """Return what the built-in image's kernel is told."""
    return KERNEL_LINE if not order.hostname else f"{KERNEL_LINE} hostname={order.hostname}"


def account_command(account: Account) -> list[str]:
    """Return what runs a program as the account, without rights that it could get back."""
    groups = ["--groups", ",".join(map(str, account.groups))] if account.groups else ["--clear-groups"]
    identity = ["--reuid", str(account.uid), "--regid", str(account.gid), *groups]
    return ["setpriv", *identity, "--inh-caps=-all", "--no-new-privs", "--"]


def disk_option(files: GuestFiles) -> str:
    """Return the root disk as -blockdev takes it; guests' discards reach the file.

    Of a shared one no host has anything in its memory that another does not see.
    """
    direct = ",cache.direct=on,file.cache.direct=on" if files.is_shared else ""
    return f"driver=qcow2,node-name=disk,discard=unmap{direct},file.driver=file,file.filename={_value(files.disk)}"


def plan_plugs(nics: Sequence[NicPlan], before: Sequence[Plug] = (), *, freed: Sequence[int] = ()) -> tuple[Plug, ...]:
    """Return what the NICs are plugged into: those that were there stay where they were, others take the first free.

    freed: slots that lost a NIC while the guest ran, the latest last, in which order they are used last.
    """
    known = {(plug.tap, plug.mac): plug for plug in before if not plug.dead}
    latest = {slot: number for number, slot in enumerate(freed, start=1)}
    slots = chain(sorted(range(NICS_SPARE), key=lambda slot: latest.get(slot, 0)), count(NICS_SPARE))
    free = (slot for slot in slots if slot not in {plug.slot for plug in before})
    return tuple(
        known.get((nic.tap, nic.mac)) or Plug(tap=nic.tap, mac=nic.mac, mtu=nic.mtu, slot=next(free)) for nic in nics
    )


def nic_device(plug: Plug) -> dict[str, str | int]:
    """Return the device of a NIC with its properties, as device_add takes them."""
    bus = {"bus": f"port{plug.slot}"} if plug.slot < NICS_SPARE else {}
    identity: dict[str, str | int] = {"driver": "virtio-net-pci", "id": plug.device, "netdev": plug.tap}
    return {**identity, "mac": plug.mac, "host_mtu": plug.mtu, "romfile": "", **bus}


def _value(path: Path) -> str:
    """Return a path as it is written within an option: QEMU reads two commas as one."""
    return str(path).replace(",", ",,")


def find_versioned(machine_help: str, alias: str = "q35") -> str | None:
    """Return the type that an alias stands for, from what `-machine help` prints."""
    for line in machine_help.splitlines():
        words = line.split()
        if words[:1] == [alias] and "(alias of " in line:
            return line.rpartition("(alias of ")[2].split(")")[0]
    return None


def find_misfit(source: Machine, here: Machine, machine_help: str) -> str | None:
    """Return why a guest of that machine cannot go on here, in words that end a sentence; None if it can."""
    if source.accel != here.accel:
        return f"it runs under {source.accel}, and this host has {here.accel}"
    if source.cpu_name != here.cpu_name:
        return f"it has the CPU {source.cpu_name}, and this host gives {here.cpu_name}"
    if source.type not in {line.split()[0] for line in machine_help.splitlines() if line.split()}:
        return f"it is a {source.type}, which this host's QEMU does not know"
    return None
