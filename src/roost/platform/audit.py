"""One skeleton for every audit: pages of what is looked at, a second look, and the repair of each kind of drift.

Each wing has an `Audit` of its `Check`s, with what drifts there, the words for it and its repairs.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

import structlog
from msgspec import Struct
from msgspec.structs import replace

from roost.platform.database import Connection, Database
from roost.platform.drift import Drift, Kind, Repairs

Service = TypeVar("Service")
Held = TypeVar("Held")
Item = TypeVar("Item")
Fact = TypeVar("Fact")
Row = TypeVar("Row")
Row_co = TypeVar("Row_co", covariant=True)

log = structlog.get_logger()


class Finding(Struct, Generic[Item, Fact], frozen=True):
    """A drift as a check found it. item: what was looked at; fact: what it was found from, and what repairs it."""

    drift: Drift
    item: Item
    fact: Fact


Repair = Callable[[Held, Sequence[Finding[Item, Fact]]], Awaitable[Collection[str]]]
"""Repair all drift of one kind that was found on a page; returns the keys of what was repaired."""


@dataclass(frozen=True, kw_only=True)
class Check(Generic[Service, Held, Item, Fact]):
    """How drift of some kinds is found and repaired.

    pages: yields what is looked at, in pages. hold: what is open while a page is looked at and repaired, such as a
    transaction that has its locks; None: the service itself. look: returns the drift of a page as of now, without
    objects that somebody is at work on. twice: no lock reaches all that is compared, so drift is only what a second
    look finds in the same way; a repair then names the revision or generation that was read, and what changed since
    stays as it is. repairs: in this order; None where a person has to, or another check's repair does it. after: what
    follows the repair of a page, when nothing is held any more.
    """

    pages: Callable[[Service], AsyncIterator[Sequence[Item]]]
    look: Callable[[Held, Sequence[Item]], Awaitable[Sequence[Finding[Item, Fact]]]]
    repairs: Mapping[Kind, Repair[Held, Item, Fact] | None]
    hold: Callable[[Service], AbstractAsyncContextManager[Held]] | None = None
    after: Callable[[Service, Sequence[Finding[Item, Fact]]], Awaitable[None]] | None = None
    twice: bool = False

    async def run(self, service: Service, *, repairs: Repairs) -> list[Drift]:
        """Return all drift of these kinds, repaired as far as `repairs` says, page by page."""
        drifts: list[Drift] = []
        async for page in self.pages(service):
            if not page:
                continue
            async with self.hold(service) if self.hold else nullcontext(cast(Any, service)) as work:
                findings = await self._look(work, page)
                repaired = await self._repair(work, findings, repairs)
            if repaired and self.after is not None:
                await self.after(service, findings)
            drifts += [replace(f.drift, repaired=_name(f) in repaired) for f in findings]
        return drifts

    async def _look(self, held: Held, page: Sequence[Item]) -> Sequence[Finding[Item, Fact]]:
        findings = await self.look(held, page)
        if not findings or not self.twice:
            return findings
        first = {_name(finding): finding for finding in findings}
        again = await self.look(held, list(dict.fromkeys(finding.item for finding in findings)))
        return [finding for finding in again if first.get(_name(finding)) == finding]

    async def _repair(
        self, held: Held, findings: Sequence[Finding[Item, Fact]], repairs: Repairs
    ) -> set[tuple[str, str]]:
        repaired: set[tuple[str, str]] = set()
        for kind, repair in self.repairs.items():
            of_kind = [finding for finding in findings if finding.drift.kind is kind]
            if of_kind and repair is not None and kind.repaired_by in repairs.value:
                repaired |= {(kind.code, key) for key in await repair(held, of_kind)}
        return repaired


Keep = Callable[[Service, Sequence[Drift]], Awaitable[None]]
"""Keep what was repaired for operators."""


@dataclass(frozen=True)
class Audit(Generic[Service]):
    """The checks of a wing, in order: what one repairs, the next ones find right. keep: told what they repaired."""

    checks: tuple[Check[Service, Any, Any, Any], ...]
    keep: Keep[Service] | None = None

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Return the kinds of drift that it finds, in order."""
        return tuple(dict.fromkeys(kind for check in self.checks for kind in check.repairs))

    async def run(self, service: Service, *, repairs: Repairs) -> list[Drift]:
        """Return all drift, in the order of the checks, repaired as far as `repairs` says."""
        drifts = [drift for check in self.checks for drift in await check.run(service, repairs=repairs)]
        repaired = [drift for drift in drifts if drift.repaired]
        if repaired and self.keep is not None:
            await self.keep(service, repaired)
        return drifts

    async def reconcile(self, service: Service) -> list[Drift]:
        """Repair what the reconcilers may, and log what had drifted; returns it."""
        drifts = await self.run(service, repairs=Repairs.ITSELF)
        for (kind, repaired), count in Counter((drift.kind, drift.repaired) for drift in drifts).items():
            log.warning("audit found drift", what=kind.sentence, count=count, repaired=repaired)
        return drifts


async def all_at_once(_service: Any) -> AsyncIterator[Sequence[Any]]:
    """Yield one page: for a look that reads everything, whatever it is given."""
    yield (None,)


async def read_pages(
    read: Callable[[str], Awaitable[Sequence[Row]]], cursor: Callable[[Row], str], *, first: str = ""
) -> AsyncIterator[Sequence[Row]]:
    """Yield what `read` returns of all above a cursor, page after page, until there is no more."""
    after = first
    while rows := await read(after):
        yield rows
        after = cursor(rows[-1])


class ReadRows(Protocol[Row_co]):
    """A store's function that reads a page: at most `limit` rows above a cursor."""

    def __call__(self, tx: Connection, /, *, after: str, limit: int) -> Awaitable[Sequence[Row_co]]:
        """Return them in the order of their cursors."""


async def stored_pages(
    database: Database, read: ReadRows[Row], cursor: Callable[[Row], str], *, limit: int, first: str = ""
) -> AsyncIterator[Sequence[Row]]:
    """Yield what a store reads above a cursor, page after page, each on a connection of its own."""
    after: str | None = first
    while after is not None:
        async with database.connection() as connection:
            rows = await read(connection, after=after, limit=limit)
        yield rows
        after = cursor(rows[-1]) if len(rows) >= limit else None


def keys_of(findings: Sequence[Finding[Any, Any]]) -> list[str]:
    """Return the keys of their drifts: what a repair returns that repairs them all."""
    return [finding.drift.key for finding in findings]


def _name(finding: Finding[Any, Any]) -> tuple[str, str]:
    return finding.drift.kind.code, finding.drift.key
