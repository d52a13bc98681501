"""What a server asks of its host."""

import msgspec
import pytest

from roost.seams.compute import FlavorGroup, RequestSpec

SIZE = {"vcpus": 2, "memory_mb": 512, "disk_gb": 10}
WHOLE = {"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 10}


def a_group(suffix: str, *resources: tuple[str, int]) -> FlavorGroup:
    return FlavorGroup(suffix=suffix, resources=resources)


@pytest.mark.parametrize(
    ("size", "groups", "asked"),
    [
        pytest.param({}, (), WHOLE, id="its size"),
        pytest.param({"disk_gb": 0}, (), {"VCPU": 2, "MEMORY_MB": 512}, id="nothing of what it has none of"),
        pytest.param({}, (a_group("", ("CUSTOM_GPU", 1)),), {**WHOLE, "CUSTOM_GPU": 1}, id="what its flavor adds"),
        pytest.param({}, (a_group("", ("VCPU", 4)),), {**WHOLE, "VCPU": 4}, id="what its flavor has in its place"),
        pytest.param({}, (a_group("", ("DISK_GB", 0)),), {"VCPU": 2, "MEMORY_MB": 512}, id="what it takes away"),
        pytest.param({}, (a_group("1", ("CUSTOM_GPU", 1)),), WHOLE, id="not what other providers give"),
        pytest.param({}, (a_group("", ("VCPU", 4)), a_group("", ("VCPU", 8), ("CUSTOM_GPU", 1))),
                     {**WHOLE, "VCPU": 8, "CUSTOM_GPU": 1}, id="the last word on each class"),
    ],
)  # fmt: skip
def test_a_server_asks_its_host_for(
    size: dict[str, int], groups: tuple[FlavorGroup, ...], asked: dict[str, int]
) -> None:
    spec = RequestSpec(**{**SIZE, **size}, flavor_groups=groups)
    assert spec.host_resources == asked


def test_what_was_kept_before_images_were_looked_at_requires_no_traits() -> None:
    kept = b'{"vcpus": 2, "memory_mb": 512, "disk_gb": 10, "nics": [], "flavor_groups": [], "isolated": false}'
    spec = msgspec.json.decode(kept, type=RequestSpec)
    assert (spec, spec.image_traits) == (RequestSpec(**SIZE), frozenset())
