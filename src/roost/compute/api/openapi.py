"""The Compute API as an OpenAPI document."""

from collections.abc import Mapping, Sequence
from typing import Any

from roost.compute.api import flavors, quota_sets, server_bodies
from roost.compute.api.answers import FAULT
from roost.compute.api.errors import MICROVERSIONS
from roost.compute.api.power_actions import REBUILD_ATTRIBUTES
from roost.compute.api.requests import Attributes
from roost.compute.rules.server_attributes import TAG_LENGTH_MAX, TAG_PATTERN
from roost.platform.http import Version
from roost.platform.openapi import About
from roost.platform.operations import Schema

TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
ATTRIBUTES: Mapping[str, Attributes] = {
    "ServerBody": server_bodies.CREATE_ATTRIBUTES,
    "UpdateServerBody": server_bodies.UPDATE_ATTRIBUTES,
    "RebuildBody": REBUILD_ATTRIBUTES,
    "QuotaSetBody": quota_sets.SET_ATTRIBUTES,
    "QuotaClassBody": quota_sets.CLASS_ATTRIBUTES,
    "FlavorBody": Attributes(since={"description": flavors.DESCRIPTION_FROM}),
}
"""By body."""


def _refine(structs: Mapping[str, Schema], _bodies: Sequence[Any], version: Version | None) -> dict[str, Schema]:
    assert version is not None
    refined = dict(structs)
    for name in ATTRIBUTES.keys() & structs.keys():
        since, until = ATTRIBUTES[name].since, ATTRIBUTES[name].until
        refined[name] = {
            **structs[name],
            "properties": {
                attribute: schema
                for attribute, schema in structs[name]["properties"].items()
                if since.get(attribute, version) <= version <= until.get(attribute, version)
            },
        }
    return refined


ABOUT = About(
    title="Roost Compute",
    description="The OpenStack Compute API: servers, flavors, and the hosts that they run on.",
    microversions=MICROVERSIONS,
    path_parameters={
        "server_id": {"type": "string", "format": "uuid"},
        "port_id": {"type": "string", "format": "uuid"},
        "migration_id": {"type": "string", "pattern": "^[0-9]{1,18}$"},
        "host_id": {"type": "string", "format": "uuid"},
        "tag": {"type": "string", "minLength": 1, "maxLength": TAG_LENGTH_MAX, "pattern": TAG_PATTERN},
        "quota_class": {"const": quota_sets.DEFAULT_CLASS},
        "aggregate_id": {"type": "string", "pattern": "^[0-9]{1,9}$"},
        **dict.fromkeys(
            ("flavor_id", "key", "network", "pattern", "action", "alias", "request_id", "project_id"), TEXT
        ),
    },
    error=FAULT,
    components={"Fault": FAULT},
    refusals=(400, 406, 503),
    refine_structs=_refine,
)
