"""Options of `roost agent` for the driver of QEMU: what this machine is to guests, and what it keeps for itself."""

import os
import re
import shutil
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from roost.platform.errors import BadRequest
from roost.platform.tls import peer_contexts

if TYPE_CHECKING:
    from roost.agent.drivers.qemu.check import HostAsked
    from roost.seams.agent import HostReport

LISTEN = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(:[0-9]{1,5})?")
ACCOUNT_NAME = re.compile(r"[1-9][0-9]{0,8}|[a-z_][a-z0-9_-]{0,31}")
ACCELS = ("auto", "kvm", "tcg")
FOLDER_S = 10.0
"""How long a server of shared disks has to answer."""

Bridges = Annotated[
    list[str] | None,
    typer.Option(metavar="PHYSNET=BRIDGE", help="A physical network and this machine's bridge to it; may be repeated."),
]
Accel = Annotated[str, typer.Option(metavar="|".join(ACCELS), help="auto: KVM if a guest boots under it.")]
Cpu = Annotated[
    str | None, typer.Option(metavar="MODEL", help="As QEMU calls it.", show_default="host under KVM, else qemu64")
]
MigrateListen = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Where other hosts' agents send memory; with :PORT, always there.",
        show_default="the address towards --api",
    ),
]
QemuAccount = Annotated[
    str, typer.Option(metavar="NAME|UID", help="Whom QEMU runs as; a number needs no account of that name.")
]
SharedDisks = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Where root disks are; of hosts that share it they go with their guests.",
        show_default="in --state",
    ),
]
ReserveCpus = Annotated[int, typer.Option(metavar="N", min=0, help="CPUs that guests do not get.")]
ReserveMemory = Annotated[int, typer.Option(metavar="MB", min=0, help="Memory that guests do not get.")]
ReserveDisk = Annotated[int, typer.Option(metavar="GB", min=0, help="Disk that guests do not get.")]
Check = Annotated[
    bool,
    typer.Option("--check", help="Say what this machine lacks for guests of QEMU; 0: nothing, 1: little, 2: much."),
]


QEMU_OPTIONS = (
    *("bridge", "accel", "cpu", "migrate_listen", "account", "reserve_cpus", "reserve_memory", "reserve_disk"),
    "disks",
)
"""The parameters of `roost agent` that only this driver heeds; the other's begin with `fake_`."""


def read_bridges(words: list[str] | None) -> dict[str, str]:
    """Return physical network -> bridge. Raises BadRequest."""
    bridges: dict[str, str] = {}
    for word in words or ():
        name, equals, bridge = word.partition("=")
        if not (name and equals and 0 < len(bridge) < 16) or "/" in bridge or name in bridges:
            raise BadRequest(f"--bridge {word}: expected PHYSNET=BRIDGE, each physical network once")
        bridges[name] = bridge
    return bridges


def read_host(words: Mapping[str, Any]) -> "HostAsked":
    """Return what the options say of this machine. Raises BadRequest."""
    from roost.agent.drivers.qemu.check import HostAsked

    accel = words["accel"]
    if accel not in ACCELS:
        raise BadRequest(f"--accel {accel}: expected {', '.join(ACCELS)}")
    if words["migrate_listen"] is not None and not LISTEN.fullmatch(words["migrate_listen"]):
        raise BadRequest(
            f"--migrate-listen {words['migrate_listen']}: expected an address such as 192.0.2.10 or [2001:db8::1]:4444"
        )
    account = words["account"]
    if not ACCOUNT_NAME.fullmatch(account) or account == "root":
        raise BadRequest(f"--account {account}: expected an account's name, or its number above 0, which is not root's")
    files = [str(words[name]) for name in ("ca_file", "cert", "key") if words[name] is not None]
    return HostAsked(
        bridges=read_bridges(words["bridge"]),
        accel=accel,
        cpu=words["cpu"],
        migrate_listen=words["migrate_listen"] or _address_towards(words["api"] or ""),
        account=account,
        disks=read_disks(words),
        tls=peer_contexts(*files) if len(files) == 3 else None,
    )


def read_disks(words: Mapping[str, Any]) -> Path | None:
    """Return the folder of disks that hosts share, None for this host's own. Raises BadRequest where it is away.

    Whoever looks into it then waits until its server is back, and says nothing meanwhile.
    """
    folder: Path | None = words["disks"]
    if folder is not None:
        looking = threading.Thread(target=folder.exists, daemon=True)  # the command ends without it
        looking.start()
        looking.join(FOLDER_S)
        if looking.is_alive():
            raise BadRequest(f"--disks {folder}: it does not answer within {FOLDER_S:.0f} s; is its server away?")
    return folder


def read_machine(words: Mapping[str, Any], state: Path) -> "HostReport":
    """Return this machine as the one host that is served, less what it keeps. Raises BadRequest."""
    from roost.seams.agent import HostReport

    if words["fleet"] is not None or len(words["host"] or ()) > 1:
        raise BadRequest("--driver qemu serves one host, this machine: expected --host, once")
    if words["physical_network"]:
        raise BadRequest("--physical-network: --driver qemu reaches those of --bridge PHYSNET=BRIDGE")
    disks = (read_disks(words) or state).absolute()
    folder = next(path for path in (disks, *disks.parents) if path.exists())
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return HostReport(
        name="",
        vcpus=max((os.cpu_count() or 1) - words["reserve_cpus"], 1),
        ram_mb=max(memory_mb - words["reserve_memory"], 1),
        disk_gb=max((shutil.disk_usage(folder).total >> 30) - words["reserve_disk"], 1),
        physical_networks=tuple(read_bridges(words["bridge"])),
    )


def _address_towards(url: str) -> str:
    """Return this machine's address on the way to a URL; nothing is sent."""
    parts = urlsplit(url)
    try:
        family, kind, _, _, address = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as sock:
            sock.connect(address)
            name: str = sock.getsockname()[0]
    except OSError:
        return "127.0.0.1"
    return f"[{name}]" if ":" in name else name
