"""What a machine has and lacks for guests of QEMU, in sentences, and what the driver is then to work with.

Whether KVM works is tried once, by booting the built-in image under it; that there is a device proves nothing.
"""

import asyncio
import contextlib
import os
import pwd
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from roost.agent.drivers.programs import ProgramFailed, run_program, search_path
from roost.agent.drivers.qemu.command import CPU_BY_ACCEL, KERNEL_LINE, PROGRAM, Account, Machine, find_versioned
from roost.agent.drivers.qemu.disks import find_folder_lack
from roost.agent.drivers.qemu.driver import QemuDriver, QemuOptions
from roost.agent.drivers.qemu.image import BUSYBOX, CACHE, ensure_image, is_cached
from roost.agent.drivers.qemu.moves import Contexts
from roost.agent.drivers.state import write_whole

ACCOUNT = "roost-qemu"
KVM = Path("/dev/kvm")
TUN = Path("/dev/net/tun")
PROBE_S = 10.0
SOCKET_CHARS_MAX = 107
"""Of a Unix socket's path."""
SOCKET_BELOW_STATE = len("/guests/00000000-0000-0000-0000-000000000000/run/mem")
PACKAGES: Mapping[str, str] = {
    PROGRAM: "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "nft": "nftables",
    "dnsmasq": "dnsmasq-base",
    "ip": "iproute2",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
"""Program -> Debian's package."""


@dataclass(frozen=True, kw_only=True)
class HostAsked:
    """What the options say of a machine. bridges: physical network -> bridge. cpu: None for the usual one.

    account: whom QEMU runs as, by name or by number.
    disks: the folder of root disks that hosts share. tls: under which agents meet.
    """

    bridges: Mapping[str, str]
    accel: str
    cpu: str | None
    migrate_listen: str
    account: str = ACCOUNT
    disks: Path | None = None
    tls: Contexts | None = None


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """What a machine has. bridges: of those that were asked for. accel: what guests run under; None: not known yet.

    disks_lack: what no file can have in the folder of the disks.
    """

    is_root: bool
    programs: frozenset[str]
    has_busybox: bool
    has_tun: bool
    has_account: bool
    bridges: frozenset[str]
    image_is_cached: bool
    accel: str | None
    state: Path
    has_disks: bool = False
    disks_lack: str | None = None


@dataclass(frozen=True)
class Findings:
    """Sentences. lacks: without these no guest runs. notes: worth knowing. fine: what is there."""

    lacks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fine: list[str] = field(default_factory=list)

    @property
    def status(self) -> int:
        """Return the exit status: 0 with nothing to say, 1 with notes, 2 where no guest runs."""
        return 2 if self.lacks else 1 if self.notes else 0


def judge_host(asked: HostAsked, facts: HostFacts) -> Findings:
    """Return what is to be said of a machine."""
    findings = Findings()
    lacks, notes, fine = findings.lacks, findings.notes, findings.fine
    if not facts.is_root:
        lacks.append("The agent needs root's rights, for NICs and namespaces: run it as root.")
    if missing := [program for program in PACKAGES if program not in facts.programs]:
        packages = sorted({PACKAGES[program] for program in missing})
        lacks.append(f"There is no {', '.join(missing)}: apt install --no-install-recommends {' '.join(packages)}")
    else:
        fine.append("All programs are there.")
    if not facts.has_busybox and not facts.image_is_cached:
        lacks.append("The built-in image needs busybox: apt install busybox-static")
    if not facts.has_tun:
        lacks.append(f"{TUN} cannot be opened: modprobe tun")
    if not facts.has_account:
        lacks.append(f"QEMU has no account to run as: useradd --system --no-create-home {asked.account}")
    if len(str(facts.state)) + SOCKET_BELOW_STATE > SOCKET_CHARS_MAX:
        lacks.append(
            f"--state {facts.state} is too long: {SOCKET_CHARS_MAX - SOCKET_BELOW_STATE} characters are the most"
        )
    if asked.disks is not None and not facts.has_disks:
        lacks.append(f"There is no folder --disks {asked.disks}: mount what the hosts share")
    if facts.disks_lack is not None:
        notes.append(f"No disk can have, in --disks {asked.disks}, {facts.disks_lack}. NFS needs no_root_squash.")
    for network, bridge in sorted(asked.bridges.items()):
        if bridge in facts.bridges:
            fine.append(f"Physical network {network} is on bridge {bridge}.")
        else:
            lacks.append(
                f"There is no bridge {bridge} for physical network {network}: ip link add {bridge} type bridge"
            )
    if not asked.bridges:
        notes.append("No --bridge was said: only guests without NICs can be here.")
    if facts.accel == "tcg" and asked.accel != "tcg":
        notes.append("No guest boots under KVM here: guests run under TCG, many times slower.")
    if facts.accel is not None:
        fine.append(f"Guests run under {facts.accel.upper()}.")
    return findings


def gather_facts(asked: HostAsked, state: Path, *, accel: str | None) -> HostFacts:
    """Return what this machine has."""
    path, account, is_root = search_path(), find_account(asked.account), os.geteuid() == 0
    disks = asked.disks if asked.disks is not None and asked.disks.is_dir() else None
    return HostFacts(
        is_root=is_root,
        programs=frozenset(program for program in PACKAGES if shutil.which(program, path=path)),
        has_busybox=any(busybox.exists() for busybox in BUSYBOX),
        has_tun=os.access(TUN, os.R_OK | os.W_OK),
        has_account=account is not None,
        bridges=frozenset(item for item in asked.bridges.values() if Path("/sys/class/net", item, "bridge").is_dir()),
        image_is_cached=is_cached(),
        accel=accel,
        state=state.absolute(),
        has_disks=disks is not None,
        disks_lack=find_folder_lack(disks, account) if is_root and account and disks else None,
    )


async def check_host(asked: HostAsked, state: Path) -> tuple[Findings, str]:
    """Return what is to be said of this machine, and what guests run under."""
    facts = gather_facts(asked, state, accel=None if asked.accel == "auto" else asked.accel)
    if facts.accel is None and not judge_host(asked, facts).lacks:
        facts = replace(facts, accel=await choose_accel(state))
    return judge_host(asked, facts), facts.accel or "tcg"


async def check_and_prepare(asked: HostAsked, state: Path) -> Findings:
    """Return what is to be said of this machine; where nothing lacks, its built-in image is packed then.

    Raises ProgramFailed.
    """
    findings, _ = await check_host(asked, state)
    if not findings.lacks:
        await ensure_image()
        findings.fine.append(f"The built-in image is packed in {CACHE}.")
    return findings


async def choose_accel(state: Path) -> str:
    """Return kvm if a guest boots under it, else tcg; the answer is kept. Raises ProgramFailed without an image."""
    if not os.access(KVM, os.R_OK | os.W_OK):
        return "tcg"
    kept = state / "accel"
    if not kept.exists():
        state.mkdir(parents=True, exist_ok=True)
        write_whole(kept, b"kvm" if await _boots("kvm") else b"tcg")
    return kept.read_text()


async def _boots(accel: str) -> bool:
    """Boot the built-in image; return whether it says in time that it has started."""
    image = await ensure_image()
    command = f"{PROGRAM} -nodefaults -no-user-config -display none -machine q35 -m 96M -accel {accel}".split()
    command += ["-cpu", CPU_BY_ACCEL[accel], "-kernel", str(image.kernel), "-initrd", str(image.initrd)]
    command += ["-append", KERNEL_LINE, "-serial", "stdio"]
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PROBE_S):
            await process.stdout.readuntil(b"roost: started")
        return True
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def find_account(name: str) -> Account | None:
    """Return the account of QEMU, with the group that may use KVM. name: or a number, which nobody needs to know."""
    groups = (KVM.stat().st_gid,) if KVM.exists() and KVM.stat().st_gid else ()
    if name.isdecimal():
        return Account(uid=int(name), gid=int(name), groups=groups)
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(uid=account.pw_uid, gid=account.pw_gid, groups=groups)


async def make_driver(asked: HostAsked, *, host: str, state: Path) -> QemuDriver:
    """Return a driver for this machine, which is not open yet.

    Raises ProgramFailed, with all sentences, where no guest could run; StateInUse.
    """
    findings, accel = await check_host(asked, state)
    if findings.lacks:
        raise ProgramFailed("\n".join(findings.lacks))
    account = find_account(asked.account)
    assert account is not None  # else it lacks
    alias = find_versioned(await run_program(PROGRAM, "-machine", "help"))
    cpu = asked.cpu or CPU_BY_ACCEL[accel]
    machine = Machine(accel=accel, type=alias or "q35", cpu=cpu, cpu_name=_cpu_name(cpu))
    options = QemuOptions(
        host=host,
        directory=state.absolute(),
        bridges=asked.bridges,
        machine=machine,
        account=account,
        migrate_listen=asked.migrate_listen,
        disks=asked.disks and asked.disks.absolute(),
        tls=asked.tls,
    )
    return QemuDriver(options)


def _cpu_name(cpu: str) -> str:
    """Return a name that two machines have alike where a guest may go from one to the other."""
    if cpu != "host":
        return cpu
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
