"""Random whole ledgers for the import's tests: so small that two of them share providers, names, consumers, classes."""

from hypothesis import strategies as st

from roost.placement.model import ImportedProvider, LedgerState
from roost.seams.placement import ConsumerState, Inventory

CLASSES = ("VCPU", "CUSTOM_GPU", "CUSTOM_NIC")
TRAITS = ("HW_CPU_X86_VMX", "CUSTOM_FAST", "CUSTOM_NEAR")
NAMES = ("a", "b", "c", "d", "e", "f")


def uuid_of(kind: int, number: int) -> str:
    """A UUID that can be read."""
    return f"0000000{kind}-0000-4000-8000-{number:012}"


def provider(number: int, name: str = "", **fields: object) -> ImportedProvider:
    """A provider, empty unless said otherwise."""
    whole = {
        "generation": 0, "parent_uuid": None, "inventories": {}, "traits": frozenset(),
        "placement_aggregates": frozenset(), **fields,
    }  # fmt: skip
    return ImportedProvider(uuid=uuid_of(1, number), name=name or f"p{number}", **whole)


def consumer(number: int, allocations: dict[str, dict[str, int]], **fields: object) -> ConsumerState:
    """A consumer of project p."""
    whole = {"generation": 1, "consumer_type": "INSTANCE", "project_id": "p", "user_id": "u", **fields}
    return ConsumerState(consumer_uuid=uuid_of(2, number), allocations=allocations, **whole)


def state(providers: list[ImportedProvider], consumers: list[ConsumerState] | None = None) -> LedgerState:
    """A ledger whose names are those in use, and the standard one."""
    return LedgerState(
        resource_classes=frozenset({"VCPU"}).union(*(one.inventories for one in providers)),
        traits=frozenset({"HW_CPU_X86_VMX"}).union(*(one.traits for one in providers)),
        providers={one.uuid: one for one in providers},
        consumers={one.consumer_uuid: one for one in consumers or []},
    )


@st.composite
def ledgers(draw: st.DrawFn, *, most: int = 5) -> LedgerState:
    """A ledger that contradicts itself nowhere; over its capacity more often than not."""
    numbers = draw(st.lists(st.integers(0, most), unique=True, max_size=most))
    names = draw(st.permutations(NAMES))
    providers = []
    for place, (number, name) in enumerate(zip(numbers, names, strict=False)):
        above = draw(st.sampled_from([None, *numbers[:place]]))
        classes = draw(st.sets(st.sampled_from(CLASSES)))
        providers.append(
            provider(
                number, name, generation=draw(st.integers(0, 3)),
                parent_uuid=None if above is None else uuid_of(1, above),
                inventories={
                    one: Inventory(total=draw(st.integers(1, 4)), reserved=draw(st.integers(0, 4)),
                                   allocation_ratio=draw(st.sampled_from([0.5, 1.0, 16.0])))
                    for one in sorted(classes)
                },
                traits=frozenset(draw(st.sets(st.sampled_from(TRAITS)))),
                placement_aggregates=frozenset(draw(st.sets(st.sampled_from([uuid_of(3, 1), uuid_of(3, 2)])))),
            )
        )  # fmt: skip
    lines = [(one.uuid, name) for one in providers for name in one.inventories]
    consumers = []
    for number in draw(st.lists(st.integers(0, most), unique=True, max_size=most)) if lines else []:
        allocations: dict[str, dict[str, int]] = {}
        for at, name in draw(st.lists(st.sampled_from(lines), min_size=1, max_size=3, unique=True)):
            allocations.setdefault(at, {})[name] = draw(st.integers(1, 9))
        consumers.append(
            consumer(
                number, allocations, generation=draw(st.integers(1, 3)),
                consumer_type=draw(st.sampled_from([None, "INSTANCE", "MIGRATION"])),
                project_id=draw(st.sampled_from("pq")), user_id=draw(st.sampled_from("uv")),
            )
        )  # fmt: skip
    return state(providers, consumers)
