"""The addresses of Roost's own networks by openstack-exporter's names (openstack_metrics.py)."""

from prometheus_client.metrics_core import Metric

from roost.cli.serving.openstack_metrics import address_metrics
from roost.network.service import Networks
from roost.network.service.availability import count_ports_without_address, list_availabilities


async def read_address_metrics(networks: Networks) -> list[Metric]:
    """Return the figures as of now."""
    subnets = []
    for availability in await list_availabilities(networks):
        network = availability.network
        for item in availability.subnets:
            subnet = item.subnet
            labels = [network.id, network.name, subnet.name, subnet.cidr, str(subnet.ip_version), network.project_id]
            subnets.append(([*labels, subnet.segment_id or ""], item.counts.total, item.counts.used))
    return list(address_metrics(subnets, await count_ports_without_address(networks)))
