"""SQL of hosts that wait until an operator accepts them."""
# ruff: noqa: S608 - what is put into a statement are constants of this package.

from collections.abc import Collection

from roost.compute.model.cloud import Host, KnownHosts
from roost.compute.store.hosts import COLUMNS, host_of
from roost.platform.database import Connection

READ_KNOWN = """-- compute.read_known_hosts
SELECT ARRAY(SELECT name FROM compute.host WHERE name = ANY($1::text[])) AS names,
    ARRAY(SELECT name FROM compute.host WHERE waiting) AS waiting,
    ARRAY(SELECT asked.cell FROM unnest($2::text[]) AS asked (cell)
        WHERE EXISTS (SELECT FROM compute.host WHERE host.cell = asked.cell AND NOT host.waiting)
            OR EXISTS (SELECT FROM compute.conductor_heartbeat WHERE asked.cell = ANY(cells))) AS cells
"""


async def read_known(tx: Connection, names: Collection[str], cells: Collection[str]) -> KnownHosts:
    """Return which of the hosts and cells are known, and all hosts that wait."""
    row = await tx.fetchrow(READ_KNOWN, list(names), list(cells))
    assert row is not None
    return KnownHosts(frozenset(row["names"]), frozenset(row["waiting"]), frozenset(row["cells"]))


LOCK_REGISTRATIONS = """-- compute.lock_registrations
SELECT pg_advisory_xact_lock(5931046453580398596)"""


async def lock_registrations(tx: Connection) -> None:
    """Wait until no other transaction registers new hosts: those are counted then."""
    await tx.execute(LOCK_REGISTRATIONS)


LIST_WAITING = """-- compute.list_waiting_hosts
SELECT name FROM compute.host WHERE waiting ORDER BY name"""


async def list_waiting(tx: Connection) -> list[str]:
    """Return the names of the hosts that wait."""
    return [row["name"] for row in await tx.fetch(LIST_WAITING)]


COUNT_WAITING = """-- compute.count_waiting_hosts
SELECT count(*) FROM compute.host WHERE waiting"""


async def count_waiting(tx: Connection) -> int:
    """Return how many hosts wait."""
    return int(await tx.fetchval(COUNT_WAITING))


ACCEPT = f"""-- compute.accept_hosts
UPDATE compute.host SET waiting = false, disabled = false, disabled_reason = NULL, wanted = wanted + 1,
    updated_at = now()
WHERE name IN (SELECT name FROM compute.host WHERE waiting AND name = ANY($1::text[]) ORDER BY name FOR NO KEY UPDATE)
RETURNING {COLUMNS}"""


async def accept(tx: Connection, names: Collection[str]) -> list[Host]:
    """Accept those of the hosts that wait; return them."""
    return [host_of(row) for row in await tx.fetch(ACCEPT, list(names))]
