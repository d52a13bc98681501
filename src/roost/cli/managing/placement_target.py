"""Writes a plan of an export to another Placement over its HTTP API: upstream's, or another Roost's.

What it refuses is noted with its reason, and the rest goes on; the caller looks afterwards what still differs.
Source: Placement API 1.37 to 1.39.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from roost.cli.managing.placement_source import Item, Progress, Source, SourceRefused, work_on_each
from roost.cli.remote_errors import detail_of
from roost.placement.model import Kind
from roost.placement.rules.exports import ExportPlan, Place
from roost.seams.placement import ConsumerState, Inventory

WRITES_MAX = 4
"""Requests in flight at once; upstream is not faster with more."""
TRIES_MAX = 10
"""For a provider or consumer that somebody else changes between our reading and writing."""
OLDEST = (1, 37)
WITHOUT_TYPE = "1.37"
"""The last microversion at which a consumer needs no type."""
GENERATION_TOLD = re.compile(rb"consumer generation conflict - expected (\d+) but got")


class Refusal(Struct, frozen=True):
    """What the other did not take, and its words."""

    kind: Kind
    key: str
    reason: str


class Target:
    """One Placement to be written."""

    def __init__(self, source: Source, progress: Progress) -> None:
        self._source = source
        self._progress = progress
        self.refusals: list[Refusal] = []

    def check_version(self) -> None:
        """Raise SourceRefused for a Placement that is too old to be written: it could not take back a parent."""
        major, _, minor = self._source.version.partition(".")
        if (int(major), int(minor)) < OLDEST:
            text = f"{self._source.url} serves the Placement API up to {self._source.version}: 1.37 or later is needed"
            raise SourceRefused(text)

    async def write(self, plan: ExportPlan) -> None:
        """Write all of the plan, in its order."""
        for name in plan.classes_new:
            await self._call(Kind.RESOURCE_CLASS, name, "PUT", f"/resource_classes/{name}")
        for name in plan.traits_new:
            await self._call(Kind.TRAIT, name, "PUT", f"/traits/{name}")
        await self._each("consumers to release", plan.consumers_gone, self._release)
        for place in plan.names_cleared:
            await self._move(place)
        for place in plan.providers_new:
            await self._create(place)
        for place in plan.places:
            await self._move(place)
        await self._each("inventories", list(plan.inventories_first.items()), self._set_inventories)
        await self._each("traits", list(plan.traits.items()), self._set_traits)
        await self._each("aggregates", list(plan.placement_aggregates.items()), self._set_aggregates)
        await self._each("consumers", plan.consumers, self._claim)
        await self._each("final inventories", list(plan.inventories_last.items()), self._set_inventories)
        for uuid in plan.providers_gone:
            await self._call(Kind.PROVIDER, uuid, "DELETE", f"/resource_providers/{uuid}")
        for name in plan.traits_gone:
            await self._call(Kind.TRAIT, name, "DELETE", f"/traits/{name}")
        for name in plan.classes_gone:
            await self._call(Kind.RESOURCE_CLASS, name, "DELETE", f"/resource_classes/{name}")

    # How it is done.

    async def _call(self, kind: Kind, key: str, method: str, path: str, body: Any = None, *, version: str = "") -> None:
        """Make one request; what was deleted already is as it should be."""
        status, _, answer = await self._source.send(method, path, body, version=version)
        if status >= 300 and not (method == "DELETE" and status == 404):
            self._refused(kind, key, status, answer)

    def _refused(self, kind: Kind, key: str, status: int, answer: bytes) -> None:
        self.refusals.append(Refusal(kind, key, f"{status}: {detail_of(answer)}"))

    async def _create(self, place: Place) -> None:
        parent = {} if place.parent_uuid is None else {"parent_provider_uuid": place.parent_uuid}
        body = {"uuid": place.uuid, "name": place.name, **parent}
        await self._call(Kind.PROVIDER, place.uuid, "POST", "/resource_providers", body)

    async def _move(self, place: Place) -> None:
        body = {"name": place.name, "parent_provider_uuid": place.parent_uuid}
        await self._call(Kind.PROVIDER, place.uuid, "PUT", f"/resource_providers/{place.uuid}", body)

    async def _release(self, uuid: str) -> None:
        await self._call(Kind.CONSUMER, uuid, "DELETE", f"/allocations/{uuid}")

    async def _set_inventories(self, item: tuple[str, Mapping[str, Inventory]]) -> None:
        uuid, inventories = item
        await self._set(
            uuid, "inventories", {name: msgspec.to_builtins(inventory) for name, inventory in inventories.items()}
        )

    async def _set_traits(self, item: tuple[str, frozenset[str]]) -> None:
        await self._set(item[0], "traits", sorted(item[1]))

    async def _set_aggregates(self, item: tuple[str, frozenset[str]]) -> None:
        await self._set(item[0], "aggregates", sorted(item[1]))

    async def _set(self, uuid: str, part: str, value: Any) -> None:
        """Set a part of a provider, at whatever generation it has."""
        path = f"/resource_providers/{uuid}"

        async def body() -> Any:
            status, _, answer = await self._source.send("GET", path)
            if status != 200:
                self._refused(Kind.PROVIDER, uuid, status, answer)
                return None
            generation = msgspec.json.decode(answer)["generation"]
            return {"resource_provider_generation": generation, part: value}

        await self._put(Kind.PROVIDER, uuid, f"{path}/{part}", body)

    async def _claim(self, consumer: ConsumerState) -> None:
        """Write that a consumer holds this and nothing else, at whatever generation it has."""
        path = f"/allocations/{consumer.consumer_uuid}"
        typed = {} if consumer.consumer_type is None else {"consumer_type": consumer.consumer_type}
        generation_told: int | None = None

        async def body() -> Any:
            status, _, answer = await self._source.send("GET", path)
            if status != 200:
                self._refused(Kind.CONSUMER, consumer.consumer_uuid, status, answer)
                return None
            return {
                "allocations": {uuid: {"resources": resources} for uuid, resources in consumer.allocations.items()},
                "project_id": consumer.project_id,
                "user_id": consumer.user_id,
                "consumer_generation": msgspec.json.decode(answer).get("consumer_generation", generation_told),
                **typed,
            }

        def listen(answer: bytes) -> None:
            # A claim that upstream refused may leave its consumer, with a generation that nothing but this tells.
            nonlocal generation_told
            generation_match = GENERATION_TOLD.search(answer)
            generation_told = int(generation_match[1]) if generation_match else None

        version = "" if typed else WITHOUT_TYPE
        await self._put(Kind.CONSUMER, consumer.consumer_uuid, path, body, version=version, listen=listen)

    async def _each(self, kind: str, items: Collection[Item], write: Callable[[Item], Awaitable[None]]) -> None:
        await work_on_each(kind, items, write, self._progress, most=WRITES_MAX)

    async def _put(
        self,
        kind: Kind,
        key: str,
        path: str,
        body: Callable[[], Awaitable[Any]],
        *,
        version: str = "",
        listen: Callable[[bytes], None] = lambda _answer: None,
    ) -> None:
        """Read, write, and again where somebody else wrote in between.

        body: None where it cannot be read. listen: is told what the other says of a conflict.
        """
        for attempt in range(1, TRIES_MAX + 1):
            if (content := await body()) is None:
                return
            status, _, answer = await self._source.send("PUT", path, content, version=version)
            if status < 300:
                return
            if status != 409 or b"placement.concurrent_update" not in answer or attempt == TRIES_MAX:
                self._refused(kind, key, status, answer)
                return
            listen(answer)
