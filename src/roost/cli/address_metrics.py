"""The addresses of the whole cloud by openstack-exporter's names, for `/metrics/openstack` (openstack_metrics.py)."""

from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import Metric

from roost.cli.openstack_metrics import new_gauge
from roost.network.rules.availability import NetworkAvailability
from roost.network.service import Networks
from roost.network.service.availability import count_ports_without_address, list_availabilities

ADDRESS_LABELS = ("network_id", "network_name", "subnet_name", "cidr", "ip_version", "project_id", "segment_id")


async def read_address_metrics(networks: Networks) -> list[Metric]:
    """Return the figures as of now."""
    availabilities = await list_availabilities(networks)
    return list(address_metrics(availabilities, await count_ports_without_address(networks)))


def address_metrics(availabilities: Sequence[NetworkAvailability], ports_without_address: int) -> Iterator[Metric]:
    """Yield the figures of each subnet, and how many ports in use have no address."""
    total = new_gauge("openstack_neutron_network_ip_availabilities_total", ADDRESS_LABELS)
    used = new_gauge("openstack_neutron_network_ip_availabilities_used", ADDRESS_LABELS)
    for availability in availabilities:
        network = availability.network
        for item in availability.subnets:
            subnet = item.subnet
            labels = [network.id, network.name, subnet.name, subnet.cidr, str(subnet.ip_version), network.project_id]
            labels.append(subnet.segment_id or "")
            total.add_metric(labels, item.counts.total)
            used.add_metric(labels, item.counts.used)
    yield total
    yield used
    without = new_gauge("openstack_neutron_ports_no_ips", ())
    without.add_metric([], ports_without_address)
    yield without
