"""The search for candidates as its rules are written, by trying every provider for every part: slow and plain.

Source: Placement API 1.39, GET /allocation_candidates, and its guide "Modeling with Provider Trees".
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from tests.placement.worlds import fields_of

from roost.placement.model import ProviderRow
from roost.seams.placement import SHARING, CandidateQuery, Distinct, RequestGroup

Part = tuple[RequestGroup, Mapping[str, int]]
"""A group with what one provider must give of it: one class of the unsuffixed group, or all of a granular one."""

Chosen = Sequence[ProviderRow]


def parts_of(query: CandidateQuery) -> list[Part]:
    parts: list[Part] = []
    for group in query.groups:
        parts += (
            [(group, group.resources)] if group.suffix else [(group, {name: n}) for name, n in group.resources.items()]
        )
    return parts


def tried(world: Sequence[ProviderRow], query: CandidateQuery) -> set[object]:
    """What tells the candidates of the query apart, of all of them."""
    by_uuid = {one.uuid: one for one in world}
    parts, found = parts_of(query), set()
    for root in (one for one in world if one.parent_id is None):
        if not query.root_required <= root.traits or query.root_forbidden & root.traits:
            continue
        reached = frozenset().union(*(one.placement_aggregates for one in world if one.root_id == root.id))
        choices = [
            [
                one
                for one in world
                if fits(one, resources) and allowed(one, group, root, by_uuid)
                and (one.root_id == root.id or (SHARING in one.traits and one.placement_aggregates & reached))
            ]
            for group, resources in parts
        ]  # fmt: skip
        for chosen in itertools.product(*choices):
            if holds_together(world, query, parts, chosen):
                found.add(key_of(query, parts, chosen))
    return found


def fits(one: ProviderRow, resources: Mapping[str, int]) -> bool:
    for name, amount in resources.items():
        held = one.inventories.get(name)
        if held is None or amount + one.used[name] > held.capacity or amount % held.step_size:
            return False
        if not held.min_unit <= amount <= held.max_unit:
            return False
    return True


def allowed(one: ProviderRow, group: RequestGroup, root: ProviderRow, by_uuid: Mapping[str, ProviderRow]) -> bool:
    """Whether a provider may serve a group for the tree of a root, whatever else is asked."""
    own = one.root_id == root.id
    if group.in_tree is not None:
        named = by_uuid.get(group.in_tree)
        if named is None or named.root_id != one.root_id or (not group.suffix and not own):
            return False
    if group.forbidden & one.traits or group.forbidden_aggregates & one.placement_aggregates:
        return False
    held, span = one.placement_aggregates, root.placement_aggregates
    in_all = all(any_of & held for any_of in group.member_of)
    if group.suffix:
        return in_all and all(any_of & one.traits for any_of in group.required)
    if group.forbidden_aggregates & span:
        return False
    return in_all or (own and all(any_of & span for any_of in group.member_of))


def holds_together(world: Sequence[ProviderRow], query: CandidateQuery, parts: Sequence[Part], chosen: Chosen) -> bool:
    amounts = amounts_of(parts, chosen)
    for one in chosen:
        for name, held in one.inventories.items():
            amount = amounts[one.uuid, name]
            if amount and (amount + one.used[name] > held.capacity or amount > held.max_unit):
                return False
    granular = [one.uuid for (group, _), one in zip(parts, chosen, strict=True) if group.suffix]
    if query.group_policy == "isolate" and len(set(granular)) < len(granular):
        return False
    if not query.nested and any(
        one.root_id == other.root_id and one is not other for one in chosen for other in chosen
    ):
        return False
    if not all(in_one_subtree(world, parts, chosen, suffixes) for suffixes in query.same_subtree):
        return False
    spread = [(group, one) for (group, _), one in zip(parts, chosen, strict=True) if not group.suffix]
    traits = frozenset().union(*(one.traits for _, one in spread))
    return all(any_of & traits for group, _ in spread[:1] for any_of in group.required)


def in_one_subtree(
    world: Sequence[ProviderRow], parts: Sequence[Part], chosen: Chosen, suffixes: frozenset[str]
) -> bool:
    by_id = {one.id: one for one in world}
    members = [one for (group, _), one in zip(parts, chosen, strict=True) if group.suffix in suffixes]

    def is_below(one: ProviderRow, top: ProviderRow) -> bool:
        return one is top or (one.parent_id is not None and is_below(by_id[one.parent_id], top))

    return any(all(is_below(one, top) for one in members) for top in members)


def amounts_of(parts: Sequence[Part], chosen: Chosen) -> Counter:
    amounts: Counter = Counter()
    for (_group, resources), one in zip(parts, chosen, strict=True):
        for name, amount in resources.items():
            amounts[one.uuid, name] += amount
    return amounts


def key_of(query: CandidateQuery, parts: Sequence[Part], chosen: Chosen) -> object:
    """What makes two candidates the same: see Distinct."""
    if query.distinct is Distinct.MAPPINGS:
        return tuple(
            (group.suffix, *sorted(resources), one.uuid) for (group, resources), one in zip(parts, chosen, strict=True)
        )
    places = []
    for (group, resources), one in zip(parts, chosen, strict=True):
        asked = {name: written(value) for name, value in fields_of(group).items() if name != "suffix"}
        subtrees = tuple(group.suffix in suffixes for suffixes in query.same_subtree)
        places.append((bool(group.suffix), tuple(sorted(asked.items())), subtrees, tuple(sorted(resources)), one.uuid))
    return tuple(sorted(places))


def written(value: object) -> str:
    """The same for what is equal, in whatever order it came."""
    if isinstance(value, Mapping):
        return repr(sorted(value.items()))
    if isinstance(value, frozenset):
        return repr(sorted(value))
    return repr([written(part) for part in value]) if isinstance(value, tuple) else repr(value)
