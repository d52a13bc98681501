"""How many hosts there are and how they do, servers at work, what recovering records wait for, and unknown guests."""

from prometheus_client.metrics_core import Metric

from roost.cli.serving.openstack_metrics import new_gauge
from roost.compute.model.work import Stage
from roost.compute.service import Compute
from roost.compute.service.builds import count_builds_by_age
from roost.compute.service.hosts import count_closed_hosts, count_host_states, count_promising
from roost.compute.service.recovery import find_recovery
from roost.compute.service.unknown_guests import count_unknown_guests
from roost.compute.service.waiting_hosts import count_waiting_hosts

AGES_S = (60.0, 600.0)
AGES = ("under_1m", "under_10m", "over_10m")
"""How long servers have been at work, by how many of AGES_S they have passed."""


async def read_host_metrics(compute: Compute) -> list[Metric]:
    """Return the figures as of now."""
    gauge = new_gauge("roost_hosts", ("promise",))
    promising, hosts = await count_promising(compute)
    gauge.add_metric(["fence"], promising)
    gauge.add_metric(["none"], hosts - promising)
    closed = new_gauge("roost_hosts_closed", ("reason",))
    *_, idle = await count_closed_hosts(compute)
    closed.add_metric(["idle"], idle)
    closed.add_metric(["waiting"], await count_waiting_hosts(compute))
    recovery = await find_recovery(compute)
    waiting = new_gauge("roost_recovery_hosts", ("state",))
    waiting.add_metric(["missing"], 0 if recovery is None else recovery.missing)
    waiting.add_metric(["silent"], 0 if recovery is None else recovery.hosts_silent)
    under_way = new_gauge("roost_recovery", ())
    under_way.add_metric([], recovery is not None)
    unknown = new_gauge("roost_unknown_guests", ("addresses",))
    for addresses, count in (await count_unknown_guests(compute)).items():
        unknown.add_metric([addresses], count)
    states = new_gauge("roost_hosts_by_state", ("state",))
    for state, count in (await count_host_states(compute)).items():
        states.add_metric([state], count)
    return [gauge, states, closed, under_way, waiting, unknown, await _read_builds(compute)]


async def _read_builds(compute: Compute) -> Metric:
    builds = new_gauge("roost_builds", ("stage", "age"))
    counts = await count_builds_by_age(compute, AGES_S)
    for stage in Stage:
        for passed, age in enumerate(AGES):
            builds.add_metric([stage.value, age], counts.get((stage, passed), 0))
    return builds
