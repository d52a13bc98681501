"""Decides what a flavor's extra specs ask of hosts, and refuses those that ask for what Roost does not do.

Upstream's words: nova/scheduler/utils.py, ResourceRequest, and nova/api/validation/extra_specs/.
"""

import re
from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from roost.seams.compute import FlavorGroup
from roost.seams.placement import ADDRESS_CLASSES, DISK_GB, MEMORY_MB, VCPU


class Treatment(Enum):
    """What becomes of an extra spec: it is part of the search for a host, or whoever uses the flavor is refused."""

    SEARCHED = "searched"
    REFUSED = "refused"


TREATMENTS: Mapping[str, Treatment] = {
    "resources": Treatment.SEARCHED,
    "trait": Treatment.SEARCHED,
    "group_policy": Treatment.SEARCHED,
    "accel": Treatment.REFUSED,
    "aggregate_instance_extra_specs": Treatment.REFUSED,
    "capabilities": Treatment.REFUSED,
    "hw": Treatment.REFUSED,
    "hw_rng": Treatment.REFUSED,
    "hw_video": Treatment.REFUSED,
    "os": Treatment.REFUSED,
    "pci_passthrough": Treatment.REFUSED,
    "powervm": Treatment.REFUSED,
    "quota": Treatment.REFUSED,
    "vmware": Treatment.REFUSED,
}
"""The part of the key before its first colon -> its treatment. A key without a colon that is not here is refused: for
upstream it is a capability that hosts must have. With one, what is not here is an operator's own word: it describes the
flavor, and nothing reads it."""

SATISFIED = frozenset({("hw:cpu_policy", "shared")})
"""(key, value) of extra specs that would be refused, but for what they ask every host does."""

SIZE_CLASSES = frozenset({VCPU, MEMORY_MB, DISK_GB})
NIC_SUFFIX = "_nic"
"""Granular groups of NICs have suffixes that begin so."""

SEARCHED_KEY = re.compile(r"(resources|trait)([a-zA-Z0-9_-]{1,64})?:([A-Z0-9_]{1,255})")
AMOUNT = re.compile(r"[1-9][0-9]{0,8}")


class FlavorRequirements(Struct, frozen=True, kw_only=True):
    """What extra specs ask for. isolated: each group from a provider of its own."""

    groups: tuple[FlavorGroup, ...] = ()
    isolated: bool = False


def read_extra_specs(extra_specs: Mapping[str, str]) -> FlavorRequirements | str:
    """Return what the extra specs ask of hosts, or the sentence why servers cannot have that."""
    resources: dict[str, dict[str, int]] = {}
    traits: dict[str, dict[str, str]] = {}
    if problem := find_spec_problem(extra_specs):
        return problem
    for key, value in extra_specs.items():
        searched = SEARCHED_KEY.fullmatch(key)
        if searched is None:
            continue
        kind, suffix, name = searched[1], searched[2] or "", searched[3]
        if kind == "resources":
            resources.setdefault(suffix, {})[name] = int(value)
        else:
            traits.setdefault(suffix, {})[name] = value
    suffixes = sorted({*resources, *traits})
    numbered = [suffix for suffix in suffixes if suffix]
    for suffix in numbered:
        if suffix not in resources:
            key = f"trait{suffix}:{min(traits[suffix])}"
            return (
                f"Flavor extra spec {key}: no resources{suffix}: says of what the provider with that trait is to give."
            )
    policy = extra_specs.get("group_policy")
    if policy is None and len(numbered) > 1:
        return (
            f"The flavor's extra specs have groups {', '.join(numbered)} and no group_policy: "
            "say group_policy=none, or group_policy=isolate for providers of their own."
        )
    return FlavorRequirements(
        groups=tuple(
            FlavorGroup(
                suffix=suffix,
                resources=tuple(sorted(resources.get(suffix, {}).items())),
                required=_traits(traits.get(suffix, {}), "required"),
                forbidden=_traits(traits.get(suffix, {}), "forbidden"),
            )
            for suffix in suffixes
        ),
        isolated=policy == "isolate" and len(numbered) > 1,
    )


def find_spec_problem(extra_specs: Mapping[str, str]) -> str | None:
    """Return why no server can have one of the extra specs, whatever the others say, or None."""
    for key, value in extra_specs.items():
        if problem := _problem(key, value, SEARCHED_KEY.fullmatch(key)):
            return f"Flavor extra spec {key}={value}: {problem}."
    return None


def _traits(values_by_trait: Mapping[str, str], value: str) -> frozenset[str]:
    return frozenset(trait for trait, value_of_trait in values_by_trait.items() if value_of_trait == value)


def _problem(key: str, value: str, searched: re.Match[str] | None) -> str | None:
    if searched is not None:
        return _searched_problem(searched, value)
    if key == "group_policy":
        return None if value in ("none", "isolate") else "expected none or isolate"
    namespace, colon, _ = key.partition(":")
    if re.fullmatch(r"(resources|trait)([a-zA-Z0-9_-]{1,64})?", namespace) and colon:
        return f"expected {namespace}: with the name of a resource class or trait, in capitals"
    treated = TREATMENTS.get(namespace) if colon else Treatment.REFUSED
    if treated is not Treatment.REFUSED or (key, value) in SATISFIED:
        return None
    if not colon:
        return "without a namespace it asks for hosts with that capability, which Roost does not serve"
    return "Roost does not serve it"


def _searched_problem(searched: re.Match[str], value: str) -> str | None:
    kind, suffix, name = searched[1], searched[2] or "", searched[3]
    if suffix.startswith(NIC_SUFFIX):
        return f"groups whose names begin with {NIC_SUFFIX} are those of NICs"
    if kind == "trait":
        return None if value in ("required", "forbidden") else "expected required or forbidden"
    if name in ADDRESS_CLASSES:
        return "addresses are claimed for ports: name networks instead"
    if suffix and name in SIZE_CLASSES:
        return f"{name} is the host's own: name it without a group, or in the flavor's size"
    if AMOUNT.fullmatch(value) is None:
        return "expected a whole number from 1 to 999999999"
    return None
