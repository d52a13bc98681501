"""The Compute API as an OpenAPI document."""

from collections.abc import Mapping, Sequence
from typing import Any

from roost.compute.api import flavors, server_bodies
from roost.compute.api.answers import FAULT
from roost.compute.api.errors import MICROVERSIONS
from roost.platform.http import Version
from roost.platform.openapi import About
from roost.platform.operations import Schema

TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
ATTRIBUTES_SINCE: Mapping[str, Mapping[str, Version]] = {
    "ServerBody": server_bodies.FIRST_VERSIONS,
    "FlavorBody": {"description": flavors.DESCRIPTION_FROM},
}
ATTRIBUTES_UNTIL: Mapping[str, Mapping[str, Version]] = {"ServerBody": server_bodies.LAST_VERSIONS}
"""Body -> attribute -> the first, or the last, microversion that has it."""


def _refine(structs: Mapping[str, Schema], _bodies: Sequence[Any], version: Version | None) -> dict[str, Schema]:
    assert version is not None
    refined = dict(structs)
    for name in {*ATTRIBUTES_SINCE, *ATTRIBUTES_UNTIL} & structs.keys():
        since, until = ATTRIBUTES_SINCE.get(name, {}), ATTRIBUTES_UNTIL.get(name, {})
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
        "host_id": {"type": "string", "format": "uuid"},
        "aggregate_id": {"type": "string", "pattern": "^[0-9]{1,9}$"},
        **dict.fromkeys(("flavor_id", "key", "network", "pattern", "action", "alias"), TEXT),
    },
    error=FAULT,
    components={"Fault": FAULT},
    refusals=(400, 406, 503),
    refine_structs=_refine,
)
