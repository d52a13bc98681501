"""Reads a whole Placement service over its HTTP API: upstream's, or another Roost's.

The API has no snapshot. So what was read is held against the generations of a fresh list of providers, and what moved
meanwhile is read again, until nothing did or ROUNDS_MAX is reached. Generations do not show all: upstream deletes a
consumer's allocations without raising those of its providers (DELETE /allocations/{consumer}). Only a source that
nobody writes to is certainly read as it is. Source: Placement API 1.28 to 1.39.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from sys import intern
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from roost.cli.keystone import Credentials, get_token
from roost.cli.remote_errors import detail_of
from roost.placement.model import ImportedProvider, LedgerState
from roost.platform.errors import RoostError
from roost.platform.http import canonical_uuid, is_uuid
from roost.platform.http_sessions import HttpSession, Reply, Unanswered
from roost.platform.tls import client_context
from roost.seams.placement import ConsumerState, Inventory

READS_MAX = 8
"""Requests in flight at once."""
ROUNDS_MAX = 5
TRIES_MAX = 5
CALL_TIMEOUT_S = 120.0
OLDEST, NEWEST = (1, 28), (1, 39)
UNKNOWN_TYPE = "unknown"
"""What a consumer without a type is shown as."""
MOVED = -1
"""The generation of what changed while it was read."""

Item = TypeVar("Item")
Progress = Callable[[str, int, int], None]
"""(kind, done, total)"""
Answer = TypeVar("Answer")


class SourceRefused(RoostError):
    """The other Placement cannot be read, or written."""

    def __init__(self, text: str, *, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class Read(Struct, frozen=True):
    """What a source has. settled: nothing moved between the last two looks at it."""

    state: LedgerState
    settled: bool
    requests: int


class Source:
    """One Placement API at `url`."""

    def __init__(self, session: HttpSession, url: str) -> None:
        self._session = session
        self.url = url.rstrip("/")
        self.version = ""

    @property
    def requests(self) -> int:
        """Return how many were sent."""
        return self._session.requests

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        url: str,
        *,
        token: str | None = None,
        credentials: Credentials | None = None,
        ca_file: str | None = None,
    ) -> AsyncIterator["Source"]:
        """Open a source for as long as the block runs. ca_file: certificates to trust. Raises SourceRefused.

        token: sent as it is; credentials: tokens are had from Keystone, and again.
        """
        session = HttpSession(
            timeout_s=CALL_TIMEOUT_S,
            connections_max=READS_MAX,
            tls=client_context(ca_file, None, None),
            tries_max=TRIES_MAX,
            token=token or "",
            make_token=None if credentials is None else partial(get_token, credentials=credentials),
        )
        async with aclosing(session):
            source = cls(session, url)
            await source._negotiate()
            yield source

    async def get(self, path: str, kind: type[Answer]) -> Answer:
        """Return the answer 200 to a GET. Raises SourceRefused, KeystoneRefused."""
        reply = await self.send("GET", path)
        if (status := reply.status) == 200:
            try:
                return reply.read(kind)
            except Unanswered as error:
                raise SourceRefused(f"GET {self.url}{path} was not answered as Placement does: {error}") from error
        if status == 300:  # Keystone's, or another service's at its root
            raise SourceRefused(f"{self.url} is no Placement: GET {path} was answered by a choice of versions")
        advice = "; give --token or the OS_… variables" if status == 401 and not self._session.token else ""
        text = f"GET {self.url}{path} was answered {status}: {detail_of(reply.body)}{advice}"
        raise SourceRefused(text, status=status)

    async def send(self, method: str, path: str, body: Any = None, *, version: str = "") -> Reply:
        """Return the answer; what says nothing about the request is tried again.

        version: the microversion, by default the newest that both know. Raises SourceRefused, KeystoneRefused.
        """
        version = version or self.version
        headers = {"OpenStack-API-Version": f"placement {version}"} if version else {}
        try:
            return await self._session.ask(method, self.url + path, body, headers=headers)
        except Unanswered as error:
            raise SourceRefused(f"{method} {self.url}{path} failed: {error}") from error

    async def _negotiate(self) -> None:
        """Ask in the newest version that both know. Raises SourceRefused for a source that is too old."""
        versions = (await self.get("/", _Versions)).versions
        newest = max((_version(version.max_version) for version in versions), default=(0, 0))
        if newest < OLDEST:
            oldest, newest_text = ".".join(map(str, OLDEST)), ".".join(map(str, newest))
            raise SourceRefused(f"{self.url} serves the Placement API up to {newest_text}: {oldest} or later is needed")
        self.version = ".".join(map(str, min(newest, NEWEST)))


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


# What the source answers.


class _Version(Struct):
    max_version: str


class _Versions(Struct):
    versions: list[_Version]


class _Listed(Struct):
    uuid: str
    name: str
    generation: int
    parent_provider_uuid: str | None


class _ProviderList(Struct):
    resource_providers: list[_Listed]


class _Inventories(Struct):
    inventories: dict[str, Inventory]
    resource_provider_generation: int


class _Traits(Struct):
    traits: list[str]
    resource_provider_generation: int


class _Aggregates(Struct):
    aggregates: list[str]
    resource_provider_generation: int


class _Holder(Struct):
    consumer_generation: int


class _Holders(Struct):
    allocations: dict[str, _Holder]
    resource_provider_generation: int


class _Held(Struct):
    resources: dict[str, int]


class _Consumer(Struct):
    """Without allocations there is nothing else."""

    allocations: dict[str, _Held]
    consumer_generation: int = 0
    consumer_type: str = UNKNOWN_TYPE
    project_id: str = ""
    user_id: str = ""


class _Name(Struct):
    name: str


class _ClassList(Struct):
    resource_classes: list[_Name]


class _TraitList(Struct):
    traits: list[str]


# Reading it.


async def read_placement(source: Source, progress: Progress) -> Read:
    """Read all that it has, with READS_MAX requests at a time. Raises SourceRefused, KeystoneRefused."""
    reading = _Reading(source, progress)
    settled = await reading.read()
    classes = await source.get("/resource_classes", _ClassList)
    traits = await source.get("/traits", _TraitList)
    state = LedgerState(
        resource_classes=frozenset(item.name for item in classes.resource_classes),
        traits=frozenset(traits.traits),
        providers={item.uuid: item for item in reading.list_providers()},
        consumers={item.consumer_uuid: item for item in reading.list_consumers()},
    )
    return Read(state, settled, source.requests)


class _Provider(Struct, frozen=True):
    """What was read of a provider, at which generation. holders: consumer -> its generation."""

    generation: int
    inventories: Mapping[str, Inventory]
    traits: frozenset[str]
    placement_aggregates: frozenset[str]
    holders: Mapping[str, int]


class _Reading:
    """What is read so far, by the identifiers of the source. What changed since is found by `read`."""

    def __init__(self, source: Source, progress: Progress) -> None:
        self._source = source
        self._progress = progress
        self._listed: dict[str, _Listed] = {}
        self._providers: dict[str, _Provider] = {}
        self._consumers: dict[str, _Consumer] = {}
        self._alike: dict[Any, Any] = {}

    async def read(self) -> bool:
        """Read all that is new or moved, round by round; returns whether a round found nothing."""
        for _ in range(ROUNDS_MAX):
            listing = await self._source.get("/resource_providers", _ProviderList)
            self._listed = {item.uuid: item for item in listing.resource_providers}
            self._providers = {uuid: item for uuid, item in self._providers.items() if uuid in self._listed}
            moved = [uuid for uuid, item in self._listed.items() if not self._is_current(uuid, item.generation)]
            await work_on_each("providers", moved, self._read_provider, self._progress, most=READS_MAX)
            generations_by_consumer = self._list_held()
            self._consumers = {uuid: item for uuid, item in self._consumers.items() if uuid in generations_by_consumer}
            unread = [
                uuid
                for uuid, generations in generations_by_consumer.items()
                if generations != {self._generation_of(uuid)}
            ]
            await work_on_each("consumers", unread, self._read_consumer, self._progress, most=READS_MAX)
            if not moved and not unread:
                return True
            self._mark_moved()
        return False

    def list_providers(self) -> Iterator[ImportedProvider]:
        """Yield the providers that were read."""
        for uuid, provider in self._providers.items():
            listed = self._listed[uuid]
            parent = listed.parent_provider_uuid
            yield ImportedProvider(
                uuid=_canonical(uuid), name=listed.name, generation=listed.generation,
                parent_uuid=None if parent is None else _canonical(parent), inventories=provider.inventories,
                traits=provider.traits, placement_aggregates=provider.placement_aggregates,
            )  # fmt: skip

    def list_consumers(self) -> Iterator[ConsumerState]:
        """Yield the consumers that hold something."""
        for uuid, consumer in self._consumers.items():
            if consumer.allocations:
                yield ConsumerState(
                    consumer_uuid=_canonical(uuid), generation=consumer.consumer_generation,
                    consumer_type=None if consumer.consumer_type == UNKNOWN_TYPE else consumer.consumer_type,
                    project_id=consumer.project_id, user_id=consumer.user_id,
                    allocations={_canonical(at): holding.resources for at, holding in consumer.allocations.items()},
                )  # fmt: skip

    def _is_current(self, uuid: str, generation: int) -> bool:
        return uuid in self._providers and self._providers[uuid].generation == generation

    def _generation_of(self, consumer: str) -> int:
        state = self._consumers.get(consumer)
        return MOVED if state is None or not state.allocations else state.consumer_generation

    def _list_held(self) -> dict[str, set[int]]:
        """Return every consumer that some provider names, with the generations that it is said to have."""
        generations: dict[str, set[int]] = {}
        for provider in self._providers.values():
            for consumer, generation in provider.holders.items():
                generations.setdefault(consumer, set()).add(generation)
        return generations

    def _mark_moved(self) -> None:
        """Mark providers to be read again that name a consumer which says otherwise, or are not named by one."""
        moved = {
            uuid
            for uuid, provider in self._providers.items()
            for consumer, generation in provider.holders.items()
            if self._generation_of(consumer) != generation or uuid not in self._consumers[consumer].allocations
        }
        for consumer, state in self._consumers.items():
            known = (at for at in state.allocations if at in self._providers)
            moved |= {at for at in known if consumer not in self._providers[at].holders}
        for uuid in moved:
            self._providers[uuid] = msgspec.structs.replace(self._providers[uuid], generation=MOVED)

    async def _read_provider(self, uuid: str) -> None:
        path = f"/resource_providers/{uuid}"
        try:
            inventories = await self._source.get(f"{path}/inventories", _Inventories)
            traits = await self._source.get(f"{path}/traits", _Traits)
            aggregates = await self._source.get(f"{path}/aggregates", _Aggregates)
            holders = await self._source.get(f"{path}/allocations", _Holders)
        except SourceRefused as error:
            if error.status != 404:
                raise
            self._providers.pop(uuid, None)  # deleted since it was listed
            return
        generations = {a.resource_provider_generation for a in (inventories, traits, aggregates, holders)}
        self._providers[uuid] = _Provider(
            generation=generations.pop() if len(generations) == 1 else MOVED,
            inventories={intern(name): self._one(item) for name, item in inventories.inventories.items()},
            traits=self._one(frozenset(map(intern, traits.traits))),
            placement_aggregates=self._one(frozenset(_canonical(aggregate) for aggregate in aggregates.aggregates)),
            holders={consumer: item.consumer_generation for consumer, item in holders.allocations.items()},
        )

    async def _read_consumer(self, uuid: str) -> None:
        self._consumers[uuid] = await self._source.get(f"/allocations/{uuid}", _Consumer)

    def _one(self, value: Answer) -> Answer:
        """Return one object for equal values: most hosts are like others."""
        first_equal: Answer = self._alike.setdefault(value, value)
        return first_equal


async def work_on_each(
    kind: str, items: Collection[Item], work: Callable[[Item], Awaitable[None]], progress: Progress, *, most: int
) -> None:
    """Work on every item, on `most` of them at a time. kind: what progress calls them."""
    done, remaining = 0, iter(items)

    async def work_on_next() -> None:
        nonlocal done
        for item in remaining:
            await work(item)
            done += 1
            progress(kind, done, len(items))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(most, len(items))):
            group.create_task(work_on_next())


def _canonical(uuid: str) -> str:
    """Return a UUID as Roost writes it; what is none stays, to be left out by name."""
    return canonical_uuid(uuid) if is_uuid(uuid) else uuid
