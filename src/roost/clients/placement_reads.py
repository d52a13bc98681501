"""What a Placement service over HTTP is asked without changing it, with what a client remembers of its answers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec import Struct

from roost.clients.placement_bodies import (
    Aggregates,
    Consumer,
    Head,
    Heads,
    Holders,
    Inventories,
    Traits,
    Usages,
)
from roost.clients.placement_http import PlacementHttp
from roost.seams.placement import ConsumerState, Inventory, ProviderState

T = TypeVar("T")


class ConsumerList(Struct):
    """Every consumer at the time of a first page, in order; types: of those that were looked at."""

    uuids: list[str]
    types: dict[str, str | None]


class Shape(Struct, frozen=True):
    """What a provider is, beside its uses, at a generation."""

    generation: int
    inventories: Mapping[str, Inventory]
    traits: frozenset[str]
    placement_aggregates: frozenset[str]


@dataclass
class Elsewhere:
    """A Placement service elsewhere, and what was heard of it.

    names: of providers, by UUID, which do not change. classes, traits: names that were seen to be there. shapes: by
    provider, as good as their generations. consumers: of the audit under way.
    """

    http: PlacementHttp
    names: dict[str, str] = field(default_factory=dict)
    classes: set[str] = field(default_factory=set)
    traits: set[str] = field(default_factory=set)
    shapes: dict[str, Shape] = field(default_factory=dict)
    consumers: ConsumerList | None = None


async def read_each(items: Iterable[str], read: Callable[[str], Awaitable[T]]) -> dict[str, T]:
    """Return what `read` gives for each item, asked at the same time; the client's connections say how many at once.

    Raises what the first one to fail did.
    """
    unique = list(dict.fromkeys(items))
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(read, item)) for item in unique]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return {item: task.result() for item, task in zip(unique, tasks, strict=True)}


async def _awaited(read: Callable[[str], Awaitable[T]], item: str) -> T:
    return await read(item)


async def get_consumers(elsewhere: Elsewhere, uuids: Sequence[str]) -> dict[str, ConsumerState]:
    """See ClaimClient.get_consumers."""

    async def read(uuid: str) -> ConsumerState | None:
        consumer = await elsewhere.http.get(f"/allocations/{uuid}", Consumer)
        return consumer.state(uuid) if consumer and consumer.allocations else None

    states = await read_each(uuids, read)
    return {uuid: state for uuid, state in states.items() if state is not None}


async def list_usages(elsewhere: Elsewhere, provider_uuids: Sequence[str]) -> dict[str, dict[str, tuple[int, int]]]:
    """See ClaimClient.list_usages."""
    lines = await read_each(provider_uuids, lambda uuid: read_usage(elsewhere, uuid))
    return {
        uuid: {name: (inventory.capacity, used) for name, (inventory, used) in of.items()}
        for uuid, of in lines.items()
        if of
    }


async def read_usage(elsewhere: Elsewhere, uuid: str) -> dict[str, tuple[Inventory, int]] | None:
    """Return a provider's inventories with their uses, by resource class; None for no such provider."""
    inventories = await elsewhere.http.get(f"/resource_providers/{uuid}/inventories", Inventories)
    usages = await elsewhere.http.get(f"/resource_providers/{uuid}/usages", Usages)
    if inventories is None or usages is None:
        return None
    return {name: (item, usages.usages.get(name, 0)) for name, item in inventories.inventories.items()}


async def list_heads(elsewhere: Elsewhere, **query: str) -> list[Head]:
    """Return all providers, or those of a query, and remember their names."""
    answer = await elsewhere.http.ask("GET", "/resource_providers", query=list(query.items()))
    heads = answer.read(Heads).resource_providers
    elsewhere.names |= {head.uuid: head.name for head in heads}
    return heads


async def read_shape(elsewhere: Elsewhere, uuid: str, generation: int) -> Shape | None:
    """Return what a provider is, from before if its generation is still the same; None for no such provider."""
    known = elsewhere.shapes.get(uuid)
    if known is not None and known.generation == generation:
        return known
    path = f"/resource_providers/{uuid}"
    inventories = await elsewhere.http.get(f"{path}/inventories", Inventories)
    traits = await elsewhere.http.get(f"{path}/traits", Traits)
    aggregates = await elsewhere.http.get(f"{path}/aggregates", Aggregates)
    if inventories is None or traits is None or aggregates is None:
        elsewhere.shapes.pop(uuid, None)
        return None
    answers = (inventories, traits, aggregates)
    shape = Shape(generation, inventories.inventories, frozenset(traits.traits), frozenset(aggregates.aggregates))
    if all(answer.resource_provider_generation == generation for answer in answers):
        elsewhere.shapes[uuid] = shape
    return shape


async def get_providers(elsewhere: Elsewhere, uuids: Sequence[str]) -> dict[str, ProviderState]:
    """See ProviderClient.get_providers."""

    async def read(uuid: str) -> ProviderState | None:
        head = await elsewhere.http.get(f"/resource_providers/{uuid}", Head)
        shape = head and await read_shape(elsewhere, uuid, head.generation)
        if not head or not shape:
            return None
        return ProviderState(
            uuid=uuid,
            name=head.name,
            inventories=shape.inventories,
            traits=shape.traits,
            placement_aggregates=shape.placement_aggregates,
        )

    states = await read_each(uuids, read)
    return {uuid: state for uuid, state in states.items() if state is not None}


async def list_aggregate_providers(elsewhere: Elsewhere, aggregates: Sequence[str]) -> dict[str, list[str]]:
    """See ProviderClient.list_aggregate_providers."""
    heads = await read_each(aggregates, lambda aggregate: list_heads(elsewhere, member_of=aggregate))
    return {aggregate: [head.uuid for head in of] for aggregate, of in heads.items() if of}


async def list_named_providers(elsewhere: Elsewhere, prefix: str, *, after: str, limit: int) -> dict[str, str]:
    """See PlacementAudit.list_named_providers. Cost: a list of all providers."""
    named = sorted((head.name, head.uuid) for head in await list_heads(elsewhere) if head.name.startswith(prefix))
    return {uuid: name for name, uuid in [item for item in named if item[0] > after][:limit]}


async def list_consumers(elsewhere: Elsewhere, consumer_type: str, *, after: str, limit: int) -> list[str]:
    """See PlacementAudit.list_consumers.

    Cost: of the first page, a request for each provider; of every page, one for each consumer that was not looked at.
    """
    if not after or elsewhere.consumers is None:
        holders = await read_each(
            [head.uuid for head in await list_heads(elsewhere)],
            lambda uuid: elsewhere.http.get(f"/resource_providers/{uuid}/allocations", Holders),
        )
        uuids = sorted({consumer for of in holders.values() if of for consumer in of.allocations})
        elsewhere.consumers = ConsumerList(uuids, {})
    known = elsewhere.consumers
    page: list[str] = []
    waiting = [uuid for uuid in known.uuids if uuid > after]
    while waiting and len(page) < limit:
        looked_at, waiting = waiting[:limit], waiting[limit:]
        unknown = [uuid for uuid in looked_at if uuid not in known.types]
        states = await get_consumers(elsewhere, unknown)
        known.types |= {uuid: states[uuid].consumer_type if uuid in states else None for uuid in unknown}
        page += [uuid for uuid in looked_at if known.types[uuid] == consumer_type]
    return page[:limit]
