"""Reads the query strings of the Placement API, at every microversion, into what the search understands.

Which parameters there are is said by `query_schema.py`. The texts of refusals are those that clients of the API know.
Source: Placement API 1.0 to 1.39, GET /allocation_candidates and GET /resource_providers.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from urllib.parse import parse_qsl

from msgspec import Struct

from roost.placement.errors import QueryKeyRepeated, QueryMalformed, QueryValueBad, QueryValueMissing
from roost.placement.search.query_schema import Version, candidate_schema, check, provider_schema, suffix_pattern
from roost.platform.grouping import grouped
from roost.platform.http import canonical_uuid, is_uuid
from roost.seams.placement import CandidateQuery, Distinct, RequestGroup

AMOUNT_MAX = 2**62
"""More than any provider has, and room for sums in 64 bits: whoever asks for more is answered the same."""

LIMIT_MAX = 2**31 - 1
QUERIES_KEPT = 1024
"""Query strings whose meaning is kept: schedulers ask for the same few flavors again and again."""

FORBIDDEN_TRAITS_SINCE = (1, 22)
REPEATED_MEMBER_OF_SINCE = (1, 24)
NESTED_SINCE = (1, 29)
FORBIDDEN_AGGREGATES_SINCE = (1, 32)
SUBTREES_SINCE = (1, 36)
ANY_TRAITS_SINCE = (1, 39)

Pairs = Sequence[tuple[str, str]]
"""The parameters of a query string, decoded, in order, repeated ones repeated."""

Values = Mapping[str, Sequence[str]]
"""The parameters of one group: name without suffix -> its values."""

PREFIX = "Invalid query string parameters:"
RESOURCES_FORM = (
    "Badly formed resources parameter. Expected resources query string parameter in form: "
    "?resources=VCPU:2,MEMORY_MB:1024. Got:"
)
ANY_FORM = "in:HW_CPU_X86_VMX,CUSTOM_MAGIC"


class ProviderQuery(Struct, frozen=True, kw_only=True):
    """Which providers to list. group: what each of them must satisfy by itself."""

    uuid: str | None = None
    name: str | None = None
    group: RequestGroup


@lru_cache(QUERIES_KEPT)
def read_candidates(query_string: bytes, version: Version) -> CandidateQuery:
    """Return the query of GET /allocation_candidates; see parse_candidates."""
    return parse_candidates(decode_pairs(query_string), version)


def decode_pairs(query_string: bytes) -> list[tuple[str, str]]:
    """Return the parameters of a query string. Raises QueryMalformed for what is not UTF-8."""
    try:
        return parse_qsl(query_string.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError as error:
        raise QueryMalformed(f"{PREFIX} {error}") from error


def parse_candidates(pairs: Pairs, version: Version) -> CandidateQuery:
    """Return the query of GET /allocation_candidates; the unsuffixed group first.

    Raises QueryMalformed and those below it, in the order: unknown or malformed parameters, those of the whole request,
    the groups as they come, groups that are incomplete, traits required and forbidden, no group policy.
    """
    check_parameters(pairs, version)
    requested = _first(pairs, "limit")
    limit = min(int(requested[:10]), LIMIT_MAX) if requested else 0
    root_required, root_forbidden = _parse_root_required([value for key, value in pairs if key == "root_required"])
    subtrees = [_parse_same_subtree(value) for key, value in pairs if key == "same_subtree"]
    pattern = _group_key(version)
    values: dict[str, dict[str, list[str]]] = {}
    for key, value in pairs:
        match = pattern.fullmatch(key)
        if match is not None:
            values.setdefault(match[2] or "", {}).setdefault(match[1], []).append(value)
    groups = [parse_group(suffix, parameters, version) for suffix, parameters in values.items()]
    if version >= SUBTREES_SINCE:
        _check_subtrees(groups, subtrees)
    else:
        _check_orphans(groups)
    if version >= FORBIDDEN_TRAITS_SINCE:
        _check_traits(groups)
    policy = _first(pairs, "group_policy")
    if policy is None and sum(1 for group in groups if group.suffix) > 1:
        raise QueryMalformed(
            'The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.'
        )
    return CandidateQuery(
        groups=tuple(sorted(groups, key=lambda group: group.suffix != "")), group_policy=policy or "none", limit=limit,
        same_subtree=tuple(subtrees), root_required=root_required, root_forbidden=root_forbidden,
        nested=version >= NESTED_SINCE,
        distinct=Distinct.MAPPINGS,
    )  # fmt: skip


def check_parameters(pairs: Pairs, version: Version) -> None:
    """Raise QueryMalformed for parameters that GET /allocation_candidates does not know, or with impossible values."""
    keys = {key for key, _ in pairs}
    limits = [value for key, value in pairs if key == "limit"]
    policies = [value for key, value in pairs if key == "group_policy"]
    if (
        all(_known_key(version).fullmatch(key) for key in keys)
        and all(re.fullmatch("[1-9][0-9]*", limit, re.ASCII) for limit in limits)
        and all(policy in ("none", "isolate") for policy in policies)
        and ("resources" in keys or version >= (1, 25))
    ):
        return
    schema = candidate_schema(version)
    check(pairs, schema)
    check(pairs[::-1], schema)  # the last are fine: it is the first of a repeated limit or group_policy that is not
    raise QueryMalformed(f"{PREFIX} {', '.join(sorted(keys))!r} do not all have a name and a value that exist")


@cache
def _known_key(version: Version) -> re.Pattern[str]:
    schema = candidate_schema(version)
    alone = "|".join(schema["properties"])
    of_groups = "|".join(schema.get("patternProperties", ()))
    return re.compile(f"{alone}|{of_groups}" if of_groups else alone)


@cache
def _group_key(version: Version) -> re.Pattern[str]:
    suffix = suffix_pattern(version)
    return re.compile(f"(resources|required|member_of|in_tree)({suffix})?")


def _first(pairs: Pairs, name: str) -> str | None:
    return next((value for key, value in pairs if key == name), None)


def parse_providers(pairs: Pairs, version: Version) -> ProviderQuery:
    """Return the query of GET /resource_providers. Raises QueryMalformed."""
    schema = provider_schema(version)
    values = grouped(pairs)
    if not values.keys() <= schema["properties"].keys() or "uuid" in values or "in_tree" in values:
        check(pairs, schema)
    uuids, names = values.pop("uuid", []), values.pop("name", [])
    return ProviderQuery(
        uuid=canonical_uuid(uuids[-1]) if uuids else None,
        name=names[-1] or None if names else None,
        group=parse_group("", values, version),
    )


def parse_group(suffix: str, values: Values, version: Version) -> RequestGroup:
    """Return one request group. Raises QueryMalformed."""
    resources: dict[str, int] = {}
    for value in values.get("resources", ()):  # of repeated ones the last holds, but all must be well-formed
        resources = _parse_resources(value)
    required, forbidden = _parse_required(values.get("required", ()), version)
    member_of, outside = _parse_member_of(suffix, values.get("member_of", ()), version)
    in_tree = None
    for value in values.get("in_tree", ()):
        in_tree = _parse_uuid(value.strip())
        if in_tree is None:
            raise QueryMalformed(f"{PREFIX} Expected 'in_tree' parameter to be a format of uuid. Got: {value}")
    return RequestGroup(
        suffix=suffix, resources=resources, required=required, forbidden=forbidden, member_of=member_of,
        forbidden_aggregates=outside, in_tree=in_tree,
    )  # fmt: skip


def _parse_resources(value: str) -> dict[str, int]:
    if not value.strip():
        raise QueryMalformed(f"{RESOURCES_FORM} empty string.")
    resources = {}
    for word in value.split(","):
        name, colon, amount = word.partition(":")
        if not colon or ":" in amount:
            raise QueryMalformed(f"{RESOURCES_FORM} {word}.")
        if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", amount, re.ASCII):
            raise QueryMalformed(f"Requested resource {name} expected positive integer amount. Got: {amount}.")
        digits = amount.strip().lstrip("+0")
        whole = AMOUNT_MAX if len(digits) > 18 and digits[0] != "-" else int(digits[:18] or "0")
        if whole < 1:
            raise QueryMalformed(f"Requested resource {name} requires amount >= 1. Got: {whole}.")
        resources[name] = whole
    return resources


def _parse_required(values: Sequence[str], version: Version) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values if version >= ANY_TRAITS_SINCE else values[-1:]:
        if value.startswith("in:"):
            required.append(_parse_any_traits(value, version))
        else:
            names_required, names_forbidden = _parse_traits(value, version)
            required += [frozenset({trait}) for trait in names_required]
            forbidden |= names_forbidden
    return tuple(dict.fromkeys(required)), frozenset(forbidden)


def _parse_any_traits(value: str, version: Version) -> frozenset[str]:
    if version < ANY_TRAITS_SINCE:
        raise QueryMalformed(f"{PREFIX} The format '{ANY_FORM}' only supported since microversion 1.39. Got: {value}")
    traits = frozenset(word.strip() for word in value[3:].split(","))
    if "" in traits:
        raise QueryMalformed(
            f"{PREFIX} Expected 'required' parameter value of the form: {ANY_FORM}. Got an empty trait in: {value}"
        )
    if any(trait.startswith("!") for trait in traits):
        raise QueryMalformed(f"{PREFIX} The format '{ANY_FORM}' does not support forbidden traits. Got: {value}")
    return traits


def _parse_traits(value: str, version: Version) -> tuple[list[str], set[str]]:
    """Return the traits of a list: those required, in order, and those forbidden."""
    words = [word.strip() for word in value.split(",")]
    forbidden = {word.lstrip("!") for word in words if word.startswith("!")}
    may_forbid = version >= FORBIDDEN_TRAITS_SINCE
    form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if may_forbid else "HW_CPU_X86_VMX,CUSTOM_MAGIC"
    expected = f"{PREFIX} Expected 'required' parameter value of the form: {form}."
    if "" in words or "" in forbidden:
        raise QueryMalformed(f"{expected} Got an empty trait in: {value}")
    if forbidden and not may_forbid:
        raise QueryMalformed(f"{expected} Got: {value}")
    return [word for word in words if not word.startswith("!")], forbidden


def _parse_root_required(values: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    if len(values) > 1:
        raise QueryKeyRepeated("Query parameter 'root_required' may be specified only once.")
    if not values:
        return frozenset(), frozenset()
    if values[0].startswith("in:"):
        _parse_any_traits(values[0], FORBIDDEN_TRAITS_SINCE)
    required, forbidden = _parse_traits(values[0], FORBIDDEN_TRAITS_SINCE)
    if conflicts := sorted(forbidden & set(required)):
        raise QueryValueBad(f"Conflicting required and forbidden traits found in root_required: {', '.join(conflicts)}")
    return frozenset(required), frozenset(forbidden)


def _parse_same_subtree(value: str) -> frozenset[str]:
    suffixes = frozenset(word.strip() for word in value.split(","))
    if "" in suffixes:
        raise QueryValueBad("Empty string (unsuffixed group) can not be specified in `same_subtree` ")
    return suffixes


def _parse_member_of(
    suffix: str, values: Sequence[str], version: Version
) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    """Return the clauses, of which Nova repeats one for each NIC on a network, and the aggregates to be outside of."""
    if len(values) > 1 and version < REPEATED_MEMBER_OF_SINCE:
        raise QueryMalformed(f"Multiple member_of{suffix} parameters are not supported")
    member_of: list[frozenset[str]] = []
    outside: frozenset[str] = frozenset()
    for value in values:
        bare = value.removeprefix("!")
        if "," in bare and not bare.startswith("in:"):
            raise QueryMalformed(
                "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword using the valid "
                f"microversion. Got: {value}"
            )
        aggregates = frozenset(map(_parse_aggregate, bare[3:].split(",") if bare.startswith("in:") else [bare]))
        if bare is value:
            member_of.append(aggregates)
        elif version < FORBIDDEN_AGGREGATES_SINCE:
            raise QueryMalformed(
                f"Forbidden member_of{suffix} parameters are not supported in the specified microversion"
            )
        else:
            outside |= aggregates
    return tuple(member_of), outside


def _parse_aggregate(word: str) -> str:
    uuid = _parse_uuid(word)
    if uuid is None:
        raise QueryMalformed(f"{PREFIX} Expected 'member_of' parameter to contain valid UUID(s). Got: {word}")
    return uuid


def _parse_uuid(word: str) -> str | None:
    return canonical_uuid(word) if is_uuid(word) else None


# Groups that are incomplete or contradict themselves.


def _check_subtrees(groups: Sequence[RequestGroup], subtrees: Iterable[frozenset[str]]) -> None:
    bare = sorted(group.suffix for group in groups if not group.resources)
    if len(bare) == len(groups):
        raise QueryValueMissing("There must be at least one resources or resources[$S] parameter.")
    named = frozenset[str]().union(*subtrees)
    if alone := [suffix for suffix in bare if suffix not in named]:
        raise QueryValueBad(
            "Resourceless suffixed group request should be specified in `same_subtree` query param: bad group(s) - "
            f"{alone}."
        )
    suffixes = [group.suffix for group in groups]
    if unknown := sorted(named.difference(suffixes)):
        raise QueryValueBad(f"Real suffixes should be specified in `same_subtree`: {unknown} not found in {suffixes}.")


def _check_orphans(groups: Sequence[RequestGroup]) -> None:
    bare = [group for group in groups if not group.resources]
    if orphans := [f"required{group.suffix}" for group in bare if group.required]:
        raise QueryMalformed(
            "All traits parameters must be associated with resources.  Found the following orphaned traits keys: "
            + ", ".join(orphans)
        )
    if orphans := [f"member_of{group.suffix}" for group in bare if group.member_of or group.forbidden_aggregates]:
        raise QueryMalformed(
            "All member_of parameters must be associated with resources. Found the following orphaned member_of keys: "
            + ", ".join(orphans)
        )
    if bare:
        raise QueryMalformed("All request groups must specify resources.")
    if not groups:
        raise QueryMalformed("At least one request group (`resources` or `resources{$S}`) is required.")


def _check_traits(groups: Sequence[RequestGroup]) -> None:
    conflicts = [
        f"required{group.suffix}: ({', '.join(sorted(any_of))})"
        for group in groups
        for any_of in group.required
        if any_of <= group.forbidden
    ]
    if conflicts:
        raise QueryMalformed(
            "Conflicting required and forbidden traits found in the following traits keys: "
            + ", ".join(sorted(conflicts))
        )
