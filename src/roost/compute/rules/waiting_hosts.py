"""What an agent with a token may register: hosts that wait until an operator accepts them, within bounds."""

from collections.abc import Iterator, Sequence

from roost.compute.errors import TooManyWaitingHosts
from roost.compute.model.cloud import KnownHosts
from roost.compute.rules.agent_tokens import HostPatterns
from roost.platform.errors import BadRequest
from roost.seams.agent import CELL_DEFAULT, HostReport

WAITING_REASON = "registered by its agent and not accepted yet: roost-manage host accept NAME"
VCPUS_MAX = 65_536
RAM_MB_MAX = 2**27
DISK_GB_MAX = 2**24
"""A host has at most 128 TiB of memory and 16 PiB of disk, which leaves room for what is not built yet."""
PHYSICAL_NETWORKS_MAX = 64


def check_reports(
    reports: Sequence[HostReport], known: KnownHosts, *, covered: HostPatterns, waiting_hosts_max: int
) -> None:
    """Raise BadRequest for a host that is too large or of no cell, TooManyWaitingHosts where too many would wait."""
    for report in reports:
        if (flaw := next(_list_flaws(report, known), None)) is not None:
            raise BadRequest(f"host {report.name}: {flaw}")
    names_new = {report.name for report in reports} - known.names
    waiting = {name for name in known.waiting if covered.covers(name)}
    if names_new and len(waiting) + len(names_new) > waiting_hosts_max:
        raise TooManyWaitingHosts(
            f"{len(waiting)} hosts that this token is for wait to be accepted, and {len(names_new)} more would be above"
            f" [compute] waiting_hosts_max, {waiting_hosts_max}: roost-manage host accept"
        )


def _list_flaws(report: HostReport, known: KnownHosts) -> Iterator[str]:
    sizes = (
        ("VCPUs", report.vcpus, VCPUS_MAX),
        ("MB of memory", report.ram_mb, RAM_MB_MAX),
        ("GB of disk", report.disk_gb, DISK_GB_MAX),
        ("physical networks", len(report.physical_networks), PHYSICAL_NETWORKS_MAX),
    )
    yield from (f"{amount} {name}, expected at most {most}" for name, amount, most in sizes if amount > most)
    if report.cell != CELL_DEFAULT and report.cell not in known.cells:
        yield (
            f"there is no cell {report.cell}: expected {CELL_DEFAULT}, or one that a conductor serves by "
            "[conductor] cells or that a cloud file names"
        )
