"""What the Placement API answers at its highest microversion, as JSON Schemas: exactly these keys and no others."""

from typing import Any

from roost.placement.api.schemas import NAME, UUID_KEY, closed, mapping
from roost.platform.operations import Schema


def _all_of(**properties: Schema) -> dict[str, Any]:
    """Return an object that always has each of these properties, and no others."""
    return closed(dict(properties), tuple(properties))


def _list_of(item: Schema) -> dict[str, Any]:
    return {"type": "array", "items": item}


TEXT = {"type": "string"}
UUID = {"type": "string", "format": "uuid"}
UUID_OR_NULL = {"type": ["string", "null"], "format": "uuid"}
COUNT = {"type": "integer", "minimum": 0}
CLASS_OR_TRAIT = {"type": "string", "pattern": NAME, "maxLength": 255}

LINK = _all_of(rel=TEXT, href=TEXT)

VERSIONS = _all_of(
    versions=_list_of(_all_of(id=TEXT, min_version=TEXT, max_version=TEXT, status=TEXT, links=_list_of(LINK)))
)

ERROR = closed(
    {
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "title": TEXT, "detail": TEXT, "request_id": TEXT, "code": TEXT, "max_version": TEXT, "min_version": TEXT,
    },
    ("status", "title", "detail", "request_id"),
)  # fmt: skip
"""`code` from 1.23 on; the versions where the one that was asked for is not served."""

ERRORS = _all_of(errors={**_list_of(ERROR), "minItems": 1, "maxItems": 1})

PROVIDER = _all_of(
    uuid=UUID, name={"type": "string", "maxLength": 200}, generation=COUNT, parent_provider_uuid=UUID_OR_NULL,
    root_provider_uuid=UUID, links=_list_of(LINK),
)  # fmt: skip
PROVIDERS = _all_of(resource_providers=_list_of(PROVIDER))

_AMOUNTS: dict[str, Schema] = {
    **dict.fromkeys(("total", "reserved", "min_unit", "max_unit", "step_size"), COUNT),
    "allocation_ratio": {"type": "number"},
}
INVENTORY = _all_of(**_AMOUNTS)
ONE_INVENTORY = _all_of(resource_provider_generation=COUNT, **_AMOUNTS)
INVENTORIES = _all_of(resource_provider_generation=COUNT, inventories=mapping(NAME, INVENTORY))

AGGREGATES = _all_of(aggregates=_list_of(UUID), resource_provider_generation=COUNT)
PROVIDER_TRAITS = _all_of(traits=_list_of(CLASS_OR_TRAIT), resource_provider_generation=COUNT)
TRAITS = _all_of(traits=_list_of(CLASS_OR_TRAIT))
RESOURCE_CLASS = _all_of(name=CLASS_OR_TRAIT, links=_list_of(LINK))
RESOURCE_CLASSES = _all_of(resource_classes=_list_of(RESOURCE_CLASS))

RESOURCES = mapping(NAME, {"type": "integer", "minimum": 1})
PROVIDER_USAGES = _all_of(usages=mapping(NAME, COUNT), resource_provider_generation=COUNT)
USAGES = _all_of(
    usages={
        "type": "object",
        "additionalProperties": {
            "type": "object", "properties": {"consumer_count": COUNT}, "required": ["consumer_count"],
            "patternProperties": {NAME: COUNT}, "additionalProperties": False,
        },
    }
)  # fmt: skip

PROVIDER_ALLOCATIONS = _all_of(
    allocations=mapping(UUID_KEY, _all_of(resources=RESOURCES, consumer_generation=COUNT)),
    resource_provider_generation=COUNT,
)
_HELD = mapping(UUID_KEY, _all_of(generation=COUNT, resources=RESOURCES))
CONSUMER = closed(
    {"allocations": _HELD, "project_id": TEXT, "user_id": TEXT, "consumer_generation": COUNT, "consumer_type": TEXT},
    ("allocations",),
)
"""Of a consumer that holds nothing, the allocations are all there is."""

CANDIDATE = _all_of(
    allocations=mapping(UUID_KEY, _all_of(resources=RESOURCES)),
    mappings={"type": "object", "additionalProperties": _list_of(UUID)},
)
SUMMARY = _all_of(
    resources=mapping(NAME, _all_of(capacity=COUNT, used=COUNT)), traits=_list_of(CLASS_OR_TRAIT),
    parent_provider_uuid=UUID_OR_NULL, root_provider_uuid=UUID,
)  # fmt: skip
CANDIDATES = _all_of(allocation_requests=_list_of(CANDIDATE), provider_summaries=mapping(UUID_KEY, SUMMARY))

EXPLANATION = _all_of(
    explanation=TEXT,
    steps=_list_of(
        _all_of(
            requirement=TEXT,
            description=TEXT,
            group=TEXT,
            names=_list_of(TEXT),
            amount={"type": "integer"},
            hosts_left=COUNT,
        )
    ),
    shortages=_list_of(_all_of(has=TEXT, lacks=TEXT, hosts=COUNT, member_of=_list_of(UUID))),
)

COMPONENTS: dict[str, Schema] = {
    "Versions": VERSIONS,
    "Link": LINK,
    "Errors": ERRORS,
    "Error": ERROR,
    "Provider": PROVIDER,
    "Providers": PROVIDERS,
    "Inventory": INVENTORY,
    "InventoryWithGeneration": ONE_INVENTORY,
    "Inventories": INVENTORIES,
    "Aggregates": AGGREGATES,
    "ProviderTraits": PROVIDER_TRAITS,
    "Traits": TRAITS,
    "ResourceClass": RESOURCE_CLASS,
    "ResourceClasses": RESOURCE_CLASSES,
    "Resources": RESOURCES,
    "ProviderUsages": PROVIDER_USAGES,
    "Usages": USAGES,
    "ProviderAllocations": PROVIDER_ALLOCATIONS,
    "ConsumerAllocations": CONSUMER,
    "Candidate": CANDIDATE,
    "Candidates": CANDIDATES,
    "ProviderSummary": SUMMARY,
    "Explanation": EXPLANATION,
}
