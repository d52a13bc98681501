"""How many hosts there are, and how many of them promise to fence their guests when they are silent."""

from prometheus_client.metrics_core import Metric

from roost.cli.serving.openstack_metrics import new_gauge
from roost.compute.service import Compute
from roost.compute.service.hosts import count_promising


async def read_host_metrics(compute: Compute) -> list[Metric]:
    """Return the figures as of now."""
    gauge = new_gauge("roost_hosts", ("promise",))
    promising, hosts = await count_promising(compute)
    gauge.add_metric(["fence"], promising)
    gauge.add_metric(["none"], hosts - promising)
    return [gauge]
