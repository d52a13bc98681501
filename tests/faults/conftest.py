"""Roosts that serve the Placement API alone, on one database: two with one worker each, one with four."""

from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

import pytest
from tests.cluster import Cluster, cluster

from roost.platform.database import Database


class LedgerServers(NamedTuple):
    """Where each of them answers; all use the database at `dsn`."""

    one: str
    other: str
    four: str
    dsn: str


@pytest.fixture(scope="session")
def ledger_cluster() -> Iterator[Cluster]:
    """Their processes."""
    with cluster() as made:
        yield made


@pytest.fixture(scope="session")
def ledger_servers(ledger_cluster: Cluster) -> LedgerServers:
    """All three, up."""
    urls = []
    for workers in (1, 1, 4):
        ledger_cluster.serve("placement", workers=workers)
        urls.append(ledger_cluster.url)
    return LedgerServers(*urls, ledger_cluster.dsn)


@pytest.fixture
async def ledger_database(ledger_servers: LedgerServers) -> AsyncIterator[Database]:
    """A pool of the test's own on their database."""
    opened = await Database.open(ledger_servers.dsn)
    yield opened
    await opened.close()
