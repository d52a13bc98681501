"""What a server should hold in the ledger, by what it asked for and where it holds it."""

import pytest

from roost.compute.model.server import QuietServer
from roost.compute.rules.drift import claim_of, judge_claim
from roost.seams.compute import FlavorGroup, RequestSpec
from roost.seams.placement import Allocations

SIZE = {"VCPU": 1, "MEMORY_MB": 512}
GPU = "CUSTOM_GPU"


def a_server(*groups: FlavorGroup) -> QuietServer:
    spec = RequestSpec(vcpus=1, memory_mb=512, disk_gb=0, flavor_groups=groups)
    return QuietServer(
        id="s", name="web", project_id="p", user_id="u", host="h1", provider_uuid="host", spec=spec, ports=()
    )


ONE = FlavorGroup(suffix="", resources=((GPU, 1),))
TWO_MORE = FlavorGroup(suffix="1", resources=((GPU, 2),))
LARGER = FlavorGroup(suffix="", resources=(("MEMORY_MB", 600),))


@pytest.mark.parametrize(
    ("groups", "held", "should"),
    [
        ((), {"host": SIZE}, {"host": SIZE}), ((), {}, {"host": SIZE}), ((), {"other": SIZE}, {"host": SIZE}),
        ((), {"host": SIZE, "below": {GPU: 1}}, {"host": SIZE}),
        ((), {"host": SIZE, "pool": {"IPV4_ADDRESS": 1}}, {"host": SIZE, "pool": {"IPV4_ADDRESS": 1}}),
        ((LARGER,), {"host": SIZE}, {"host": SIZE | {"MEMORY_MB": 600}}),
        ((ONE,), {"host": SIZE | {GPU: 1}}, {"host": SIZE | {GPU: 1}}),
        ((ONE,), {"host": SIZE, "below": {GPU: 1}}, {"host": SIZE, "below": {GPU: 1}}),
        ((ONE,), {"host": SIZE, "below": {GPU: 3}}, {"host": SIZE, "below": {GPU: 1}}),
        ((ONE,), {"host": SIZE}, {"host": SIZE | {GPU: 1}}),
        ((ONE, TWO_MORE), {"host": SIZE, "a": {GPU: 1}, "b": {GPU: 1}},
         {"host": SIZE | {GPU: 1}, "a": {GPU: 1}, "b": {GPU: 1}}),
    ],
)  # fmt: skip
def test_a_claim_should_be_what_was_asked_for_where_it_is(
    groups: tuple[FlavorGroup, ...], held: Allocations, should: Allocations
) -> None:
    server = a_server(*groups)
    assert claim_of(server, held) == should
    assert (judge_claim(server, held) is None) == (held == should)
