"""Decides what must be written to make the ledger the same as another placement service's: differences and a plan.

The source is read elsewhere, as a whole (`LedgerState`). What it says is taken as it is, generations and inventories
over their capacity included: whether a claim would be taken today is no question here, only what makes ledgers equal.
"""

from collections.abc import Iterator, Mapping
from enum import Enum

from msgspec import Struct

from roost.placement.model import ImportedProvider, Kind, LastImport, LedgerState
from roost.platform.grouping import grouped
from roost.platform.http import is_uuid
from roost.seams.placement import ConsumerState

CUSTOM = "CUSTOM_"


NO_IMPORT = LastImport()


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
    """Something of the source that cannot be as the source says: it is not imported."""

    kind: Kind
    key: str
    reason: str


class Plan(Struct, frozen=True, kw_only=True):
    """What to write, in one transaction, so that the ledger is as the source.

    differences: all of them. delete: what only Roost has is to go, too. providers, consumers: to be written whole.
    providers_touched: UUIDs of those that are written or of which somebody's allocations change; what is in use of them
    is to be summed again. providers_raised: touched ones whose generation is not the source's to say. providers_own,
    consumers_own: UUIDs of what only Roost has and was written there since the last import. obstacles: why nothing may
    be written, in sentences.
    """

    differences: tuple[Difference, ...]
    delete: bool
    providers: tuple[ImportedProvider, ...]
    consumers: tuple[ConsumerState, ...]
    providers_touched: frozenset[str]
    providers_raised: frozenset[str]
    providers_own: tuple[str, ...]
    consumers_own: tuple[str, ...]
    obstacles: tuple[str, ...]

    def new(self, kind: Kind) -> list[str]:
        """Return the keys of what only the source has, in order."""
        return [item.key for item in self.differences if item.kind is kind and item.change is Change.NEW]

    def gone(self, kind: Kind) -> list[str]:
        """Return the keys of what is to be deleted, in order."""
        extra = (item for item in self.differences if item.change is Change.ONLY_HERE)
        return [item.key for item in extra if item.kind is kind] if self.delete else []

    @property
    def remaining(self) -> tuple[Difference, ...]:
        """The differences that stay when it is written."""
        return () if self.delete else tuple(item for item in self.differences if item.change is Change.ONLY_HERE)

    @property
    def writes(self) -> bool:
        """Whether there is anything to write."""
        return len(self.remaining) < len(self.differences)


def leave_out_impossible(source: LedgerState) -> tuple[LedgerState, tuple[LeftOut, ...]]:
    """Return the source without what refers to what it does not have: it changed while it was read, or is broken.

    A provider without its parent goes with its children, a consumer whole if one of its allocations has no inventory.
    """
    providers = {provider.uuid: provider for provider in top_down(source.providers)}
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


def top_down(providers: Mapping[str, ImportedProvider]) -> Iterator[ImportedProvider]:
    """Yield the providers that are below some root, parents before their children."""
    children = grouped((provider.parent_uuid, provider) for provider in providers.values())
    level = children.get(None, [])
    while level:
        yield from level
        level = [child for parent in level for child in children.get(parent.uuid, ())]


def make_plan(
    source: LedgerState, here: LedgerState, last: LastImport = NO_IMPORT, *, delete: bool, overwrite: bool
) -> Plan:
    """Return what to write so that the ledger, which is as `here`, is as `source`, of which nothing is impossible.

    delete: remove what only Roost has; otherwise it stays. overwrite: write although Roost was written to by others.
    """
    providers = [item for uuid, item in source.providers.items() if here.providers.get(uuid) != item]
    consumers = [item for uuid, item in source.consumers.items() if here.consumers.get(uuid) != item]
    providers_extra = here.providers.keys() - source.providers.keys()
    touched = {item.uuid for item in providers}
    consumers_extra = here.consumers.keys() - source.consumers.keys() if delete else set()
    for uuid in {item.consumer_uuid for item in consumers} | consumers_extra:
        for side in (source, here):
            if uuid in side.consumers:
                touched.update(side.consumers[uuid].allocations)
    providers_own = sorted(
        uuid for uuid in providers_extra if last.providers.get(uuid) != here.providers[uuid].generation
    )
    consumers_own = sorted(
        uuid
        for uuid in here.consumers.keys() - source.consumers.keys()
        if last.consumers.get(uuid) != here.consumers[uuid].generation
    )
    obstacles = [] if overwrite else [*_ahead(source, here), *_deleted_here(source, here, last)]
    if delete and not overwrite:
        obstacles += _written_here([here.providers[uuid].name for uuid in providers_own], consumers_own)
    if not delete:
        obstacles += _in_the_way(source, here)
    return Plan(
        differences=list_differences(source, here),
        delete=delete,
        providers=tuple(providers),
        consumers=tuple(consumers),
        providers_touched=frozenset(touched - providers_extra if delete else touched),
        providers_raised=frozenset() if delete else frozenset(touched & providers_extra),
        providers_own=tuple(providers_own),
        consumers_own=tuple(consumers_own),
        obstacles=tuple(obstacles),
    )


def list_differences(source: LedgerState, here: LedgerState) -> tuple[Difference, ...]:
    """Return all in which the two differ, by kind and by key."""
    return tuple(item for kind in Kind for item in _differences(kind, source, here))


def _ahead(source: LedgerState, here: LedgerState) -> Iterator[str]:
    """Say which providers have a higher generation in Roost.

    An import keeps the source's generations, and only the source raises them: where they are higher, somebody wrote to
    Roost.
    """
    ahead = [
        provider.name
        for uuid, provider in here.providers.items()
        if uuid in source.providers and provider.generation > source.providers[uuid].generation
    ]
    if ahead:
        providers = "1 provider has" if len(ahead) == 1 else f"{len(ahead)} providers have"
        yield (
            f"{providers} a higher generation in Roost than at the source ({_some(ahead)}): "
            "Roost was written to since it was imported, or they were made anew at the source. "
            "--overwrite makes them as the source has them all the same"
        )


def _deleted_here(source: LedgerState, here: LedgerState, last: LastImport) -> Iterator[str]:
    """Say which providers the last import left and Roost has no more, although the source has them."""
    deleted = last.providers.keys() - here.providers.keys()
    names = [provider.name for uuid, provider in source.providers.items() if uuid in deleted]
    if names:
        providers = "1 provider was" if len(names) == 1 else f"{len(names)} providers were"
        yield (
            f"{providers} deleted in Roost since the last import ({_some(names)}): "
            "--overwrite brings back what the source has"
        )


def _written_here(providers: list[str], consumers: list[str]) -> Iterator[str]:
    """Say what --delete would remove that no import brought as it is. providers: names."""
    for noun, keys in (("provider", providers), ("consumer", consumers)):
        if keys:
            count, verb = (f"1 {noun}", "was") if len(keys) == 1 else (f"{len(keys)} {noun}s", "were")
            yield (
                f"{count} which only Roost has {verb} written in Roost since the last import ({_some(keys)}): "
                "--overwrite lets --delete remove what was written there all the same"
            )


def _in_the_way(source: LedgerState, here: LedgerState) -> Iterator[str]:
    """Say what only Roost has and, if it stays, keeps the rest from being as the source has it."""
    names = {extra.name: extra.uuid for extra in here.providers.values() if extra.uuid not in source.providers}
    for provider in source.providers.values():
        if provider.name in names:
            yield (
                f"provider {names[provider.name]}, which only Roost has, has the name {provider.name!r} of provider "
                f"{provider.uuid}: --delete removes it"
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


def _differences(kind: Kind, source: LedgerState, here: LedgerState) -> Iterator[Difference]:
    """Yield what differs, but for standard names that only Roost knows: libraries of names are of different ages."""
    theirs, ours = source.items(kind), here.items(kind)
    for key in sorted(theirs.keys() | ours.keys()):
        if key not in ours:
            yield Difference(kind=kind, change=Change.NEW, key=key, name=_name(theirs[key]))
        elif key not in theirs:
            if kind in (Kind.PROVIDER, Kind.CONSUMER) or key.startswith(CUSTOM):
                yield Difference(kind=kind, change=Change.ONLY_HERE, key=key, name=_name(ours[key]))
        elif theirs[key] != ours[key]:
            details = _details(_parts(ours[key]), _parts(theirs[key]))
            yield Difference(kind=kind, change=Change.CHANGED, key=key, name=_name(theirs[key]), details=details)


def _name(item: object) -> str:
    return item.name if isinstance(item, ImportedProvider) else ""


def _details(ours: Mapping[str, object], theirs: Mapping[str, object]) -> tuple[Detail, ...]:
    parts = [*theirs, *(part for part in ours if part not in theirs)]
    return tuple(Detail(part, ours.get(part), theirs.get(part)) for part in parts if ours.get(part) != theirs.get(part))


def _parts(item: object) -> dict[str, object]:
    """Return all that a provider or a consumer is compared by."""
    if isinstance(item, ImportedProvider):
        return {
            "name": item.name,
            "generation": item.generation,
            "parent": item.parent_uuid,
            **{f"inventory {name}": item.inventories[name] for name in sorted(item.inventories)},
            **{f"trait {name}": True for name in sorted(item.traits)},
            **{f"placement aggregate {uuid}": True for uuid in sorted(item.placement_aggregates)},
        }
    assert isinstance(item, ConsumerState)
    return {
        "generation": item.generation,
        "type": item.consumer_type,
        "project": item.project_id,
        "user": item.user_id,
        **{f"{name} of provider {at}": item.allocations[at][name] for at, name in sorted(_lines(item))},
    }


def _lines(consumer: ConsumerState) -> Iterator[tuple[str, str]]:
    """Yield (provider UUID, resource class) of each allocation."""
    return ((at, name) for at, resources in consumer.allocations.items() for name in resources)


def _some(names: list[str], most: int = 3) -> str:
    return ", ".join(sorted(names)[:most]) + (", ..." if len(names) > most else "")
