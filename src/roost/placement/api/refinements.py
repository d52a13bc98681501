"""What the OpenAPI document says of bodies and queries beyond the schemas that refuse them.

Those are upstream's, whose words clients know; what is refused later, by words of its own, is said here, so that who
generates requests from the document makes such as can succeed.
"""

from collections.abc import Mapping
from typing import Any

from roost.placement.api import schemas
from roost.platform.operations import Schema

UUID_PATTERN = "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
UUID_TEXT = "[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
TRAIT = "[A-Z0-9_]+"
TEXT = "^[^\u0000]*$"
RESOURCE = "[A-Z0-9_]+:[1-9][0-9]{0,8}"

WHOLE: tuple[tuple[Schema, Schema], ...] = (
    (schemas.PROVIDER_NAME, {"minLength": 1, "pattern": TEXT}),
    (schemas.IDENTITY, {"pattern": TEXT}),
    (schemas.TRAIT_ITEM, {"pattern": schemas.NAME}),
)
"""(a schema, the very same object, and what is said of it besides)."""

PARAMETERS: Mapping[str, Schema] = {
    "resources": {"pattern": f"^{RESOURCE}(,{RESOURCE})*$"},
    "required": {"pattern": f"^(in:{TRAIT}(,{TRAIT})*|!?{TRAIT}(,!?{TRAIT})*)$"},
    "root_required": {"pattern": f"^!?{TRAIT}(,!?{TRAIT})*$"},
    "member_of": {"pattern": f"^!?(in:{UUID_TEXT}(,{UUID_TEXT})*|{UUID_TEXT})$"},
    "in_tree": {"format": "uuid"},
    "same_subtree": {"pattern": "^_[a-zA-Z0-9_-]{1,63}(,_[a-zA-Z0-9_-]{1,63})*$"},
    "project_id": {"pattern": TEXT},
    "user_id": {"pattern": TEXT},
    "associated": {"enum": ["true", "false"]},
}
"""Parameter, also with the suffix of a group -> what is said of it besides."""
TRAIT_FILTER: Schema = {"pattern": "^(in:[^\u0000]+|startswith:[^\u0000]*)$"}


def refine_body(schema: Any) -> Any:
    """Return the schema of a body with all that is said of its parts."""
    for part, more in WHOLE:
        if schema is part:
            return {**schema, **more}
    if isinstance(schema, Mapping):
        refined = {name: refine_body(value) for name, value in schema.items()}
        if schemas.UUID_KEY in refined.get("patternProperties", {}):
            refined["patternProperties"] = {UUID_PATTERN: refined["patternProperties"][schemas.UUID_KEY]}
        if isinstance(refined.get("additionalProperties"), Mapping):  # any key passes jsonschema, no other a name
            refined["additionalProperties"] = False
        return refined
    if isinstance(schema, list | tuple):
        return [refine_body(value) for value in schema]
    return schema


def refine_query(schema: Schema, path: str) -> Schema:
    """Return the schema of a query with all that is said of its parameters; path: whose they are."""
    refined = dict(schema)
    for part in ("properties", "patternProperties"):
        if part in schema:
            refined[part] = {
                name: {**value, **_more(name.lstrip("^").partition("(")[0], path)}
                for name, value in schema[part].items()
            }
    return refined


def _more(name: str, path: str) -> Schema:
    if name == "name":
        return TRAIT_FILTER if path == "/traits" else {}
    if name == "limit":
        return {"type": "integer", "minimum": 1}
    return PARAMETERS.get(name, {})
