"""GET /extensions, which older clients ask before they use one. Source: Compute API, "Extensions (deprecated)"."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from roost.compute.api.answers import ExtensionAnswer, ExtensionsAnswer
from roost.compute.api.policies import ANYBODY
from roost.compute.api.requests import path_text
from roost.platform.errors import NotFound
from roost.platform.operations import Operation, Operations, Rule

EXTENSIONS: Mapping[str, str] = {
    "OS-DCF": "DiskConfig",
    "OS-EXT-AZ": "ExtendedAvailabilityZone",
    "OS-EXT-IPS": "ExtendedIps",
    "OS-EXT-IPS-MAC": "ExtendedIpsMac",
    "OS-EXT-SRV-ATTR": "ExtendedServerAttributes",
    "OS-EXT-STS": "ExtendedStatus",
    "OS-FLV-DISABLED": "FlavorDisabled",
    "OS-FLV-EXT-DATA": "FlavorExtraData",
    "OS-SRV-USG": "ServerUsage",
    "os-aggregates": "Aggregates",
    "os-availability-zone": "AvailabilityZone",
    "os-flavor-extra-specs": "FlavorExtraSpecs",
    "os-flavor-manage": "FlavorManage",
    "os-hypervisors": "Hypervisors",
    "os-multiple-create": "MultipleCreate",
    "os-quota-class-sets": "QuotaClasses",
    "os-quota-sets": "Quotas",
    "os-services": "Services",
    "os-simple-tenant-usage": "SimpleTenantUsage",
    "os-used-limits": "UsedLimits",
}
"""Alias -> name, of what is served."""


async def list_extensions(_request: Request) -> dict[str, Any]:
    """GET /extensions"""
    return {"extensions": [_show(alias) for alias in EXTENSIONS]}


async def show_extension(request: Request) -> dict[str, Any]:
    """GET /extensions/{alias}"""
    alias = path_text(request, "alias")
    if alias not in EXTENSIONS:
        raise NotFound(f"Extension {alias} is not served.")
    return {"extension": _show(alias)}


def _show(alias: str) -> dict[str, Any]:
    name = EXTENSIONS[alias]
    return {
        "alias": alias,
        "name": name,
        "description": name,
        "links": [],
        "namespace": "http://docs.openstack.org/compute/ext/fake_xml",
        "updated": "2014-12-03T00:00:00Z",
    }


RULE = Rule("os_compute_api:extensions", ANYBODY)
OPERATIONS: Operations = {
    "/extensions": {
        "GET": Operation(
            summary="the extensions that clients may rely on",
            endpoint=list_extensions,
            rule=RULE,
            result=ExtensionsAnswer,
        )
    },
    "/extensions/{alias}": {
        "GET": Operation(summary="one extension", endpoint=show_extension, rule=RULE, result=ExtensionAnswer)
    },
}
