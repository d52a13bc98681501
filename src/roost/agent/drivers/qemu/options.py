"""What the driver of one host is told at its start."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from roost.agent.drivers.qemu.command import Account, Machine
from roost.agent.drivers.qemu.moves import Contexts


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
