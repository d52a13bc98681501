"""How many hosts there are, what they promise, what records that went back in time wait for, and unknown guests."""

from prometheus_client.metrics_core import Metric

from roost.cli.serving.openstack_metrics import new_gauge
from roost.compute.service import Compute
from roost.compute.service.hosts import count_closed_hosts, count_promising
from roost.compute.service.recovery import find_recovery
from roost.compute.service.unknown_guests import count_unknown_guests
from roost.compute.service.waiting_hosts import count_waiting_hosts


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
    return [gauge, closed, under_way, waiting, unknown]
