"""Providers on a Placement service over HTTP: made as they should be, part by part, each with the generation read.

A part that is as it should be is not written. A conflict has the provider read and decided upon again. Unlike next
door, what was written before a refusal stays: state is sent whole, so the next time goes on from there.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from roost.clients.placement_bodies import (
    Aggregates,
    ClassList,
    Head,
    Inventories,
    TraitList,
    Traits,
    Usages,
    allocation_body,
)
from roost.clients.placement_claims import claim_together, generations_after, settle_claims, why_refused
from roost.clients.placement_http import (
    CONCURRENT_UPDATE,
    DUPLICATE_NAME,
    INVENTORY_IN_USE,
    Answer,
    PlacementUnavailable,
)
from roost.clients.placement_reads import Elsewhere, read_each
from roost.placement.errors import (
    InventoryInUse,
    ProviderNameTaken,
    ProviderNotFound,
    ResourceClassNotFound,
    TraitNotFound,
)
from roost.placement.rules.shapes import fits
from roost.seams.placement import Claimed, ConsumerClaim, Inventory, ProviderState, Refused, Rule, Shortfall

WRITE_ROUNDS_MAX = 8


class _Changed(Exception):
    """Somebody else changed the provider between read and write."""


async def ensure_providers(elsewhere: Elsewhere, states: Sequence[ProviderState]) -> None:
    """See ProviderClient.ensure_providers. Raises as the ledger does, but what was written before stays.

    Cost: four reads for each provider, and a write for each part that is not as it should be.
    """
    await ensure_names(
        elsewhere,
        {name for state in states for name in state.inventories or ()},
        {name for state in states for name in state.traits or ()},
    )
    waiting = {state.uuid: state for state in states}
    while waiting:  # parents before their children
        ready = [state for state in waiting.values() if state.parent_uuid not in waiting]
        if not ready:
            raise ProviderNotFound(f"parent providers form a circle: {sorted(waiting)}")
        states_ready = {state.uuid: state for state in ready}
        await read_each(states_ready, lambda uuid: _ensure(elsewhere, states_ready[uuid]))  # noqa: B023 - awaited here
        for state in ready:
            del waiting[state.uuid]


async def ensure_names(elsewhere: Elsewhere, classes: Set[str], traits: Set[str]) -> None:
    """Make the custom resource classes and traits that are missing; PUT of one that is there does nothing.

    Raises ResourceClassNotFound, TraitNotFound for a standard one that the service does not know.
    """
    if classes <= elsewhere.classes and traits <= elsewhere.traits:
        return
    classes_known, traits_known = await read_names(elsewhere)
    for path, names, known in (("/resource_classes", classes, classes_known), ("/traits", traits, traits_known)):
        for name in sorted(names - known):
            if name.startswith("CUSTOM_"):
                (await elsewhere.http.ask("PUT", f"{path}/{name}")).read_nothing()
                known.add(name)
    if unknown := sorted(classes - classes_known):
        raise ResourceClassNotFound(f"the Placement service has no resource class {', '.join(unknown)}")
    if unknown := sorted(traits - traits_known):
        raise TraitNotFound(f"the Placement service has no trait {', '.join(unknown)}")
    elsewhere.classes |= classes
    elsewhere.traits |= traits


async def read_names(elsewhere: Elsewhere) -> tuple[set[str], set[str]]:
    """Return the names of all resource classes and of all traits as they are now, and remember them."""
    class_list = (await elsewhere.http.ask("GET", "/resource_classes")).read(ClassList)
    trait_list = (await elsewhere.http.ask("GET", "/traits")).read(TraitList)
    classes, traits = {item.name for item in class_list.resource_classes}, set(trait_list.traits)
    elsewhere.classes, elsewhere.traits = set(classes), set(traits)
    return classes, traits


async def _ensure(elsewhere: Elsewhere, state: ProviderState) -> None:
    async def write() -> None:
        head = await _ensure_head(elsewhere, state)
        if state.inventories is not None:
            await _ensure_inventories(elsewhere, state, state.inventories)
        if state.traits is not None:
            await _ensure_traits(elsewhere, state, state.traits)
        if state.placement_aggregates is not None:
            await _ensure_aggregates(elsewhere, head.uuid, lambda _: state.placement_aggregates or frozenset())

    await _until_unchanged(elsewhere, state.uuid, write)


async def _until_unchanged(elsewhere: Elsewhere, uuid: str, write: Callable[[], Awaitable[None]]) -> None:
    """Read, decide and write until nobody else wrote in between. Raises PlacementUnavailable if somebody always did."""
    for write_round in range(1, WRITE_ROUNDS_MAX + 1):
        try:
            return await write()
        except _Changed:
            await elsewhere.http.back_off(write_round)
    raise PlacementUnavailable(f"resource provider {uuid} was changed by others each time it was to be written")


def _check(answer: Answer) -> None:
    """Raise _Changed for a generation conflict, BadRequest or PlacementUnavailable for another refusal."""
    if answer.code == CONCURRENT_UPDATE:
        raise _Changed
    answer.read_nothing()


async def _ensure_head(elsewhere: Elsewhere, state: ProviderState) -> Head:
    """Return the provider, made or renamed if need be. Raises ProviderNameTaken, ProviderNotFound for a parent."""
    path = f"/resource_providers/{state.uuid}"
    head = await elsewhere.http.get(path, Head)
    if head is not None and head.name == state.name:
        return head
    body: dict[str, Any] = {"name": state.name}
    if head is None:
        body |= {"uuid": state.uuid}
        if state.parent_uuid is not None:
            body["parent_provider_uuid"] = state.parent_uuid
        answer = await elsewhere.http.ask("POST", "/resource_providers", body)
    else:
        if head.parent_provider_uuid is not None:
            body["parent_provider_uuid"] = head.parent_provider_uuid
        answer = await elsewhere.http.ask("PUT", path, body)
    if answer.good:
        return answer.read(Head)
    if head is None and await elsewhere.http.get(path, Head) is not None:
        raise _Changed  # another process made it meanwhile
    if answer.code == DUPLICATE_NAME or answer.status == 409:
        raise ProviderNameTaken
    if (
        state.parent_uuid is not None
        and await elsewhere.http.get(f"/resource_providers/{state.parent_uuid}", Head) is None
    ):
        raise ProviderNotFound(f"No resource provider with uuid {state.parent_uuid} found")
    _check(answer)
    raise AssertionError("unreachable")


async def _ensure_inventories(elsewhere: Elsewhere, state: ProviderState, inventories: Mapping[str, Inventory]) -> None:
    path = f"/resource_providers/{state.uuid}/inventories"
    present = await elsewhere.http.get(path, Inventories)
    if present is None:
        raise _Changed
    managed = state.managed_classes
    kept = {} if managed is None else {name: item for name, item in present.inventories.items() if name not in managed}
    await _put_inventories(elsewhere, state.uuid, present, kept | dict(inventories))


async def _put_inventories(
    elsewhere: Elsewhere, uuid: str, present: Inventories, inventories: Mapping[str, Inventory]
) -> None:
    if inventories == present.inventories:
        return
    answer = await elsewhere.http.ask(
        "PUT",
        f"/resource_providers/{uuid}/inventories",
        {"resource_provider_generation": present.resource_provider_generation, "inventories": inventories},
    )
    if answer.code == INVENTORY_IN_USE:
        raise InventoryInUse
    await _forget_names_if_refused(elsewhere, answer)
    _check(answer)


async def _ensure_traits(elsewhere: Elsewhere, state: ProviderState, traits: frozenset[str]) -> None:
    path = f"/resource_providers/{state.uuid}/traits"
    present = await elsewhere.http.get(path, Traits)
    if present is None:
        raise _Changed
    has = frozenset(present.traits)
    traits_wanted = traits if state.managed_traits is None else traits | (has - state.managed_traits)
    if traits_wanted == has:
        return
    answer = await elsewhere.http.ask(
        "PUT",
        path,
        {"resource_provider_generation": present.resource_provider_generation, "traits": sorted(traits_wanted)},
    )
    await _forget_names_if_refused(elsewhere, answer)
    _check(answer)


async def _forget_names_if_refused(elsewhere: Elsewhere, answer: Answer) -> None:
    """After a 400 look again which names there are: somebody may have deleted one that was seen."""
    if answer.status == 400:
        elsewhere.classes.clear()
        elsewhere.traits.clear()


async def _ensure_aggregates(
    elsewhere: Elsewhere, uuid: str, decide: Callable[[frozenset[str]], frozenset[str]]
) -> None:
    """Put a provider into the placement aggregates that `decide` gives for those it is in; none for no provider."""
    path = f"/resource_providers/{uuid}/aggregates"
    present = await elsewhere.http.get(path, Aggregates)
    if present is None:
        return
    aggregates_wanted = decide(frozenset(present.aggregates))
    if aggregates_wanted == frozenset(present.aggregates):
        return
    body = {
        "resource_provider_generation": present.resource_provider_generation,
        "aggregates": sorted(aggregates_wanted),
    }
    answer = await elsewhere.http.ask("PUT", path, body)
    if answer.status != 404:
        _check(answer)


async def fit_providers(elsewhere: Elsewhere, states: Sequence[ProviderState]) -> list[str]:
    """See ProviderClient.fit_providers: of several, one may be written before another turns out not to fit.

    Cost: two reads for each provider, a write for each that is not as it should be.
    """
    states_by_uuid = {state.uuid: state for state in states}
    unfit: list[str] = []

    async def fit(uuid: str) -> None:
        async def write() -> None:
            path, inventories = f"/resource_providers/{uuid}", states_by_uuid[uuid].inventories or {}
            present = await elsewhere.http.get(f"{path}/inventories", Inventories)
            usages = await elsewhere.http.get(f"{path}/usages", Usages)
            if present is None or usages is None:
                return
            if usages.resource_provider_generation != present.resource_provider_generation:
                raise _Changed
            try:
                if not fits(usages.usages, inventories, present.inventories):
                    raise InventoryInUse
                await _put_inventories(elsewhere, uuid, present, inventories)
            except InventoryInUse:
                unfit.append(uuid)

        await _until_unchanged(elsewhere, uuid, write)

    await read_each(states_by_uuid, fit)
    return unfit


async def set_placement_aggregates(
    elsewhere: Elsewhere, aggregates_by_provider: Mapping[str, frozenset[str]], *, managed: frozenset[str]
) -> None:
    """See ProviderClient.set_placement_aggregates. Cost: a read for each provider, a write for each that differs."""

    async def ensure(uuid: str) -> None:
        def decide(present: frozenset[str]) -> frozenset[str]:
            return (present - managed) | aggregates_by_provider[uuid]

        await _until_unchanged(elsewhere, uuid, lambda: _ensure_aggregates(elsewhere, uuid, decide))

    await read_each(aggregates_by_provider, ensure)


async def delete_providers(elsewhere: Elsewhere, uuids: Sequence[str]) -> list[str]:
    """See ProviderClient.delete_providers."""

    async def delete(uuid: str) -> bool:
        answer = await elsewhere.http.ask("DELETE", f"/resource_providers/{uuid}")
        if answer.status not in (404, 409):
            answer.read_nothing()
        return answer.status != 409

    gone = await read_each(uuids, delete)
    return [uuid for uuid, is_gone in gone.items() if not is_gone]


async def reshape(
    elsewhere: Elsewhere, states: Sequence[ProviderState], claims: Sequence[ConsumerClaim]
) -> Claimed | Refused:
    """See ProviderClient.reshape."""
    await ensure_names(
        elsewhere,
        {name for state in states for name in state.inventories or ()},
        {name for state in states for name in state.traits or ()},
    )
    bare = [replace(state, inventories=None, managed_classes=None) for state in states]
    await ensure_providers(elsewhere, bare)
    inventories = {state.uuid: state.inventories for state in states if state.inventories is not None}
    if not inventories:
        return await claim_together(elsewhere, claims)
    answer = None
    for reshape_round in range(1, WRITE_ROUNDS_MAX + 1):
        settled = await settle_claims(elsewhere, claims)
        present = await read_each(
            inventories, lambda uuid: elsewhere.http.get(f"/resource_providers/{uuid}/inventories", Inventories)
        )
        body = _Reshape(
            {
                uuid: _NewInventories(of.resource_provider_generation, inventories[uuid])
                for uuid, of in present.items()
                if of is not None
            },
            {claim.consumer_uuid: allocation_body(claim) for claim in settled},
        )
        answer = await elsewhere.http.ask("POST", "/reshaper", body)
        if answer.good:
            return Claimed(generations_after(settled))
        if answer.code == INVENTORY_IN_USE:
            return Refused(
                tuple(Shortfall(rule=Rule.IN_USE, consumer_uuid="", provider_uuid=uuid) for uuid in inventories)
            )
        last = reshape_round == WRITE_ROUNDS_MAX
        refused = await why_refused(elsewhere, settled, answer, inventories, last=last)
        if refused is not None:
            return refused
        await elsewhere.http.back_off(reshape_round)
    assert answer is not None
    raise PlacementUnavailable(f"the Placement service had other claims to do each time: {answer.detail}")


class _NewInventories(Struct):
    resource_provider_generation: int
    inventories: Mapping[str, Inventory]


class _Reshape(Struct):
    inventories: dict[str, _NewInventories]
    allocations: dict[str, Any]
