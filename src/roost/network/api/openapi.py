"""The Network API as an OpenAPI document.

Attributes of networks, segments, subnets and ports are never `required`: `fields` and policy leave some out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from roost.network.api.agents import AgentDocument, ZoneDocument
from roost.network.api.availability import AvailabilityDocument
from roost.network.api.documents import Document
from roost.network.api.port_bindings import BindingDocument
from roost.network.api.quotas import QUOTA_DOCUMENTS
from roost.network.api.refinements import body_structs, refine_bodies
from roost.platform.http import Version
from roost.platform.openapi import About
from roost.platform.operations import Schema

ENVELOPES = ("Envelope", "MadeAnswer")
"""How the names of structs end that are around one thing."""
UUID_PARAMETER: Schema = {"type": "string", "format": "uuid"}
NAME_PARAMETER: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
PATH_PARAMETERS: dict[str, Schema] = {
    "id": UUID_PARAMETER, "port_id": UUID_PARAMETER, "project_id": NAME_PARAMETER, "alias": NAME_PARAMETER,
    "tag": NAME_PARAMETER, "host": NAME_PARAMETER,
}  # fmt: skip


class Refusal(Struct, forbid_unknown_fields=True):
    """What is wrong: the name of the error, a sentence for people."""

    type: str
    message: str
    detail: str


class RefusalAnswer(Struct, forbid_unknown_fields=True):
    """The body of every refusal."""

    NeutronError: Refusal


def _refine(structs: Mapping[str, Schema], bodies: Sequence[Any], _version: Version | None) -> dict[str, Schema]:
    partial: list[type[Struct]] = [
        *Document.__subclasses__(), AgentDocument, AvailabilityDocument, BindingDocument, ZoneDocument,
        *QUOTA_DOCUMENTS,
    ]  # fmt: skip
    optional = {kind.__name__ for kind in partial}
    return {
        name: _partial(schema) if name in optional else _one_of(name, schema)
        for name, schema in refine_bodies(structs, body_structs(bodies, structs)).items()
    }


def _one_of(name: str, schema: Schema) -> Schema:
    """An envelope has one thing in it, whichever it is of those that it may have."""
    return {**schema, "minProperties": 1, "maxProperties": 1} if name.endswith(ENVELOPES) else schema


def _partial(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if name != "required"}


ABOUT = About(
    title="Roost Network",
    description="The OpenStack Network API v2.0: networks, segments, subnets, ports and their addresses.",
    version="2.0",
    path_parameters=PATH_PARAMETERS,
    error=RefusalAnswer,
    refine_structs=_refine,
)
