"""`/metrics/openstack`: inventories and addresses of the whole cloud, by the names that openstack-exporter gives them.

Apart from `/metrics`, because it is the same whichever server is asked, and long: one line for each figure of each
inventory. Dashboards made for the exporter work on it.
Source: openstack-exporter, exporters/placement.go and neutron.go: names and labels. `segment_id` is Roost's own label.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from prometheus_client import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from roost.placement.model import ProviderRow
from roost.placement.service.figures import list_providers
from roost.placement.service.ledger import Ledger
from roost.placement.service.neutron import read_address_figures
from roost.platform.errors import DatabaseUnavailable

RESOURCE_LABELS = ("hostname", "resourcetype")
ADDRESS_LABELS = ("network_id", "network_name", "subnet_name", "cidr", "ip_version", "project_id", "segment_id")


async def collect_openstack(ledger: Ledger, addresses: Callable[[], Awaitable[list[Metric]]] | None) -> bytes:
    """Return the text of `/metrics/openstack`. addresses: None where no network is known."""
    providers = await list_providers(ledger)
    others = [] if addresses is None else await addresses()
    return await asyncio.to_thread(lambda: generate_latest(_Given([*inventory_metrics(providers), *others])))


def inventory_metrics(providers: Sequence[ProviderRow]) -> Iterator[Metric]:
    """Yield the figures of each inventory; `hostname` is the provider's name, a segment's as well."""
    names = ("total", "usage", "reserved", "allocation_ratio", "generation")
    families = [new_gauge(f"openstack_placement_resource_{name}", RESOURCE_LABELS) for name in names]
    for provider in providers:
        for resource_class, inventory in provider.inventories.items():
            figures: tuple[float, ...] = (
                inventory.total, provider.used.get(resource_class, 0), inventory.reserved, inventory.allocation_ratio,
                provider.generation,
            )  # fmt: skip
            for family, figure in zip(families, figures, strict=True):
                family.add_metric([provider.name, resource_class], figure)
    yield from families


def address_metrics(subnets: Iterable[tuple[Sequence[str], int, int]], ports_without_address: int) -> Iterator[Metric]:
    """Yield the figures of each subnet, given as (labels, total, used), and how many ports in use have no address."""
    total = new_gauge("openstack_neutron_network_ip_availabilities_total", ADDRESS_LABELS)
    used = new_gauge("openstack_neutron_network_ip_availabilities_used", ADDRESS_LABELS)
    for labels, subnet_total, subnet_used in subnets:
        total.add_metric(labels, subnet_total)
        used.add_metric(labels, subnet_used)
    yield total
    yield used
    without = new_gauge("openstack_neutron_ports_no_ips", ())
    without.add_metric([], ports_without_address)
    yield without


async def read_neutron_metrics(ledger: Ledger) -> list[Metric]:
    """Return what the last round with Neutron saw, and how old that is; no age before the first."""
    figures, age_s = await read_address_figures(ledger)
    subnets = [
        (
            (
                subnet.network_id, subnet.network_name, subnet.subnet_name, subnet.cidr, "4", subnet.project_id,
                subnet.segment_id,
            ),
            subnet.total,
            subnet.used,
        )
        for subnet in figures.subnets
    ]  # fmt: skip
    metrics = list(address_metrics(subnets, figures.ports_without_address))
    if age_s is not None:
        text = "Seconds since a round with Neutron last ended, by any process, which the addresses are of."
        metrics.append(GaugeMetricFamily("roost_neutron_round_age_seconds", text, value=age_s))
    sight = figures.sight
    text = "Segments that Neutron showed in the last round; none may mean that its user has no right to see them."
    metrics.append(GaugeMetricFamily("roost_neutron_segments_seen", text, value=sight.segments))
    text = "Rounds in which Neutron showed less than there is, so that something was not given back, or nothing done."
    metrics.append(CounterMetricFamily("roost_neutron_rounds_unbelieved", text, value=sight.rounds_unbelieved))
    return metrics


async def tell_neutron(ledger: Ledger) -> str | None:
    """Return what operators should know of the last round with Neutron; None where all is well."""
    try:
        await ledger.index.fresh()  # a silent database is not waited for twice
        figures, _ = await read_address_figures(ledger)
    except DatabaseUnavailable:
        return None  # of which `/readyz?database` tells
    return figures.sight.note()


class _Given(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def new_gauge(name: str, labels: Sequence[str]) -> GaugeMetricFamily:
    """Return a gauge without samples."""
    return GaugeMetricFamily(name, name.removeprefix("openstack_"), labels=labels)
