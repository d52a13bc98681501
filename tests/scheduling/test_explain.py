"""The sentence that says why no host was found."""

from roost.scheduling.explain import addresses_asked, explain
from roost.scheduling.filters import apply_filters
from roost.scheduling.request import build_request
from roost.seams.compute import RequestSpec
from roost.seams.network import NetworkView, Port, Segment
from roost.seams.placement import Funnel

NETWORK = NetworkView(
    id="net", name="public", routed=True,
    segments=tuple(
        Segment(provider_uuid=f"seg{n}", name=f"rack{n}", placement_aggregate=f"agg{n}", has_inventory=True)
        for n in (1, 2)
    ),
)  # fmt: skip
PORT = Port(
    id="p", tag="0", network_id="net", project_id="p", mac_address="m", revision=1, preserve_on_delete=False,
    needs_address=True,
)  # fmt: skip


def test_it_names_hosts_requirements_and_each_segment() -> None:
    request = apply_filters(build_request(RequestSpec(vcpus=1, memory_mb=1, disk_gb=1), [PORT], {"net": NETWORK}))
    funnel = Funnel((("hosts", 12), ("VCPU", 12), ("a free address", 0)))
    assert addresses_asked(request) == ["seg1", "seg2"]
    usages = {"seg1": {"IPV4_ADDRESS": (13, 13)}, "seg2": {"IPV4_ADDRESS": (5, 5)}}
    assert explain(request, funnel, usages) == (
        "No valid host was found: 12 hosts considered, 12 left by VCPU, 0 left by a free address. "
        "The addresses of network public ran out: rack1 0 of 13 free, rack2 0 of 5 free."
    )
