"""Decides how many servers of those that are asked for a project may still have, and in which words it is refused.

A server counts from when it is accepted until its row is gone, with the larger of its two flavors while it is moved
between them. So only a new server, or a larger flavor, can be too much: a server that is shelved, rebuilt, reverted or
deleted gives back nothing that it would have to ask for again.
Source: Nova, quota.py and conf/quota.py, resources and defaults; compute/utils.py, check_num_instances_quota, its text.
"""

from collections.abc import Mapping

from roost.compute.model.cloud import Flavor
from roost.platform.quotas import UNLIMITED, Quotas, QuotaUsage

COUNTED = ("instances", "cores", "ram")
METADATA_ITEMS = "metadata_items"
DEFAULTS_ELSEWHERE: Quotas = {
    **{"key_pairs": 100, "server_groups": 10, "server_group_members": 10},
    **{"injected_files": 5, "injected_file_content_bytes": 10 * 1024, "injected_file_path_bytes": 255},
    **dict.fromkeys(("fixed_ips", "floating_ips", "security_groups", "security_group_rules"), UNLIMITED),
}
"""Of what Roost does not have, so that nobody uses any: upstream's."""
RESOURCES = (*COUNTED, METADATA_ITEMS, *DEFAULTS_ELSEWHERE)
LIMIT_TOO_SMALL = (
    "Quota limit {maximum} for {resource} must be greater than or equal to already used and reserved {used}."
)
"""Source: Nova, quota_sets.py."""


def amounts_of(flavor: Flavor) -> dict[str, int]:
    """Return how much of each counted resource one server of the flavor takes."""
    return {"instances": 1, "cores": flavor.vcpus, "ram": flavor.ram_mb}


def growth_of(before: Flavor, after: Flavor) -> dict[str, int]:
    """Return how much more a server takes with another flavor, of the resources of which it takes more."""
    had = amounts_of(before)
    return {name: amount - had[name] for name, amount in amounts_of(after).items() if amount > had[name]}


def count_that_fit(usages: Mapping[str, QuotaUsage], flavor: Flavor, *, most: int) -> int:
    """Return how many servers of the flavor the project may have besides, at most `most`."""
    amounts = amounts_of(flavor)
    return min(usage.count_that_fit(amounts[name], most=most) for name, usage in usages.items())


def server_refusal(usages: Mapping[str, QuotaUsage], flavor: Flavor, *, least: int, most: int) -> str:
    """Return why the project cannot have `least` servers of the flavor besides, of at most `most` that it asked for."""
    amounts = {name: amount * most for name, amount in amounts_of(flavor).items()}
    instances = str(most) if least == most else f"{least}-{most}"
    return _sentence(usages, amounts, requested={"instances": instances})


def growth_refusal(usages: Mapping[str, QuotaUsage], growth: Mapping[str, int]) -> str | None:
    """Return why the project cannot have so much more, or None if it can."""
    fits = all(usages[name].has_room(more) for name, more in growth.items() if name in usages)
    return None if fits else _sentence(usages, growth, requested={})


def metadata_refusal(maximum: int, count: int) -> str | None:
    """Return why a server cannot have so many metadata items, or None if it can."""
    return None if maximum < 0 or count <= maximum else f"Maximum number of metadata items exceeds {maximum}"


def _sentence(usages: Mapping[str, QuotaUsage], amounts: Mapping[str, int], *, requested: Mapping[str, str]) -> str:
    """Return the refusal. requested: what stands for an amount, where it is not a plain number."""
    overs = [usages[name] for name in sorted(usages) if not usages[name].has_room(amounts.get(name, 0))]
    names = ", ".join(usage.resource for usage in overs)
    wishes = ", ".join(requested.get(usage.resource, str(amounts[usage.resource])) for usage in overs)
    used = ", ".join(str(usage.used) for usage in overs)
    allowed = ", ".join(str(usage.maximum) for usage in overs)
    return f"Quota exceeded for {names}: Requested {wishes}, but already used {used} of {allowed} {names}"
