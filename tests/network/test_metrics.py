"""`/metrics` and `/metrics/openstack`: claims, the index, pools, addresses; and the reference has all of it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from tests.agent.cloud import compute_of
from tests.fake_neutron import FakeNeutron
from tests.network.cloud import Cloud
from tests.placement.calls import Api
from tests.platform.asgi import send_raw

import roost.cli.serving.cloud_wiring  # noqa: F401 - each wing declares its own metrics
from roost.cli.serving.address_metrics import read_address_metrics
from roost.cli.serving.host_metrics import read_host_metrics
from roost.cli.serving.openstack_metrics import collect_openstack, read_neutron_metrics
from roost.placement.service.figures import index_figures
from roost.placement.service.ledger import Ledger
from roost.placement.service.neutron import run_round
from roost.placement.service.neutron_view import NeutronView
from roost.platform.keystone import Keystone
from roost.platform.metrics_routes import MetricsText, metrics_routes
from roost.platform.settings import KeystoneSettings
from roost.platform.telemetry import UP, Telemetry

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
Samples = Mapping[str, list[tuple[Mapping[str, str], float]]]


def ledger_of(cloud: Cloud) -> Ledger:
    placement: Any = cloud.networks.placement
    return placement.service  # type: ignore[no-any-return]


async def scraped(cloud: Cloud) -> Samples:
    """Name -> samples of both paths."""
    ledger = ledger_of(cloud)
    keystone = Keystone(KeystoneSettings(auth_url="http://127.0.0.1:5"))
    figures = (ledger.database.figures, lambda: index_figures(ledger), keystone.figures)
    texts = {
        "/metrics": MetricsText(Telemetry("api-1", None, figures).collect),
        "/metrics/openstack": MetricsText(
            lambda: collect_openstack(ledger, lambda: read_address_metrics(cloud.networks))
        ),
    }
    app = Starlette(routes=metrics_routes(texts, token="", open_paths=texts))
    samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for path in (b"/metrics", b"/metrics/openstack"):
        answer = await send_raw(app, "GET", path)
        assert answer.status == 200
        for family in text_string_to_metric_families(answer.body):
            for sample in family.samples:
                samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def value(samples: Samples, name: str, **labels: str) -> float:
    """The only sample with these labels; 0 for none."""
    fitting = [number for its, number in samples.get(name, []) if labels.items() <= its.items()]
    assert len(fitting) <= 1
    return sum(fitting)


async def test_claims_are_counted_by_reason_and_segment(cloud: Cloud) -> None:
    _, (segment,) = await cloud.routed("203.0.113.0/29")
    subject = {"reason": "capacity", "resource_class": "IPV4_ADDRESS", "segment": segment.id}
    before = await scraped(cloud)
    ports = [f"00000000-0000-4000-8000-{number:012}" for number in range(7)]
    taken = [await cloud.claim([port], segment.id) for port in ports]
    refused = taken.count(False)
    assert refused > 1
    after = await scraped(cloud)
    assert value(after, "roost_claim_shortfalls_total", **subject) == refused
    for result, count in (("taken", taken.count(True)), ("refused", refused)):
        name = "roost_claim_groups_total"
        assert value(after, name, result=result) - value(before, name, result=result) == count


async def test_the_clouds_metrics_have_the_exporters_names_and_the_true_numbers(cloud: Cloud) -> None:
    network, (segment,) = await cloud.routed("203.0.113.0/29")
    assert await cloud.claim(["00000000-0000-4000-8000-000000000001"], segment.id)
    samples = await scraped(cloud)
    inventory = {"hostname": f"Neutron segment id {segment.id}", "resourcetype": "IPV4_ADDRESS"}
    assert value(samples, "openstack_placement_resource_total", **inventory) == 5
    assert value(samples, "openstack_placement_resource_usage", **inventory) == 1
    assert value(samples, "openstack_placement_resource_allocation_ratio", **inventory) == 1
    subnet = {"network_id": network.id, "segment_id": segment.id, "cidr": "203.0.113.0/29", "ip_version": "4"}
    assert value(samples, "openstack_neutron_network_ip_availabilities_total", **subnet) == 5
    assert value(samples, "openstack_neutron_network_ip_availabilities_used", **subnet) == 0
    assert value(samples, "openstack_neutron_ports_no_ips") == 0


async def test_the_index_and_the_pools_are_measured(cloud: Cloud) -> None:
    ledger = ledger_of(cloud)
    assert "roost_index_age_seconds" not in await scraped(cloud)
    await cloud.routed("203.0.113.0/29")
    await ledger.index.fresh()
    samples = await scraped(cloud)
    assert value(samples, "roost_index_providers") >= 1
    assert 0 <= value(samples, "roost_index_age_seconds") < 60
    async with ledger.database.connection():
        held = await scraped(cloud)
    assert value(held, "roost_database_connections", pool="main", state="used") >= 1
    assert value(held, "roost_database_connections", pool="main", state="allowed") >= 2


async def test_a_generation_conflict_is_counted(cloud: Cloud) -> None:
    _, (segment,) = await cloud.routed("203.0.113.0/29")
    before = value(await scraped(cloud), "roost_generation_conflicts_total")
    api = Api(ledger_of(cloud))
    body = {"resource_provider_generation": 999, "traits": []}
    status, *_ = await api.call("PUT", f"/resource_providers/{segment.id}/traits", body)
    assert status == 409
    assert value(await scraped(cloud), "roost_generation_conflicts_total") == before + 1


async def test_the_reference_has_every_metric_with_its_labels_and_no_other(cloud: Cloud) -> None:
    await cloud.routed("203.0.113.0/29")
    await ledger_of(cloud).index.fresh()
    samples = await scraped(cloud)
    metrics = {UP: set()}
    for metric in REGISTRY._collector_to_names:
        name = getattr(metric, "_name", "")
        if name.startswith("roost_"):
            metrics[name + ("_total" if getattr(metric, "_type", "") == "counter" else "")] = set(metric._labelnames)
    for name, its in samples.items():
        known = name.startswith(tuple(metrics)) or name.endswith("_created")
        if name.startswith(("roost_", "openstack_")) and not known:
            metrics[name] = set(its[0][0])
    await run_round(ledger_of(cloud), FakeNeutron(), NeutronView())
    for family in await read_neutron_metrics(ledger_of(cloud)):
        metrics.setdefault(family.name + "_total" * (family.type == "counter"), set())
    for family in await read_host_metrics(compute_of(cloud.networks.database)):
        metrics.setdefault(family.name, set(family.samples[0].labels))
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", REFERENCE.read_text(), re.MULTILINE)
    written: dict[str, set[str]] = {}
    for name, labels in rows:
        above = written[list(written)[-1]] if labels == "the same" else set(re.findall(r"`(\w+)`", labels))
        written[name] = above
    described = {name: labels - {"process"} for name, labels in metrics.items()}
    assert described == written
