"""Decides what must be written to make the ledger the same as another placement service's: differences and a plan.

The source is read elsewhere, as a whole (`LedgerState`). What it says is taken as it is, generations and inventories
over their capacity included: whether a claim would be taken today is no question here, only what makes ledgers equal.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from msgspec import Struct

from roost.platform.http import is_uuid
from roost.seams.placement import ConsumerState, Inventory

CUSTOM = "CUSTOM_"


class ImportedProvider(Struct, frozen=True, kw_only=True):
    """A provider with all that it has, but for who holds it."""

    uuid: str
    name: str
    generation: int
    parent_uuid: str | None
    inventories: Mapping[str, Inventory]
    traits: frozenset[str]
    placement_aggregates: frozenset[str]


class LedgerState(Struct, frozen=True, kw_only=True):
    """A whole ledger. providers, consumers: by UUID; traits, resource_classes: every name, used or not."""

    resource_classes: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()
    providers: Mapping[str, ImportedProvider]
    consumers: Mapping[str, ConsumerState]


class Kind(Enum):
    """What differs."""

    RESOURCE_CLASS = "resource class"
    TRAIT = "trait"
    PROVIDER = "provider"
    CONSUMER = "consumer"


class Change(Enum):
    """How it differs."""

    NEW = "new"
    CHANGED = "changed"
    ONLY_HERE = "only in Roost"


class Detail(Struct, frozen=True):
    """One part in which two differ; None on the side that does not have it."""

    part: str
    roost: object
    source: object


class Difference(Struct, frozen=True, kw_only=True):
    """One thing that is not the same on both sides. key: a UUID or a name; details: of Change.CHANGED."""

    kind: Kind
    change: Change
    key: str
    name: str = ""
    details: tuple[Detail, ...] = ()


class LeftOut(Struct, frozen=True):
    """What the source says of something, and cannot be: it is not imported."""

    kind: Kind
    key: str
    reason: str


class Plan(Struct, frozen=True, kw_only=True):
    """What to write, in one transaction, so that the ledger is as the source.

    providers, consumers: to be written whole, parents first. *_gone: to be deleted. providers_touched: UUIDs of those
    that are written or of which somebody's allocations change; what is in use of them is to be summed again.
    providers_raised: touched ones whose generation is not the source's to say. differences: all of them, those that
    stay included: without `delete`, what only Roost has. obstacles: why nothing may be written, in sentences.
    """

    differences: tuple[Difference, ...]
    resource_classes_new: frozenset[str]
    resource_classes_gone: frozenset[str]
    traits_new: frozenset[str]
    traits_gone: frozenset[str]
    providers: tuple[ImportedProvider, ...]
    providers_gone: frozenset[str]
    consumers: tuple[ConsumerState, ...]
    consumers_gone: frozenset[str]
    providers_touched: frozenset[str]
    providers_raised: frozenset[str]
    obstacles: tuple[str, ...]

    @property
    def writes(self) -> bool:
        """Whether there is anything to write."""
        return any(
            (
                self.resource_classes_new, self.resource_classes_gone, self.traits_new, self.traits_gone,
                self.providers, self.providers_gone, self.consumers, self.consumers_gone,
            )
        )  # fmt: skip

    @property
    def remaining(self) -> tuple[Difference, ...]:
        """The differences that stay when it is written."""
        gone = {
            Kind.RESOURCE_CLASS: self.resource_classes_gone, Kind.TRAIT: self.traits_gone,
            Kind.PROVIDER: self.providers_gone, Kind.CONSUMER: self.consumers_gone,
        }  # fmt: skip
        return tuple(
            one for one in self.differences if one.change is Change.ONLY_HERE and one.key not in gone[one.kind]
        )


def leave_out_impossible(source: LedgerState) -> tuple[LedgerState, tuple[LeftOut, ...]]:
    """Take out what refers to what the source does not have: it was read while it changed, or it is broken.

    A provider without its parent goes with its children, a consumer whole if one of its allocations has no inventory.
    """
    providers = _trees(source.providers)
    left_out = [
        LeftOut(Kind.PROVIDER, uuid, f"its parent {provider.parent_uuid} is in no tree")
        for uuid, provider in source.providers.items()
        if uuid not in providers
    ]
    consumers = {}
    for uuid, consumer in source.consumers.items():
        if not is_uuid(uuid):
            left_out.append(LeftOut(Kind.CONSUMER, uuid, "it is no UUID"))
            continue
        lost = [
            (at, name) for at, name in _lines(consumer) if at not in providers or name not in providers[at].inventories
        ]
        if lost:
            reason = ", ".join(f"there is no inventory of {name} at provider {at}" for at, name in lost)
            left_out.append(LeftOut(Kind.CONSUMER, uuid, reason))
        else:
            consumers[uuid] = consumer
    whole = LedgerState(
        resource_classes=source.resource_classes.union(*(p.inventories for p in providers.values())),
        traits=source.traits.union(*(p.traits for p in providers.values())),
        providers=providers,
        consumers=consumers,
    )
    return whole, tuple(left_out)


def _trees(providers: Mapping[str, ImportedProvider]) -> dict[str, ImportedProvider]:
    """Those of the providers that a root is above, which comes before what is below it."""
    children: dict[str | None, list[str]] = {}
    for provider in providers.values():
        children.setdefault(provider.parent_uuid, []).append(provider.uuid)
    found: dict[str, ImportedProvider] = {}
    level = children.get(None, [])
    while level:
        found |= {uuid: providers[uuid] for uuid in level}
        level = [child for uuid in level for child in children.get(uuid, ())]
    return found


def make_plan(source: LedgerState, here: LedgerState, *, delete: bool, overwrite: bool) -> Plan:
    """What to write so that the ledger, which is as `here`, is as `source`, of which nothing is impossible.

    delete: remove what only Roost has; otherwise it stays. overwrite: write although Roost was written to by others.
    """
    providers = [one for uuid, one in source.providers.items() if here.providers.get(uuid) != one]
    consumers = [one for uuid, one in source.consumers.items() if here.consumers.get(uuid) != one]
    providers_extra = frozenset(here.providers.keys() - source.providers.keys())
    consumers_extra = frozenset(here.consumers.keys() - source.consumers.keys())
    touched = {one.uuid for one in providers}
    for uuid in {one.consumer_uuid for one in consumers} | (consumers_extra if delete else frozenset()):
        for side in (source, here):
            if uuid in side.consumers:
                touched.update(side.consumers[uuid].allocations)
    obstacles = [] if overwrite else list(_ahead(source, here))
    if not delete:
        obstacles += _in_the_way(source, here)
    return Plan(
        differences=tuple(_differences(source, here)),
        resource_classes_new=source.resource_classes - here.resource_classes,
        resource_classes_gone=_custom(here.resource_classes - source.resource_classes) if delete else frozenset(),
        traits_new=source.traits - here.traits,
        traits_gone=_custom(here.traits - source.traits) if delete else frozenset(),
        providers=tuple(providers),
        providers_gone=providers_extra if delete else frozenset(),
        consumers=tuple(consumers),
        consumers_gone=consumers_extra if delete else frozenset(),
        providers_touched=frozenset(touched) - (providers_extra if delete else frozenset()),
        providers_raised=frozenset() if delete else frozenset(touched) & providers_extra,
        obstacles=tuple(obstacles),
    )


def _ahead(source: LedgerState, here: LedgerState) -> Iterator[str]:
    """An import keeps the source's generations and only the source raises them: above them, somebody wrote to Roost."""
    ahead = [
        one.name
        for uuid, one in here.providers.items()
        if uuid in source.providers and one.generation > source.providers[uuid].generation
    ]
    if ahead:
        providers = "1 provider has" if len(ahead) == 1 else f"{len(ahead)} providers have"
        yield (
            f"{providers} a higher generation in Roost than at the source ({_some(ahead)}): "
            "Roost was written to since it was imported, or they were made anew at the source. "
            "--overwrite makes them as the source has them all the same"
        )


def _in_the_way(source: LedgerState, here: LedgerState) -> Iterator[str]:
    """What only Roost has and, if it stays, keeps the rest from being as the source has it."""
    names = {one.name: one.uuid for one in here.providers.values() if one.uuid not in source.providers}
    for one in source.providers.values():
        if one.name in names:
            yield (
                f"provider {names[one.name]}, which only Roost has, has the name {one.name!r} of provider {one.uuid}: "
                "--delete removes it"
            )
    for consumer in here.consumers.values():
        if consumer.consumer_uuid in source.consumers:
            continue
        for at, name in _lines(consumer):
            if at in source.providers and name not in source.providers[at].inventories:
                yield (
                    f"consumer {consumer.consumer_uuid}, which only Roost has, holds {name} of provider {at}, which "
                    "has none at the source: --delete removes it"
                )


def _differences(source: LedgerState, here: LedgerState) -> Iterator[Difference]:
    yield from _name_differences(Kind.RESOURCE_CLASS, source.resource_classes, here.resource_classes)
    yield from _name_differences(Kind.TRAIT, source.traits, here.traits)
    for uuid in sorted(source.providers.keys() | here.providers.keys()):
        theirs, ours = source.providers.get(uuid), here.providers.get(uuid)
        if theirs != ours:
            name = theirs.name if theirs else ours.name if ours else ""
            details = _details(_provider_parts(ours), _provider_parts(theirs)) if theirs and ours else ()
            yield Difference(kind=Kind.PROVIDER, change=_change(ours, theirs), key=uuid, name=name, details=details)
    for uuid in sorted(source.consumers.keys() | here.consumers.keys()):
        owed, held = source.consumers.get(uuid), here.consumers.get(uuid)
        if owed != held:
            details = _details(_consumer_parts(held), _consumer_parts(owed)) if owed and held else ()
            yield Difference(kind=Kind.CONSUMER, change=_change(held, owed), key=uuid, details=details)


def _name_differences(kind: Kind, theirs: frozenset[str], ours: frozenset[str]) -> Iterator[Difference]:
    """A standard name that only Roost knows is no difference: the libraries of names are of different ages."""
    for name in sorted(theirs - ours):
        yield Difference(kind=kind, change=Change.NEW, key=name)
    for name in sorted(_custom(ours - theirs)):
        yield Difference(kind=kind, change=Change.ONLY_HERE, key=name)


def _change(ours: object | None, theirs: object | None) -> Change:
    if ours is None:
        return Change.NEW
    return Change.ONLY_HERE if theirs is None else Change.CHANGED


def _details(ours: Mapping[str, object], theirs: Mapping[str, object]) -> tuple[Detail, ...]:
    parts = [*theirs, *(part for part in ours if part not in theirs)]
    return tuple(Detail(part, ours.get(part), theirs.get(part)) for part in parts if ours.get(part) != theirs.get(part))


def _provider_parts(one: ImportedProvider) -> dict[str, object]:
    return {
        "name": one.name,
        "generation": one.generation,
        "parent": one.parent_uuid,
        **{f"inventory {name}": one.inventories[name] for name in sorted(one.inventories)},
        **{f"trait {name}": True for name in sorted(one.traits)},
        **{f"placement aggregate {uuid}": True for uuid in sorted(one.placement_aggregates)},
    }


def _consumer_parts(one: ConsumerState) -> dict[str, object]:
    return {
        "generation": one.generation,
        "type": one.consumer_type,
        "project": one.project_id,
        "user": one.user_id,
        **{f"{name} of provider {at}": one.allocations[at][name] for at, name in sorted(_lines(one))},
    }


def _lines(consumer: ConsumerState) -> Iterator[tuple[str, str]]:
    """(provider UUID, resource class) of each allocation."""
    return ((at, name) for at, resources in consumer.allocations.items() for name in resources)


def _custom(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name in names if name.startswith(CUSTOM))


def _some(names: list[str], most: int = 3) -> str:
    return ", ".join(sorted(names)[:most]) + (", ..." if len(names) > most else "")
