"""The answer to a query for candidates, as the Placement API's JSON: joined from texts of providers made once.

What a provider's summary says is kept in the index until the provider changes. A candidate's text is a template for its
pattern, which is: which slots of the plan have the same provider. There are few patterns, so there is no dict to build.
Names that are put into JSON here unescaped are UUIDs, suffixes, traits and resource classes, which need no escapes.

Source: Placement API 1.10 to 1.39, GET /allocation_candidates.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np

from roost.placement.search.candidates import Gathered, amounts_of, rows_by_suffix
from roost.placement.search.combinations import Chosen
from roost.placement.search.index import NO_ROW, Index
from roost.placement.search.narrowing import Plan
from roost.placement.search.query_schema import Version

OBJECTS_SINCE = (1, 12)
TRAITS_SINCE = (1, 17)
ALL_CLASSES_SINCE = (1, 27)
TREES_SINCE = (1, 29)
MAPPINGS_SINCE = (1, 34)

TRAIT_SETS_KEPT = 4096
QUOTED_UUID = ('"%s"',)

Pattern = tuple[int, ...]
"""For each slot of a plan, the number of its provider among the different ones, in order of their first slots."""

Template = tuple[str, tuple[int, ...]]
"""A candidate's text with a %s for each UUID, and the numbers of the providers that go there."""


def encode(index: Index, plan: Plan, gathered: Gathered, version: Version) -> bytes:
    """Return the body of the answer. Cost: a few short strings for each candidate and provider."""
    requests = ",".join(_requests(index, plan, gathered, version))
    summaries = ",".join(_summaries(index, plan, gathered, version))
    return f'{{"allocation_requests":[{requests}],"provider_summaries":{{{summaries}}}}}'.encode()


# Candidates.


def _requests(index: Index, plan: Plan, gathered: Gathered, version: Version) -> Iterator[str]:
    uuids = index.uuids
    templates: dict[Pattern, Template] = {}
    pattern = _common_pattern(gathered)
    if pattern is not None:
        text, order = _template(plan, pattern, version)
        columns = [[uuids[row] for row in gathered.sole[pattern.index(number)].tolist()] for number in set(pattern)]
        yield from [text % of_one for of_one in zip(*(columns[number] for number in order), strict=True)]
        rest: Iterable[Chosen] = ()
    else:
        rest = zip(*gathered.sole.tolist(), strict=True)
    for chosen in (*rest, *(match.rows for match in gathered.others)):
        distinct = tuple(dict.fromkeys(chosen))
        pattern = tuple([distinct.index(row) for row in chosen])
        template = templates.get(pattern)
        if template is None:
            template = templates[pattern] = _template(plan, pattern, version)
        text, order = template
        yield text % tuple([uuids[distinct[number]] for number in order])


def _common_pattern(gathered: Gathered) -> Pattern | None:
    """Return the pattern of all `sole` candidates; None when there are several, or no candidates."""
    if gathered.sole.shape[1] == 0:
        return None
    first = gathered.sole[:, 0].tolist()
    distinct = list(dict.fromkeys(first))
    pattern = tuple(distinct.index(row) for row in first)
    for number, row in enumerate(gathered.sole):
        for other in range(number):
            same = row == gathered.sole[other]
            if not (same.all() if pattern[number] == pattern[other] else not same.any()):
                return None
    return pattern


def _template(plan: Plan, pattern: Pattern, version: Version) -> Template:
    """Return the template, by taking the numbers of the pattern for rows."""
    order: list[int] = []
    parts = []
    for number, resources in amounts_of(plan, pattern).items():
        order.append(number)
        amounts = ",".join(f'"{name}":{amount}' for name, amount in resources.items())
        if version >= OBJECTS_SINCE:
            parts.append(f'"%s":{{"resources":{{{amounts}}}}}')
        else:
            parts.append(f'{{"resource_provider":{{"uuid":"%s"}},"resources":{{{amounts}}}}}')
    allocations = ",".join(parts)
    if version < OBJECTS_SINCE:
        return f'{{"allocations":[{allocations}]}}', tuple(order)
    if version < MAPPINGS_SINCE:
        return f'{{"allocations":{{{allocations}}}}}', tuple(order)
    mappings = []
    for suffix, numbers in rows_by_suffix(plan, pattern).items():
        order += numbers
        mappings.append(f'"{suffix}":[{",".join(QUOTED_UUID * len(numbers))}]')
    return f'{{"allocations":{{{allocations}}},"mappings":{{{",".join(mappings)}}}}}', tuple(order)


# Providers.


def _summaries(index: Index, plan: Plan, gathered: Gathered, version: Version) -> list[str]:
    make, kept = _summary_maker(index, plan, version), None
    if version >= ALL_CLASSES_SINCE:
        kept = index.texts.setdefault(version >= TREES_SINCE, {})
    rows = _summarized(index, plan, gathered, version)
    if kept is None:
        return [make(row) for row in rows]
    texts = []
    for row in rows:
        text = kept.get(row)
        if text is None:
            text = kept[row] = make(row)
        texts.append(text)
    return texts


def _summarized(index: Index, plan: Plan, gathered: Gathered, version: Version) -> Iterable[int]:
    """Return the providers that are summarized: those that give resources, from TREES_SINCE on all of their trees."""
    giving = [number for number, slot in enumerate(plan.slots) if slot.wants]
    rows = dict.fromkeys(np.unique(gathered.sole[giving]).tolist())
    for match in gathered.others:
        for number in giving:
            rows[match.rows[number]] = None
    trees = index.trees()
    if version < TREES_SINCE or not trees.nested:
        return rows
    roots = dict.fromkeys(index.root_row[list(rows)].tolist()) if rows else {}
    return [row for root in roots for row in trees.rows_of(root)]


def _summary_maker(index: Index, plan: Plan, version: Version) -> Callable[[int], str]:
    """Return the function that makes the text of one provider, with its UUID as the key."""
    classes_wanted = {want.resource_class for slot in plan.slots for want in slot.wants}
    all_classes, with_traits, with_tree = (version >= since for since in (ALL_CLASSES_SINCE, TRAITS_SINCE, TREES_SINCE))

    def make(row: int) -> str:
        used = index.used[row]
        resources = ",".join(
            [
                f'"{name}":{{"capacity":{inventory.capacity},"used":{used[name]}}}'
                for name, inventory in index.inventories[row].items()
                if all_classes or name in classes_wanted
            ]
        )
        traits = f',"traits":{_traits_text(index.traits[row])}' if with_traits else ""
        return (
            f'"{index.uuids[row]}":{{"resources":{{{resources}}}{traits}{_tree_text(index, row) if with_tree else ""}}}'
        )

    return make


@lru_cache(TRAIT_SETS_KEPT)
def _traits_text(traits: frozenset[str]) -> str:
    """Return traits in upstream's order, which its tests know: standard ones first."""
    ordered = sorted(traits, key=lambda trait: (trait.startswith("CUSTOM_"), trait))
    return "[" + ",".join(f'"{trait}"' for trait in ordered) + "]"


def _tree_text(index: Index, row: int) -> str:
    parent = int(index.parent_row[row])
    parent_text = "null" if parent == NO_ROW else f'"{index.uuids[parent]}"'
    return f',"parent_provider_uuid":{parent_text},"root_provider_uuid":"{index.uuids[index.root_row[row]]}"'
