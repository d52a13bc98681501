"""Small clouds for tests of the search: providers by number, and random ones with random queries."""

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st

from roost.placement.model import ProviderRow
from roost.placement.search.index import Delta, Index
from roost.seams.placement import (
    DISK_GB,
    IPV4_ADDRESS,
    MEMORY_MB,
    SHARING,
    VCPU,
    CandidateQuery,
    Distinct,
    Inventory,
    RequestGroup,
)

T = TypeVar("T")


def provider(number: int, **fields) -> ProviderRow:
    """A provider whose uuid and name are `p<number>`; totals and used by resource class."""
    totals, used = fields.pop("totals", {}), fields.pop("used", {})
    made = {
        "id": number, "uuid": f"p{number}", "name": f"p{number}", "generation": 0, "parent_id": None,
        "root_id": number, "traits": frozenset(), "placement_aggregates": frozenset(),
        "inventories": {
            name: total if isinstance(total, Inventory) else Inventory(total, 0, 1, total)
            for name, total in totals.items()
        },
        "used": {name: used.get(name, 0) for name in totals},
    }  # fmt: skip
    return ProviderRow(**{**made, **fields})


def host(number: int, *aggregates: str, vcpu: int = 8, **fields) -> ProviderRow:
    totals = {VCPU: vcpu, MEMORY_MB: 4096, DISK_GB: 100}
    return provider(number, totals=totals, placement_aggregates=frozenset(aggregates), **fields)


def segment(number: int, *aggregates: str, addresses: int, used: int = 0) -> ProviderRow:
    return provider(
        number, totals={IPV4_ADDRESS: addresses}, used={IPV4_ADDRESS: used},
        placement_aggregates=frozenset(aggregates), traits=frozenset({SHARING}),
    )  # fmt: skip


def index_of(*providers: ProviderRow) -> Index:
    index = Index()
    index.apply(Delta(providers=providers))
    return index


CLASSES = (VCPU, IPV4_ADDRESS)
AGGREGATES = ("a", "b", "c")
TRAITS = ("CUSTOM_A", "CUSTOM_B")


RANDOM = st.randoms(use_true_random=True)
"""Chance for worlds and queries: even, because hypothesis' own leans to extremes, where nothing is ever found."""


def subset(random: Random, names: tuple[str, ...], *, likely: float = 0.4) -> frozenset[str]:
    return frozenset(name for name in names if random.random() < likely)


def some(random: Random, names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(random.sample(names, random.randint(1, 2)))


def seldom(random: Random, given: Callable[[], T], otherwise: T) -> T:
    """Mostly nothing: a query that asks for everything finds nothing."""
    return given() if random.random() < 0.1 else otherwise


def a_world(random: Random) -> list[ProviderRow]:
    """Up to seven providers in some trees; a third of them share."""
    made: list[ProviderRow] = []
    for number in range(1, random.randint(1, 7) + 1):
        parent = random.choice([None, None, *made])
        names = sorted(subset(random, CLASSES, likely=0.85))
        inventories = {
            name: Inventory(
                random.randint(2, 9),
                0,
                random.choice([1, 1, 1, 1, 2]),
                random.randint(1, 8),
                random.choice([1, 1, 1, 1, 2]),
            )
            for name in names
        }
        sharing = frozenset({SHARING}) if random.random() < 0.3 else frozenset[str]()
        made.append(
            provider(
                number, totals=inventories, used={name: random.choice([0, 0, 0, 1, 2, 9]) for name in names},
                parent_id=parent.id if parent else None, root_id=parent.root_id if parent else number,
                traits=subset(random, TRAITS) | sharing, placement_aggregates=subset(random, AGGREGATES),
            )
        )  # fmt: skip
    return made


def a_group(random: Random, suffix: str, *, bare: bool = False) -> RequestGroup:
    nothing, none = frozenset[str](), tuple[frozenset[str], ...]()
    names = [] if bare else random.sample(CLASSES, random.choice([1, 1, 2]))
    return RequestGroup(
        suffix=suffix,
        resources={name: random.choice([1, 1, 1, 2, 3]) for name in names},
        required=seldom(random, lambda: tuple(some(random, TRAITS) for _ in range(random.randint(1, 2))), none),
        forbidden=seldom(random, lambda: some(random, TRAITS), nothing),
        member_of=seldom(random, lambda: tuple(some(random, AGGREGATES) for _ in range(random.randint(1, 2))), none),
        forbidden_aggregates=seldom(random, lambda: some(random, AGGREGATES), nothing),
        in_tree=seldom(random, lambda: random.choice(["p1", "p3", "p9"]), None),
    )


def a_query(random: Random) -> CandidateQuery:
    """Up to four groups, some of them alike, some without resources, some in one subtree."""
    made = [a_group(random, "")] if random.random() < 0.6 else []
    for number in range(random.randint(0 if made else 1, 3)):
        suffix = f"_{number}"
        if number and made[-1].suffix and random.random() < 0.5:
            made.append(RequestGroup(**{**fields_of(made[-1]), "suffix": suffix}))
        else:
            made.append(a_group(random, suffix, bare=bool(made) and random.random() < 0.25))
    suffixes = [group.suffix for group in made if group.suffix]
    subtrees = [frozenset(random.sample(suffixes, random.randint(1, len(suffixes)))) for _ in suffixes[:2]]
    return CandidateQuery(
        groups=tuple(made),
        group_policy=random.choice(["none", "isolate"]),
        same_subtree=tuple(subtrees) if random.random() < 0.4 else (),
        root_required=seldom(random, lambda: some(random, TRAITS), frozenset[str]()),
        root_forbidden=seldom(random, lambda: some(random, TRAITS), frozenset[str]()),
        nested=random.random() < 0.8,
        distinct=random.choice(list(Distinct)),
    )


def fields_of(group: RequestGroup) -> dict[str, Any]:
    return {name: getattr(group, name) for name in group.__struct_fields__}
