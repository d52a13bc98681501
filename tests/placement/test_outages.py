"""What is answered from the index while the database is away, and what only the database can say."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.placement.providers import a_state, a_uuid, claim_of

from roost.placement.model import NameKind
from roost.placement.search.query import ProviderQuery
from roost.placement.service import claims as claims_service
from roost.placement.service import names as names_service
from roost.placement.service import reads as reads_service
from roost.placement.service import refresh
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.settings import PlacementSettings
from roost.platform.database import Database
from roost.platform.errors import DatabaseAway, DatabaseUnavailable
from roost.platform.postgres import PrivatePostgres
from roost.seams.placement import VCPU, CandidateQuery, RequestGroup

HOST = a_state("host", total=8)
RECENT_S = 60.0


class Outage:
    """A ledger whose database can be taken away: its address leads to the server, or nowhere."""

    def __init__(self, address: Path, server: PrivatePostgres, ledger: Ledger) -> None:
        self.ledger = ledger
        self._address, self._server = address, server

    def begin(self) -> None:
        self._address.unlink()
        name = self.ledger.database.dsn.partition("?")[0].rpartition("/")[2]
        self._server._query(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")

    def end(self) -> None:
        self._address.symlink_to(self._server.socket_dir)

    def age(self, seconds: float) -> None:
        """Have the index been refreshed longer ago."""
        assert self.ledger.index._refreshed_at_s is not None
        self.ledger.index._refreshed_at_s -= seconds


@pytest.fixture
async def outage(postgres: PrivatePostgres, dsn: str, data_dir: Path) -> AsyncIterator[Outage]:
    address = data_dir / "address"
    address.symlink_to(postgres.socket_dir)
    database = await Database.open(f"{dsn.partition('?')[0]}?host={address}", size=1)
    ledger = Ledger(database, settings=PlacementSettings(read_from_index_s=RECENT_S))
    await sync_standard_names(ledger)
    await claims_service.ensure_providers(ledger, [HOST])
    yield Outage(address, postgres, ledger)
    await database.close()


def group_of(amount: int) -> RequestGroup:
    return RequestGroup(suffix="", resources={VCPU: amount})


def vcpus(amount: int) -> CandidateQuery:
    return CandidateQuery(groups=(group_of(amount),))


YES: dict[str, Callable[[Ledger], Awaitable[object]]] = {
    "candidates": lambda ledger: reads_service.match_candidates(ledger, vcpus(1)),
    "provider": lambda ledger: reads_service.get_provider(ledger, HOST.uuid),
    "inventory": lambda ledger: reads_service.get_inventory(ledger, HOST.uuid, VCPU),
    "serving": reads_service.check_serving,
}
ONLY_THE_DATABASE: dict[str, Callable[[Ledger], Awaitable[object]]] = {
    "no candidates": lambda ledger: reads_service.match_candidates(ledger, vcpus(1000)),
    "why there are none": lambda ledger: reads_service.explain_candidates(ledger, vcpus(1)),
    "Roost's own search": lambda ledger: reads_service.find_candidates(ledger, [vcpus(1)]),
    "no provider": lambda ledger: reads_service.get_provider(ledger, a_uuid()),
    "no inventory": lambda ledger: reads_service.get_inventory(ledger, HOST.uuid, "DISK_GB"),
    "lists": lambda ledger: reads_service.list_providers(ledger, ProviderQuery(group=group_of(1))),
    "allocations": lambda ledger: reads_service.list_consumer_allocations(ledger, a_uuid()),
    "a provider's allocations": lambda ledger: reads_service.get_provider_allocations(ledger, HOST.uuid),
    "usages": lambda ledger: reads_service.list_project_usages(ledger, "p", user_id=None),
    "names": lambda ledger: names_service.list_names(ledger, NameKind.TRAIT),
    "claims": lambda ledger: claims_service.claim_one(ledger, claim_of(HOST.uuid, 1)),
}


@pytest.mark.parametrize("read", YES.values(), ids=list(YES))
async def test_a_recent_index_says_what_is_there(outage: Outage, read: Callable[[Ledger], Awaitable[object]]) -> None:
    await outage.ledger.index.fresh()
    outage.begin()
    await read(outage.ledger)
    outage.age(RECENT_S)
    with pytest.raises(DatabaseUnavailable):
        await read(outage.ledger)
    outage.end()
    await read(outage.ledger)


@pytest.mark.parametrize("read", ONLY_THE_DATABASE.values(), ids=list(ONLY_THE_DATABASE))
async def test_only_the_database_says_what_is_not_there(
    outage: Outage, read: Callable[[Ledger], Awaitable[object]]
) -> None:
    await outage.ledger.index.fresh()
    outage.begin()
    for _ in range(2):
        with pytest.raises(DatabaseAway):
            await read(outage.ledger)


async def test_probes_do_not_wait(outage: Outage) -> None:
    outage.begin()
    with pytest.raises(DatabaseUnavailable) as error:
        await reads_service.check_serving(outage.ledger)
    assert not isinstance(error.value, DatabaseAway)


async def test_an_index_that_was_never_loaded_answers_nothing(outage: Outage) -> None:
    outage.begin()
    with pytest.raises(DatabaseAway):
        await reads_service.get_provider(outage.ledger, HOST.uuid)


async def test_after_an_outage_every_request_sees_what_was_committed_before_it(outage: Outage) -> None:
    await outage.ledger.index.fresh()
    outage.begin()
    before = await reads_service.get_provider(outage.ledger, HOST.uuid)
    outage.end()
    with suppress(DatabaseAway):  # if the connection is not yet known to be cut
        await reads_service.list_consumer_allocations(outage.ledger, a_uuid())
    await claims_service.claim(outage.ledger, [claim_of(HOST.uuid, 3)])
    after = await reads_service.get_provider(outage.ledger, HOST.uuid)
    assert (after.used, after.generation) == ({VCPU: 3}, before.generation + 1)


async def test_nobody_waits_long_for_a_database_that_is_silent(outage: Outage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds the connection for lookups stands for a server that does not answer on it."""
    monkeypatch.setattr(refresh, "SILENCE_S", 0.01)
    index = outage.ledger.index
    async with outage.ledger.database.lookups():
        with pytest.raises(DatabaseAway, match="not answered within"):
            await index.recent()  # which was never loaded
    assert index._running is not None
    await index._running
    await index.fresh()
    async with outage.ledger.database.lookups():
        shown = await asyncio.gather(*(reads_service.get_provider(outage.ledger, HOST.uuid) for _ in range(3)))
        assert {provider.uuid for provider in shown} == {HOST.uuid}
        with pytest.raises(DatabaseAway):
            await index.fresh()
    await index._running
    await index.fresh()
