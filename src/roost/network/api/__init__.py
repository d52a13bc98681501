"""The Network API: decode, call one service function, encode; and what its OpenAPI document says besides its types.

Attributes of networks, segments, subnets and ports are never `required`: `fields` and policy leave some out.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from starlette.routing import Route

from roost.network.api.agents import AgentDocument, ZoneDocument, agent_operations
from roost.network.api.availability import AvailabilityDocument, availability_operations
from roost.network.api.errors import API
from roost.network.api.extensions import first_operations
from roost.network.api.guard import checks
from roost.network.api.networks import NETWORK
from roost.network.api.policies import ATTRIBUTES, CHECKS, SCOPES
from roost.network.api.port_bindings import BindingDocument, binding_operations
from roost.network.api.ports import PORT
from roost.network.api.quotas import QUOTA_DOCUMENTS, quota_operations
from roost.network.api.segments import SEGMENT
from roost.network.api.subnets import SUBNET
from roost.network.api.tags import tag_operations
from roost.network.rules.documents import Document
from roost.network.service import Networks
from roost.platform.auth import UNRESTRICTED, Policy
from roost.platform.http import Version
from roost.platform.openapi import About, with_document
from roost.platform.operations import Operations, Schema, make_routes, make_rules
from roost.platform.structs import body_type

ENVELOPES = ("Envelope", "MadeAnswer")
"""How the names of structs end that are around one thing."""
NAME_PARAMETER: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
PATH_PARAMETERS: dict[str, Schema] = {
    "id": {"type": "string", "format": "uuid"},
    **dict.fromkeys(("project_id", "alias", "tag", "host"), NAME_PARAMETER),
}

REFUSAL = body_type(
    "Refusal", ("type", str), ("message", str), ("detail", str),
    doc="What is wrong: the name of the error, a sentence for people.",
)  # fmt: skip
REFUSAL_ANSWER = body_type("RefusalAnswer", ("NeutronError", REFUSAL), doc="The body of every refusal.")

PARTIAL: Sequence[type[Struct]] = [
    *Document.__subclasses__(), AgentDocument, AvailabilityDocument, BindingDocument, ZoneDocument, *QUOTA_DOCUMENTS,
]  # fmt: skip
"""The documents of which `fields` or policy leaves attributes out."""


def _refine(structs: Mapping[str, Schema], _bodies: Sequence[Any], _version: Version | None) -> dict[str, Schema]:
    schemas: dict[str, Schema] = json.loads(json.dumps(structs), object_hook=_fold)
    for name in {kind.__name__ for kind in PARTIAL} & schemas.keys():
        schemas[name] = {key: value for key, value in schemas[name].items() if key != "required"}
    for name in [name for name in schemas if name.endswith(ENVELOPES)]:
        schemas[name] = {**schemas[name], "minProperties": 1, "maxProperties": 1}
    return schemas


def _fold(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an object of the schema with its `allOf` folded in: what `described` says replaces what the type says."""
    for part in schema.pop("allOf", ()):
        schema |= part
    return schema


ABOUT = About(
    title="Roost Network",
    description="The OpenStack Network API v2.0: networks, segments, subnets, ports and their addresses.",
    version="2.0",
    path_parameters=PATH_PARAMETERS,
    error=REFUSAL_ANSWER,
    refine_structs=_refine,
)


def operations(networks: Networks, policy: Policy = UNRESTRICTED) -> Operations:
    """Return every operation of the API, by path and method."""
    served: Operations = {
        # First, since routes are tried in order, what clients ask all day.
        **PORT.operations(networks),
        **binding_operations(networks),
        **NETWORK.operations(networks),
        **SEGMENT.operations(networks),
        **SUBNET.operations(networks),
        **availability_operations(networks),
        **agent_operations(networks),
        **quota_operations(networks),
        **tag_operations(networks),
        **first_operations(),
    }
    return with_document(ABOUT, served, policy)


def routes(networks: Networks, policy: Policy = UNRESTRICTED) -> list[Route]:
    """Return everything below the API's root; whoever serves it mounts it at /network."""
    return [*make_routes(API, operations(networks, policy), checks(networks, policy)), API.not_found()]


def rules() -> list[Any]:
    """Return every policy rule with its default, as oslo.policy takes them."""
    nothing: Any = None  # no operation needs a service to be listed
    return make_rules(CHECKS, operations(nothing), ATTRIBUTES, scope_types=SCOPES)
