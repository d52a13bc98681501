"""The Placement API as an OpenAPI document. Shapes below the highest microversion are in docs/reference/api.md."""

from roost.placement.api import answer_schemas, schemas
from roost.placement.api.protocol import MICROVERSIONS
from roost.placement.api.refinements import refine_body, refine_query
from roost.platform.openapi import About
from roost.platform.operations import Schema

NAME: Schema = {"type": "string", "pattern": schemas.NAME, "minLength": 1, "maxLength": 255}

ABOUT = About(
    title="Roost Placement",
    description="The OpenStack Placement API: what there is, what is taken, and who could still take it.",
    microversions=MICROVERSIONS,
    path_parameters={"uuid": schemas.UUID, "name": NAME, "resource_class": NAME},
    error=answer_schemas.ERRORS,
    components=answer_schemas.COMPONENTS,
    refusals=(400, 406, 503),
    refine_query=refine_query,
    refine_body=refine_body,
)
