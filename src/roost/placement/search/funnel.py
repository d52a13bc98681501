"""Why a search found nothing: how many host trees each requirement of a query left, one after the other."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from roost.placement.search.combinations import Options, SearchBudget, combinations, only_combination
from roost.placement.search.implied import Nic, imply
from roost.placement.search.index import Index, Mask
from roost.placement.search.narrowing import Plan, make_plan
from roost.seams.placement import IPV4_ADDRESS, CandidateQuery, Funnel, FunnelStep, RequestGroup, Requirement, Shortage


def explain(index: Index, query: CandidateQuery, nics: Sequence[Nic] = (), *, counted_only: bool = False) -> Funnel:
    """Count the host trees that the requirements leave, one requirement after the other.

    First what the root is, then what providers are (inventory, traits, trees, placement aggregates), of every group;
    then what they have free; then what the groups ask of each other; then the addresses that are implied for `nics`.
    Cost: a search's narrowing for each requirement, and the first combination of each tree that is left for each of
    what groups ask of each other; when the budget of one search is used up, the trees that were not looked at count as
    failing.
    """
    hosts = index.trees().hosts

    def hosts_of(narrowed: CandidateQuery) -> Mask:
        return make_plan(index, narrowed).viable & hosts

    def count(step: FunnelStep, narrowed: CandidateQuery) -> FunnelStep:
        return replace(step, hosts_left=int(np.count_nonzero(hosts_of(narrowed))))

    steps = [FunnelStep(requirement=Requirement.HOSTS, hosts_left=int(np.count_nonzero(hosts)))]
    shape = CandidateQuery(groups=())
    for step, shape in _shapes(query):
        steps.append(count(step, shape))
    amounts = [(count(step, narrowed), narrowed) for step, narrowed in _amounts(shape, list(_amounts_of(query)))]
    steps += [step for step, _ in amounts]
    budget = SearchBudget()  # one for all: explaining must not cost more than searching did
    for step, narrowed in _together(query):
        if steps[-1].hosts_left == 0:
            break
        plan = make_plan(index, narrowed)
        rows = np.flatnonzero(plan.viable & hosts).tolist()
        hosts_left = sum(1 for root in rows if _has_combination(index, plan, root, budget))
        steps.append(replace(step, hosts_left=hosts_left))
    for requirement, counted in ((Requirement.ADDRESSES, False), (Requirement.COUNTED, True)):
        if not nics or (counted and not counted_only):
            continue
        hosts_implied = np.count_nonzero(imply(index, nics, hosts_of(query), counted_only=counted).viable)
        step = FunnelStep(requirement=requirement, names=(IPV4_ADDRESS,), amount=len(nics))
        steps.append(replace(step, hosts_left=min(int(hosts_implied), steps[-1].hosts_left)))
    return Funnel(tuple(steps), _shortages(index, query, shape, amounts, hosts_of))


_Amount = tuple[int, str, int]
"""The number of a group in its query, a resource class, how much of it."""


def _amounts_of(query: CandidateQuery) -> Iterator[_Amount]:
    for number, group in enumerate(query.groups):
        for name, amount in group.resources.items():
            yield number, name, amount


def _shortages(
    index: Index,
    query: CandidateQuery,
    shape: CandidateQuery,
    amounts: Sequence[tuple[FunnelStep, CandidateQuery]],
    hosts_of: Callable[[CandidateQuery], Mask],
) -> tuple[Shortage, ...]:
    """Return where the amount that left nobody is free all the same, and where what keeps it from these hosts is."""
    empty = next((number for number, (step, _) in enumerate(amounts) if step.hosts_left == 0), 0)
    if empty == 0:
        return ()
    ordered = list(_amounts_of(query))
    sides: list[tuple[FunnelStep, Mask]] = []
    for step, narrowed in _amounts(shape, [ordered[empty], *ordered[:empty]]):
        hosts_left = hosts_of(narrowed)
        if hosts_left.any():
            sides.append((step, hosts_left))
            continue
        if not sides:
            return ()
        (first, _), (_, hosts_with_first) = sides[0], sides[-1]
        return (
            _shortage(index, query, first, step, hosts_with_first),
            _shortage(index, query, step, first, hosts_of(amounts[empty - 1][1])),
        )
    raise AssertionError("amounts that no host has in one order are had in another")


def _shortage(index: Index, query: CandidateQuery, has: FunnelStep, lacks: FunnelStep, hosts: Mask) -> Shortage:
    aggregates = {name for group in query.groups for clause in group.member_of for name in clause}
    return Shortage(
        has=has,
        lacks=lacks,
        hosts=int(np.count_nonzero(hosts)),
        placement_aggregates=tuple(
            name for name in sorted(aggregates) if hosts[index.root_row[index.rows_in_aggregate(name)]].any()
        ),
    )


def _shapes(query: CandidateQuery) -> Iterator[tuple[FunnelStep, CandidateQuery]]:
    """Build the query up requirement by requirement, as far as it asks what providers are."""
    narrowed = CandidateQuery(groups=())
    for names, requirement, field in (
        (sorted(query.root_required), Requirement.ROOT_TRAIT, "root_required"),
        (sorted(query.root_forbidden), Requirement.NO_ROOT_TRAIT, "root_forbidden"),
    ):
        for number, trait in enumerate(names, 1):
            narrowed = replace(narrowed, **{field: frozenset(names[:number])})
            yield FunnelStep(requirement=requirement, names=(trait,)), narrowed
    groups: list[RequestGroup] = []
    for group in query.groups:
        groups.append(RequestGroup(suffix=group.suffix, resources=dict.fromkeys(group.resources, 0)))
        for requirement, about, changes in _shape_of(group):
            groups[-1] = replace(groups[-1], **changes)
            narrowed = replace(narrowed, groups=tuple(groups))
            yield FunnelStep(requirement=requirement, suffix=group.suffix, names=tuple(about)), narrowed


def _amounts(shape: CandidateQuery, amounts: Sequence[_Amount]) -> Iterator[tuple[FunnelStep, CandidateQuery]]:
    """Add one amount after the other to what the query asks providers to be."""
    groups = list(shape.groups)
    for number, name, amount in amounts:
        group = groups[number]
        groups[number] = replace(group, resources={**group.resources, name: amount})
        step = FunnelStep(requirement=Requirement.FREE, suffix=group.suffix, names=(name,), amount=amount)
        yield step, replace(shape, groups=tuple(groups))


def _shape_of(group: RequestGroup) -> Iterator[tuple[Requirement, Sequence[str], Mapping[str, object]]]:
    """Yield what a group asks for beside amounts: (requirement, its names, the fields of the group for it)."""
    if group.resources:
        yield Requirement.INVENTORY, list(group.resources), {}
    forbidden = sorted(group.forbidden)
    for number, trait in enumerate(forbidden, 1):
        yield Requirement.NO_TRAIT, [trait], {"forbidden": frozenset(forbidden[:number])}
    for number, traits in enumerate(group.required, 1):
        yield Requirement.TRAIT, sorted(traits), {"required": group.required[:number]}
    if group.in_tree is not None:
        yield Requirement.IN_TREE, [group.in_tree], {"in_tree": group.in_tree}
    if group.forbidden_aggregates:
        names = sorted(group.forbidden_aggregates)
        yield Requirement.NOT_MEMBER_OF, names, {"forbidden_aggregates": group.forbidden_aggregates}
    clauses = tuple(dict.fromkeys(group.member_of))
    for number, aggregates in enumerate(clauses, 1):
        yield Requirement.MEMBER_OF, sorted(aggregates), {"member_of": clauses[:number]}


def _together(query: CandidateQuery) -> Iterator[tuple[FunnelStep, CandidateQuery]]:
    """Yield what the parts ask of each other, one requirement after the other; the last is the whole query."""
    narrowed = replace(query, group_policy="none", same_subtree=(), nested=True)
    yield FunnelStep(requirement=Requirement.TOGETHER), narrowed
    if not query.nested:
        narrowed = replace(narrowed, nested=False)
        yield FunnelStep(requirement=Requirement.FLAT), narrowed
    if query.group_policy == "isolate":
        narrowed = replace(narrowed, group_policy="isolate")
        yield FunnelStep(requirement=Requirement.ISOLATED), narrowed
    for number, suffixes in enumerate(query.same_subtree, 1):
        narrowed = replace(narrowed, same_subtree=query.same_subtree[:number])
        yield FunnelStep(requirement=Requirement.SAME_SUBTREE, names=tuple(sorted(suffixes))), narrowed


def _has_combination(index: Index, plan: Plan, root: int, budget: SearchBudget) -> bool:
    options = options_of(index, plan, root)
    if only_combination(plan, options) is not None:
        return True
    return next(combinations(index, plan, options, budget), None) is not None


def options_of(index: Index, plan: Plan, root: int) -> Options:
    """Return the rows that may fill each slot for one root."""
    own, serving = index.trees().rows_of(root), index.sharing().rows_by_root.get(root, ())
    return [
        [row for row in own if slot.own[row]] + [row for row in serving if slot.shared is not None and slot.shared[row]]
        for slot in plan.slots
    ]
