"""How many hosts there are, how many promise to fence their guests, and how many guests no record knows."""

from prometheus_client.metrics_core import Metric

from roost.cli.serving.openstack_metrics import new_gauge
from roost.compute.service import Compute
from roost.compute.service.hosts import count_promising
from roost.compute.service.unknown_guests import count_unknown_guests


async def read_host_metrics(compute: Compute) -> list[Metric]:
    """Return the figures as of now."""
    gauge = new_gauge("roost_hosts", ("promise",))
    promising, hosts = await count_promising(compute)
    gauge.add_metric(["fence"], promising)
    gauge.add_metric(["none"], hosts - promising)
    unknown = new_gauge("roost_unknown_guests", ("addresses",))
    for addresses, count in (await count_unknown_guests(compute)).items():
        unknown.add_metric([addresses], count)
    return [gauge, unknown]
