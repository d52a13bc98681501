"""Which parameters a query string may have at which microversion, and the Placement API's words for one that may not.

The parameters' values are for `query.py` to read. Only a query string that is refused is looked at by jsonschema, whose
text the API promises. Source: Placement API 1.0 to 1.39, GET /resource_providers and GET /allocation_candidates.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import jsonschema

from roost.placement.errors import QueryMalformed

Version = tuple[int, int]

SUFFIX, SUFFIX_1_33 = "[1-9][0-9]*", "[a-zA-Z0-9_-]{1,64}"
GROUP_PARAMETERS = ("resources", "required", "member_of", "in_tree")
STRING: Mapping[str, Any] = {"type": "string"}
UUID_STRING: Mapping[str, Any] = {"type": "string", "format": "uuid"}
LIMIT: Mapping[str, Any] = {"type": ["integer", "string"], "pattern": "^[1-9][0-9]*$", "minimum": 1, "minLength": 1}
GROUP_POLICY: Mapping[str, Any] = {"type": "string", "enum": ["none", "isolate"]}

PROVIDER_PARAMETERS: tuple[tuple[Version, str, Mapping[str, Any]], ...] = (
    ((1, 0), "name", STRING),
    ((1, 0), "uuid", UUID_STRING),
    ((1, 3), "member_of", STRING),
    ((1, 4), "resources", STRING),
    ((1, 14), "in_tree", UUID_STRING),
    ((1, 18), "required", STRING),
)
CANDIDATE_PARAMETERS: tuple[tuple[Version, str, Mapping[str, Any]], ...] = (
    ((1, 10), "resources", STRING),
    ((1, 16), "limit", LIMIT),
    ((1, 17), "required", STRING),
    ((1, 21), "member_of", STRING),
    ((1, 25), "group_policy", GROUP_POLICY),
    ((1, 31), "in_tree", STRING),
    ((1, 35), "root_required", STRING),
    ((1, 36), "same_subtree", STRING),
)
"""(since when, name, schema of its value); from GROUPS_SINCE the parameters of groups may have a suffix."""

GROUPS_SINCE = (1, 25)
LONG_SUFFIXES_SINCE = (1, 33)


@cache
def suffix_pattern(version: Version) -> str:
    """Return what may follow the name of a group's parameter; empty before there were groups."""
    if version < GROUPS_SINCE:
        return ""
    return SUFFIX_1_33 if version >= LONG_SUFFIXES_SINCE else SUFFIX


@cache
def provider_schema(version: Version) -> Mapping[str, Any]:
    """Return the JSON schema of the parameters of GET /resource_providers."""
    known = {name: dict(schema) for since, name, schema in PROVIDER_PARAMETERS if version >= since}
    return {"type": "object", "properties": known, "additionalProperties": False}


@cache
def candidate_schema(version: Version) -> Mapping[str, Any]:
    """Return the JSON schema of the parameters of GET /allocation_candidates."""
    known = {name: dict(schema) for since, name, schema in CANDIDATE_PARAMETERS if version >= since}
    if version < GROUPS_SINCE:
        required = ["resources"]
        return {"type": "object", "properties": known, "required": required, "additionalProperties": False}
    groups = {f"^{name}({suffix_pattern(version)})?$": known.pop(name) for name in GROUP_PARAMETERS if name in known}
    return {"type": "object", "properties": known, "patternProperties": groups, "additionalProperties": False}


def check(pairs: Iterable[tuple[str, str]], schema: Mapping[str, Any]) -> None:
    """Raise QueryMalformed in jsonschema's words if the schema refuses the pairs; of a repeated key the last counts."""
    try:
        jsonschema.validate(dict(pairs), schema, format_checker=jsonschema.FormatChecker())
    except jsonschema.ValidationError as error:
        raise QueryMalformed(f"Invalid query string parameters: {error}") from None
