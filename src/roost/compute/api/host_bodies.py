"""Hosts as agents report them and operators declare them, in the body of a request."""

from collections.abc import Iterable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from roost.compute.model import HostReport
from roost.compute.rules.host_names import find_bad_host_name
from roost.platform.errors import BadRequest

HOSTS_MAX = 20_000
"""Hosts in one body; who has more of them makes several calls."""
VALUES_MAX = 300_000
"""Values in one body: of so many hosts, reports or guests, with room to spare."""

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00]+$")]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class HostBody(Struct):
    """What a host has, which physical networks it reaches and which cell it is in."""

    name: str
    vcpus: Count
    ram_mb: Count
    disk_gb: Count
    physical_networks: tuple[Name, ...] = ()
    cell: Name = "cell1"
    service_version: Count = 3


def read_hosts(bodies: Sequence[HostBody]) -> list[HostReport]:
    """Return the hosts in the words of the compute service. Raises BadRequest for what is no host name."""
    check_host_names(body.name for body in bodies)
    return [
        HostReport(
            name=body.name,
            vcpus=body.vcpus,
            ram_mb=body.ram_mb,
            disk_gb=body.disk_gb,
            physical_networks=body.physical_networks,
            cell=body.cell,
            service_version=body.service_version,
        )
        for body in bodies
    ]


def check_host_names(names: Iterable[str]) -> None:
    """Raise BadRequest, which names the first that is no host name."""
    if (flaw := find_bad_host_name(names)) is not None:
        raise BadRequest(flaw)
