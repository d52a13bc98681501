"""The bodies and query strings of the Placement API, by microversion, as JSON Schemas.

They are facts of upstream's API, down to which key is checked by a pattern and which by a format, since clients see
jsonschema's sentences about them. Amounts have an upper bound here that upstream only finds in its database.
"""

from typing import Any

from roost.platform.operations import Schema, Versions

INTEGER_MAX = 2**31 - 1
RATIO_MAX = 3.40282e38

UUID_KEY = "^[0-9a-fA-F-]{36}$"
NAME = "^[A-Z0-9_]+$"
CUSTOM_NAME = "^CUSTOM_[A-Z0-9_]+$"
SUFFIX_KEY = "^[a-zA-Z0-9_-]{1,64}$"

UUID = {"type": "string", "format": "uuid"}
GENERATION = {"type": "integer"}
IDENTITY = {"type": "string", "minLength": 1, "maxLength": 255}


def closed(properties: dict[str, Any], required: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Return an object with these properties and no others."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False, **more}


def mapping(key_pattern: str, value: Schema, **more: Any) -> dict[str, Any]:
    """Return an object whose keys all match a pattern."""
    return {"type": "object", "patternProperties": {key_pattern: value}, "additionalProperties": False, **more}


# Resource providers.

PROVIDER_NAME = {"type": "string", "maxLength": 200}
PARENT = {"anyOf": [UUID, {"type": "null"}]}

PROVIDER_CREATE = Versions(
    {
        (1, 0): closed({"name": PROVIDER_NAME, "uuid": UUID}, ("name",)),
        (1, 14): closed({"name": PROVIDER_NAME, "uuid": UUID, "parent_provider_uuid": PARENT}, ("name",)),
    }
)
PROVIDER_UPDATE = Versions(
    {
        (1, 0): closed({"name": PROVIDER_NAME}, ("name",)),
        (1, 14): closed({"name": PROVIDER_NAME, "parent_provider_uuid": PARENT}, ("name",)),
    }
)

# Inventories.


def _whole(minimum: int) -> dict[str, Any]:
    return {"type": "integer", "maximum": INTEGER_MAX, "minimum": minimum}


_AMOUNTS: dict[str, Any] = {
    "total": _whole(1),
    "reserved": _whole(0),
    "min_unit": _whole(1),
    "max_unit": _whole(1),
    "step_size": _whole(1),
    "allocation_ratio": {"type": "number", "maximum": RATIO_MAX},
}
_WITH_GENERATION = {"resource_provider_generation": GENERATION, **_AMOUNTS}

INVENTORY_CREATE = Versions(
    {
        (1, 0): closed(
            {**_WITH_GENERATION, "resource_class": {"type": "string", "pattern": NAME}}, ("total", "resource_class")
        )
    }
)
INVENTORY_UPDATE = Versions({(1, 0): closed(_WITH_GENERATION, ("total", "resource_provider_generation"))})
_INVENTORY = closed(_WITH_GENERATION, ("total",))
_INVENTORIES = closed(
    {
        "resource_provider_generation": GENERATION,
        # Keys of any form pass, as upstream's: those that name no resource class are refused for that.
        "inventories": {
            "type": "object", "patternProperties": {NAME: _INVENTORY}, "additionalProperties": _INVENTORY,
        },
    },
    ("resource_provider_generation", "inventories"),
)  # fmt: skip
INVENTORIES_SET = Versions({(1, 0): _INVENTORIES})

# Resource classes and traits.

CLASS_NAME = closed({"name": {"type": "string", "pattern": CUSTOM_NAME, "maxLength": 255}}, ("name",))
CUSTOM_PATH = {"name": {"type": "string", "pattern": CUSTOM_NAME, "minLength": 8, "maxLength": 255}}
"""The name of one that is made or deleted: the standard ones are neither."""
CLASS_CREATE = Versions({(1, 2): CLASS_NAME})
TRAIT_NAME = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": CUSTOM_NAME}
TRAIT_ITEM = {"type": "string", "minLength": 1, "maxLength": 255}
TRAITS_SET = Versions(
    {
        (1, 6): closed(
            {
                "traits": {"type": "array", "items": TRAIT_ITEM},
                "resource_provider_generation": GENERATION,
            },
            ("traits", "resource_provider_generation"),
        )
    }
)
TRAITS_QUERY = Versions({(1, 6): closed({"name": {"type": "string"}, "associated": {"type": "string"}})})

# Placement aggregates.

_AGGREGATES = {"type": "array", "items": UUID, "uniqueItems": True}
AGGREGATES_SET = Versions(
    {
        (1, 1): _AGGREGATES,
        (1, 19): closed(
            {"aggregates": _AGGREGATES, "resource_provider_generation": GENERATION},
            ("aggregates", "resource_provider_generation"),
        ),
    }
)

# Usages.

_USAGES = {"project_id": IDENTITY, "user_id": IDENTITY}
USAGES_QUERY = Versions(
    {
        (1, 9): closed(_USAGES, ("project_id",)),
        (1, 38): closed(
            {**_USAGES, "consumer_type": {**IDENTITY, "pattern": "^[A-Z0-9_]+$|^all|^unknown$"}}, ("project_id",)
        ),
    }
)

# Allocations.

ANY_CONSUMER = {"uuid": {"type": "string", "minLength": 1}}
"""What is no UUID holds nothing, and that is what is answered."""

AMOUNTS = mapping(NAME, {"type": "integer", "minimum": 1, "maximum": INTEGER_MAX}, minProperties=1)
_LISTED = {
    "type": "array",
    "minItems": 1,
    "items": closed(
        {"resource_provider": closed({"uuid": UUID}, ("uuid",)), "resources": AMOUNTS},
        ("resource_provider", "resources"),
    ),
}
_BY_PROVIDER = mapping(UUID_KEY, closed({"generation": GENERATION, "resources": AMOUNTS}, ("resources",)))
_OWNER = ("project_id", "user_id")
_MAPPINGS = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {SUFFIX_KEY: {"type": "array", "minItems": 1, "items": UUID}},
}
_CONSUMER_1_12 = {"allocations": _BY_PROVIDER, "project_id": IDENTITY, "user_id": IDENTITY}
_CONSUMER_1_28 = {**_CONSUMER_1_12, "consumer_generation": {"type": ["integer", "null"]}}
_CONSUMER_1_34 = {**_CONSUMER_1_28, "mappings": _MAPPINGS}
_CONSUMER_1_38 = {**_CONSUMER_1_34, "consumer_type": {**IDENTITY, "pattern": NAME}}
_REQUIRED = ("allocations", *_OWNER)
_ENTRY_1_13 = closed(_CONSUMER_1_12, _REQUIRED)
_ENTRY_1_28 = closed(_CONSUMER_1_28, (*_REQUIRED, "consumer_generation"))
_ENTRY_1_34 = closed(_CONSUMER_1_34, (*_REQUIRED, "consumer_generation"))
_ENTRY_1_38 = closed(_CONSUMER_1_38, (*_REQUIRED, "consumer_generation", "consumer_type"))

ALLOCATIONS_SET = Versions(
    {
        (1, 0): closed({"allocations": _LISTED}, ("allocations",)),
        (1, 8): closed({"allocations": _LISTED, "project_id": IDENTITY, "user_id": IDENTITY}, _REQUIRED),
        (1, 12): closed({**_CONSUMER_1_12, "allocations": {**_BY_PROVIDER, "minProperties": 1}}, _REQUIRED),
        (1, 28): _ENTRY_1_28,
        (1, 34): _ENTRY_1_34,
        (1, 38): _ENTRY_1_38,
    }
)
ALLOCATIONS_SET_MANY = Versions(
    {
        (1, 13): mapping(UUID_KEY, _ENTRY_1_13, minProperties=1),
        (1, 28): mapping(UUID_KEY, _ENTRY_1_28, minProperties=1),
        (1, 34): mapping(UUID_KEY, _ENTRY_1_34, minProperties=1),
        (1, 38): mapping(UUID_KEY, _ENTRY_1_38, minProperties=1),
    }
)


def _reshape(entry: Schema) -> dict[str, Any]:
    return closed(
        {"inventories": mapping(UUID_KEY, _INVENTORIES, minProperties=1), "allocations": mapping(UUID_KEY, entry)},
        ("inventories", "allocations"),
    )


RESHAPE = Versions({(1, 30): _reshape(_ENTRY_1_28), (1, 34): _reshape(_ENTRY_1_34), (1, 38): _reshape(_ENTRY_1_38)})
