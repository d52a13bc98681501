"""`roost-manage host`: lists hosts, and accepts those that wait."""

from collections.abc import Sequence

import msgspec
from rich.console import Console

from roost.cli.managing.audit import open_compute
from roost.cli.managing.audit_report import print_json
from roost.cli.managing.ledger_target import LedgerTarget
from roost.cli.tables import print_rows
from roost.compute.model.cloud import Host
from roost.compute.service import hosts as service
from roost.compute.service.waiting_hosts import accept_hosts

HEADINGS = ("host", "cell", "vcpus", "memory MB", "disk GB", "physical networks", "state", "status")
NUMBERS = ("vcpus", "memory MB", "disk GB")


async def list_hosts(target: LedgerTarget, console: Console, *, waiting: bool, as_json: bool) -> None:
    """Print the hosts by name. waiting: only those that wait. Raises TargetRefused."""
    async with open_compute(target) as compute:
        hosts = [host for host in await service.list_hosts(compute) if host.waiting or not waiting]
    if as_json:
        print_json(console, msgspec.json.encode(hosts))
    elif not hosts:
        console.print("No host waits to be accepted." if waiting else "There are no hosts.")
    else:
        print_rows(console, HEADINGS, [_columns(host) for host in hosts], numbers=NUMBERS)


async def accept(target: LedgerTarget, console: Console, patterns: Sequence[str]) -> None:
    """Accept waiting hosts and name them. Raises TargetRefused, BadRequest, NoHostWaiting."""
    async with open_compute(target) as compute:
        hosts = await accept_hosts(compute, patterns)
    console.print(f"Accepted: {', '.join(host.name for host in hosts)}")


def _columns(host: Host) -> tuple[str, ...]:
    status = "waiting" if host.waiting else "disabled" if host.disabled else "enabled"
    networks = ", ".join(host.physical_networks)
    sizes = str(host.vcpus), str(host.ram_mb), str(host.disk_gb)
    return (host.name, host.cell, *sizes, networks, "down" if host.down else "up", status)
