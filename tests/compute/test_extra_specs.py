"""What a flavor's extra specs ask of hosts, and which of them are refused by name."""

from collections.abc import Mapping

import pytest

from roost.compute.rules.extra_specs import FlavorRequirements, find_spec_problem, read_extra_specs
from roost.seams.compute import FlavorGroup


@pytest.mark.parametrize(
    ("extra_specs", "groups", "isolated"),
    [
        ({}, (), False),
        ({"team:cost_centre": "7", ":category": "web"}, (), False),
        ({"hw:cpu_policy": "shared"}, (), False), ({"group_policy": "isolate"}, (), False),
        ({"trait:A": "required", "trait:B": "forbidden"},
         (FlavorGroup(suffix="", required=frozenset("A"), forbidden=frozenset("B")),), False),
        ({"resources:CUSTOM_GPU": "1", "resources:VCPU": "2"},
         (FlavorGroup(suffix="", resources=(("CUSTOM_GPU", 1), ("VCPU", 2))),), False),
        ({"resources1:VGPU": "1", "trait1:A": "required", "resources_b:SRIOV_NET_VF": "2", "group_policy": "isolate"},
         (FlavorGroup(suffix="1", resources=(("VGPU", 1),), required=frozenset("A")),
          FlavorGroup(suffix="_b", resources=(("SRIOV_NET_VF", 2),))), True),
    ],
)  # fmt: skip
def test_extra_specs_become_groups(
    extra_specs: Mapping[str, str], groups: tuple[FlavorGroup, ...], isolated: bool
) -> None:
    assert read_extra_specs(extra_specs) == FlavorRequirements(groups=groups, isolated=isolated)


@pytest.mark.parametrize(
    ("extra_specs", "named"),
    [
        ({"hw:cpu_policy": "dedicated"}, "hw:cpu_policy=dedicated"), ({"hw:numa_nodes": "1"}, "hw:numa_nodes"),
        ({"quota:cpu_shares": "5"}, "quota:cpu_shares"), ({"pci_passthrough:alias": "a:1"}, "pci_passthrough:alias"),
        ({"capabilities:cpu_info": "x"}, "capabilities:cpu_info"), ({"os:secure_boot": "required"}, "os:secure_boot"),
        ({"aggregate_instance_extra_specs:ssd": "true"}, "aggregate_instance_extra_specs:ssd"),
        ({"accel:device_profile": "x"}, "accel:device_profile"), ({"hw_rng:allowed": "True"}, "hw_rng:allowed"),
        ({"vmware:x": "x"}, "vmware:x"), ({"powervm:x": "x"}, "powervm:x"), ({"hw_video:ram_max_mb": "1"}, "hw_video"),
        ({"hide_hypervisor_id": "true"}, "hide_hypervisor_id"), ({"free_ram_mb": ">= 4"}, "free_ram_mb"),
        ({"trait:A": "maybe"}, "trait:A=maybe"), ({"trait:": "required"}, "trait:"),
        ({"trait:a": "required"}, "trait:a"),
        ({"resources:VCPU": "0"}, "resources:VCPU=0"), ({"resources:VCPU": "-1"}, "resources:VCPU=-1"),
        ({"resources:CUSTOM_A": "1.5"}, "CUSTOM_A=1.5"), ({"resources:CUSTOM_A": "9999999999"}, "CUSTOM_A"),
        ({"resources:IPV4_ADDRESS": "1"}, "IPV4_ADDRESS"), ({"resources1:VCPU": "1"}, "resources1:VCPU"),
        ({"resources_nic0:CUSTOM_A": "1"}, "resources_nic0:CUSTOM_A"), ({"group_policy": "some"}, "group_policy=some"),
        ({"resources1:CUSTOM_A": "1", "resources2:CUSTOM_A": "1"}, "group_policy"),
        ({"trait1:A": "required"}, "trait1:A"),
    ],
)  # fmt: skip
def test_what_is_not_served_is_refused_by_name(extra_specs: Mapping[str, str], named: str) -> None:
    refusal = read_extra_specs(extra_specs)
    assert isinstance(refusal, str)
    assert named in refusal


@pytest.mark.parametrize(
    ("extra_specs", "named"),
    [
        ({}, None), ({"team:cost": "7"}, None), ({"resources:CUSTOM_A": "1"}, None),
        ({"hw:cpu_policy": "shared"}, None), ({"trait1:A": "required"}, None),
        ({"resources1:CUSTOM_A": "1", "resources2:CUSTOM_A": "1"}, None),
        ({"hw:numa_nodes": "2"}, "hw:numa_nodes=2"), ({"team:cost": "7", "ssd": "true"}, "ssd=true"),
        ({"resources:CUSTOM_A": "0"}, "CUSTOM_A=0"), ({"group_policy": "some"}, "group_policy=some"),
    ],
)  # fmt: skip
def test_one_extra_spec_is_judged_without_the_others(extra_specs: Mapping[str, str], named: str | None) -> None:
    problem = find_spec_problem(extra_specs)
    assert problem is None if named is None else named in str(problem)
