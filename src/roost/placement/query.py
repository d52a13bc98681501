"""Reads the query strings of the Placement API into request groups. Every error says what was expected.

Source: Placement API 1.39, GET /allocation_candidates and GET /resource_providers.
"""

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from roost.placement.errors import QueryMalformed
from roost.seams.placement import CandidateQuery, RequestGroup

AMOUNT_MAX = 2**31 - 1
LIMIT_MAX = 2**31 - 1
GROUP_KEY = re.compile(r"(resources|required|member_of|in_tree)([a-zA-Z0-9_-]{1,64})?")
UUID = re.compile(r"[0-9a-fA-F]{8}(-?)([0-9a-fA-F]{4}\1){3}[0-9a-fA-F]{12}")
NAME = re.compile(r"[A-Z0-9_]{1,255}")

Pairs = Iterable[tuple[str, str]]
"""The parameters of a query string, decoded, in order, repeated ones repeated."""


class ProviderQuery(Struct, frozen=True, kw_only=True):
    """Which providers to list. group: what each of them must satisfy by itself."""

    uuid: str | None = None
    name: str | None = None
    group: RequestGroup


def parse_candidates(pairs: Pairs) -> CandidateQuery:
    """The query of GET /allocation_candidates; the unsuffixed group first. Raises QueryMalformed."""
    values_by_suffix: dict[str, dict[str, list[str]]] = {}
    policy, limit = None, 0
    for key, value in pairs:
        match = GROUP_KEY.fullmatch(key)
        if key == "group_policy":
            policy = value
        elif key == "limit":
            limit = _whole(key, value, LIMIT_MAX)
        elif match is None:
            raise QueryMalformed(
                key,
                value,
                "resources, required, member_of, in_tree, each with an optional suffix, group_policy or limit",
            )
        else:
            values_by_suffix.setdefault(match[2] or "", {}).setdefault(match[1], []).append(value)
    suffixes = sorted(values_by_suffix, key=bool)  # stable: the unsuffixed first, the others as they came
    groups = tuple(parse_group(suffix, values_by_suffix[suffix]) for suffix in suffixes)
    if not groups:
        raise QueryMalformed("resources", "", "at least one request group (`resources` or `resources{suffix}`)")
    for group in groups:
        if not group.resources:
            raise QueryMalformed(f"resources{group.suffix}", "", "resources in every request group")
    if policy not in (None, "none", "isolate"):
        raise QueryMalformed("group_policy", policy or "", "one of: none, isolate")
    if policy is None and len([suffix for suffix in suffixes if suffix]) > 1:
        raise QueryMalformed(
            "group_policy", "",
            'none or isolate: The "group_policy" parameter is required when specifying more than one "resources{N}"',
        )  # fmt: skip
    return CandidateQuery(groups=groups, group_policy=policy or "none", limit=limit)


def parse_providers(pairs: Pairs) -> ProviderQuery:
    """The query of GET /resource_providers. Raises QueryMalformed."""
    values: dict[str, list[str]] = {}
    provider_uuid = name = None
    for key, value in pairs:
        if key == "uuid":
            provider_uuid = _uuid(key, value)
        elif key == "name":
            name = value
        elif key in ("resources", "required", "member_of", "in_tree"):
            values.setdefault(key, []).append(value)
        else:
            raise QueryMalformed(key, value, "uuid, name, in_tree, member_of, resources or required")
    return ProviderQuery(uuid=provider_uuid, name=name, group=parse_group("", values))


def parse_group(suffix: str, values: Mapping[str, Sequence[str]]) -> RequestGroup:
    """One request group. values: the parameter's name without suffix -> its values. Raises QueryMalformed."""
    required, forbidden = _parse_required(f"required{suffix}", values.get("required", ()))
    member_of, outside = _parse_member_of(f"member_of{suffix}", values.get("member_of", ()))
    resources: dict[str, int] = {}
    for value in values.get("resources", ())[-1:]:
        resources = _parse_resources(f"resources{suffix}", value)
    in_tree = None
    for value in values.get("in_tree", ())[-1:]:
        in_tree = _uuid(f"in_tree{suffix}", value)
    return RequestGroup(
        suffix=suffix, resources=resources, required=required, forbidden=forbidden, member_of=member_of,
        forbidden_aggregates=outside, in_tree=in_tree,
    )  # fmt: skip


def _parse_resources(key: str, value: str) -> dict[str, int]:
    resources = {}
    for word in value.split(","):
        name, colon, amount = word.partition(":")
        if not colon or not NAME.fullmatch(name):
            raise QueryMalformed(
                key, value, "CLASS:AMOUNT, several of them with commas between, as in VCPU:2,DISK_GB:10"
            )
        resources[name] = _whole(key, amount, AMOUNT_MAX)
    return resources


def _parse_required(key: str, values: Sequence[str]) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    expected = "traits with commas between, `!` before forbidden ones, or `in:` before traits of which one is needed"
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        if value.startswith("in:"):
            names = value[3:].split(",")
            required.append(frozenset(names))
        else:
            names = [word.removeprefix("!") for word in value.split(",")]
            forbidden |= {word[1:] for word in value.split(",") if word.startswith("!")}
            required += [frozenset({word}) for word in value.split(",") if not word.startswith("!")]
        if not all(NAME.fullmatch(name) for name in names):
            raise QueryMalformed(key, value, expected)
    for any_of in required:
        if any_of <= forbidden:
            raise QueryMalformed(key, ", ".join(sorted(any_of)), "no trait that is both required and forbidden")
    return tuple(dict.fromkeys(required)), frozenset(forbidden)


def _parse_member_of(key: str, values: Sequence[str]) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    member_of: list[frozenset[str]] = []
    outside: frozenset[str] = frozenset()
    for value in values:
        bare = value.removeprefix("!")
        uuids = bare[3:].split(",") if bare.startswith("in:") else [bare]
        if not all(UUID.fullmatch(word) for word in uuids):
            raise QueryMalformed(
                key, value, "an aggregate's UUID, or `in:` and several with commas between; `!` forbids"
            )
        aggregates = frozenset(str(uuid.UUID(word)) for word in uuids)
        if value.startswith("!"):
            outside |= aggregates
        else:
            member_of.append(aggregates)
    return tuple(dict.fromkeys(member_of)), outside


def _whole(key: str, value: str, highest: int) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", value) or not 1 <= int(value) <= highest:
        raise QueryMalformed(key, value, f"a whole number from 1 to {highest}")
    return int(value)


def _uuid(key: str, value: str) -> str:
    if not UUID.fullmatch(value):
        raise QueryMalformed(key, value, "a UUID")
    return str(uuid.UUID(value))
