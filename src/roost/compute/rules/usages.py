"""Decides how much projects used in a period: each server's size times the hours for which it was there.

A server counts from its launch until it is gone, on a host or shelved, with the flavor that it had last.
Source: Nova, api/openstack/compute/simple_tenant_usage.py.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from roost.compute.model.usages import ServerUsage
from roost.platform.grouping import grouped

HOUR_S = 3600.0


class ProjectUsage(Struct, frozen=True, kw_only=True):
    """What one project used. Amounts are sums of size times hours; servers: whose those are."""

    project_id: str
    servers: tuple[ServerUsage, ...]
    hours: float
    vcpu_hours: float
    memory_mb_hours: float
    disk_gb_hours: float


def hours_of(server: ServerUsage, *, start: datetime, stop: datetime) -> float:
    """Return how many hours of the period the server was there."""
    begin, end = max(start, server.launched_at), min(stop, server.ended_at or stop)
    return max(0.0, (end - begin).total_seconds()) / HOUR_S


def uptime_s(server: ServerUsage, now: datetime) -> int:
    """Return how many whole seconds the server has been there since its launch."""
    return int(((server.ended_at or now) - server.launched_at).total_seconds())


def add_up(servers: Sequence[ServerUsage], *, start: datetime, stop: datetime) -> list[ProjectUsage]:
    """Return what each project used, in the order in which their servers come."""
    by_project = grouped((server.project_id, server) for server in servers)
    return [_add_up(project_id, of_project, start, stop) for project_id, of_project in by_project.items()]


def _add_up(project_id: str, servers: Sequence[ServerUsage], start: datetime, stop: datetime) -> ProjectUsage:
    hours = [(server.flavor, hours_of(server, start=start, stop=stop)) for server in servers]
    return ProjectUsage(
        project_id=project_id,
        servers=tuple(servers),
        hours=sum(h for _, h in hours),
        vcpu_hours=sum(flavor.vcpus * h for flavor, h in hours),
        memory_mb_hours=sum(flavor.ram_mb * h for flavor, h in hours),
        disk_gb_hours=sum(flavor.disk_gb * h for flavor, h in hours),
    )
