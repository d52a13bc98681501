"""What a project may have and has, as `limits`. Source: Compute API; nova/api/openstack/compute/views/limits.py."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from roost.compute.api.access import access_of
from roost.compute.api.answers import LimitsAnswer
from roost.compute.api.policies import ADMIN, ANYBODY, OTHER_LIMITS
from roost.compute.api.quota_sets import SET_ATTRIBUTES, select_resources
from roost.compute.api.requests import STRICT_FROM, Parameter, check_parameters, query, text_parameter
from roost.compute.service import Compute
from roost.compute.service.quotas import QUOTAS
from roost.platform.auth import Policy
from roost.platform.http import Version
from roost.platform.operations import Operation, Operations, Rule
from roost.platform.quotas import QuotaUsage

IMAGE_META, IMAGE_META_UNTIL = "maxImageMeta", (2, 38)
LIMITS = {
    "instances": ("maxTotalInstances",),
    "cores": ("maxTotalCores",),
    "ram": ("maxTotalRAMSize",),
    "metadata_items": ("maxServerMeta", IMAGE_META),
    "key_pairs": ("maxTotalKeypairs",),
    "server_groups": ("maxServerGroups",),
    "server_group_members": ("maxServerGroupMembers",),
    "injected_files": ("maxPersonality",),
    "injected_file_content_bytes": ("maxPersonalitySize",),
    "floating_ips": ("maxTotalFloatingIps",),
    "security_groups": ("maxSecurityGroups",),
    "security_group_rules": ("maxSecurityGroupRules",),
}
"""Resource -> what its limit is called."""
USED = {
    "instances": "totalInstancesUsed",
    "cores": "totalCoresUsed",
    "ram": "totalRAMUsed",
    "server_groups": "totalServerGroupsUsed",
    "floating_ips": "totalFloatingIpsUsed",
    "security_groups": "totalSecurityGroupsUsed",
}
"""Resource -> what is said of how much there is of it."""
PARAMETERS = {"tenant_id": Parameter()}


def limit_operations(compute: Compute, policy: Policy) -> Operations:
    """Return the operation, by path below /v2.1."""

    async def show(request: Request) -> dict[str, Any]:
        check_parameters(request, PARAMETERS, strict_from=STRICT_FROM)
        access = access_of(compute, policy, request)
        project_id = text_parameter(request, "tenant_id")
        if project_id is not None:
            access.enforce(OTHER_LIMITS)
        usages = await QUOTAS.get_usages(compute, access.project_id if project_id is None else project_id)
        return {"limits": {"rate": [], "absolute": _show(usages, request.state.microversion)}}

    return {
        "/limits": {
            "GET": Operation(
                summary="how much the caller's project may have, and has",
                endpoint=show,
                rule=Rule("os_compute_api:limits", ANYBODY),
                asks=(Rule(OTHER_LIMITS, ADMIN),),
                query=query(PARAMETERS, strict_from=STRICT_FROM),
                result=LimitsAnswer,
            )
        }
    }


def _show(usages: Mapping[str, QuotaUsage], version: Version) -> dict[str, Any]:
    shown: dict[str, int] = {}
    for resource in select_resources(version, SET_ATTRIBUTES):
        shown |= dict.fromkeys(LIMITS.get(resource, ()), usages[resource].maximum)
        if resource in USED:
            shown[USED[resource]] = usages[resource].used
    if version > IMAGE_META_UNTIL:
        del shown[IMAGE_META]
    return shown
