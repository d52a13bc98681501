"""SQL of host aggregates and of who is in them."""
# ruff: noqa: S608 - what is put into a statement are constants of this file.

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from roost.compute.model.cloud import HostAggregate
from roost.compute.rules.aggregates import Membership, Memberships
from roost.platform.database import Connection
from roost.platform.rows import encode, read_row
from roost.seams.compute import HostAggregateState

INSERT_HOST_AGGREGATES = """-- compute.insert_host_aggregates
INSERT INTO compute.host_aggregate (uuid, name)
SELECT uuid, name FROM unnest($1::uuid[], $2::text[]) AS new (uuid, name) ORDER BY uuid ON CONFLICT DO NOTHING"""

# A statement of its own: only then does it see what another transaction inserted meanwhile.
LIST_MISSING_AGGREGATES = """-- compute.list_missing_aggregates
SELECT new.name FROM unnest($1::uuid[], $2::text[]) AS new (uuid, name)
WHERE NOT EXISTS (SELECT FROM compute.host_aggregate AS known WHERE known.uuid = new.uuid) ORDER BY new.name"""


async def insert_host_aggregates(tx: Connection, aggregates: Sequence[HostAggregateState]) -> list[str]:
    """Create those that do not exist yet; the names that could not be had, for they are another aggregate's."""
    uuids, names = [aggregate.uuid for aggregate in aggregates], [aggregate.name for aggregate in aggregates]
    await tx.execute(INSERT_HOST_AGGREGATES, uuids, names)
    return [row["name"] for row in await tx.fetch(LIST_MISSING_AGGREGATES, uuids, names)]


DELETE_HOST_AGGREGATES = """-- compute.delete_host_aggregates
DELETE FROM compute.host_aggregate WHERE uuid = ANY($1::uuid[])"""


async def delete_host_aggregates(tx: Connection, uuids: Sequence[str]) -> None:
    """Delete host aggregates, with their memberships."""
    await tx.execute(DELETE_HOST_AGGREGATES, uuids)


LOCK_HOST_AGGREGATES = """-- compute.lock_host_aggregates
SELECT uuid FROM compute.host_aggregate WHERE uuid = ANY($1::uuid[]) ORDER BY uuid FOR NO KEY UPDATE"""


async def lock_host_aggregates(tx: Connection, uuids: Iterable[str]) -> frozenset[str]:
    """Lock and return those that exist. Whoever changes memberships holds these locks, so two never mix."""
    return frozenset(row["uuid"] for row in await tx.fetch(LOCK_HOST_AGGREGATES, sorted(uuids)))


LIST_MEMBERSHIPS = """-- compute.list_memberships
SELECT aggregate_uuid, host FROM compute.host_aggregate_host
WHERE host = ANY($1::text[]) AND aggregate_uuid = ANY($2::uuid[])"""


async def list_memberships(tx: Connection, hosts: Sequence[str], *, managed: Iterable[str]) -> Memberships:
    """Return which of the managed host aggregates each host is in; every host is a key."""
    aggregates: dict[str, set[str]] = {host: set() for host in hosts}
    for row in await tx.fetch(LIST_MEMBERSHIPS, hosts, sorted(managed)):
        aggregates[row["host"]].add(row["aggregate_uuid"])
    return {host: frozenset(uuids) for host, uuids in aggregates.items()}


INSERT_MEMBERSHIPS = """-- compute.insert_memberships
INSERT INTO compute.host_aggregate_host (aggregate_uuid, host)
SELECT aggregate_uuid, host FROM unnest($1::uuid[], $2::text[]) AS new (aggregate_uuid, host)
ORDER BY aggregate_uuid, host ON CONFLICT DO NOTHING"""

DELETE_MEMBERSHIPS = """-- compute.delete_memberships
DELETE FROM compute.host_aggregate_host AS member
USING unnest($1::uuid[], $2::text[]) AS gone (aggregate_uuid, host)
WHERE member.aggregate_uuid = gone.aggregate_uuid AND member.host = gone.host"""


async def write_memberships(tx: Connection, *, added: Sequence[Membership], removed: Sequence[Membership]) -> None:
    """Put hosts into host aggregates, and take them out."""
    if added:
        await tx.execute(INSERT_MEMBERSHIPS, [uuid for uuid, _ in added], [host for _, host in added])
    if removed:
        await tx.execute(DELETE_MEMBERSHIPS, [uuid for uuid, _ in removed], [host for _, host in removed])


LIST_PROVIDER_AGGREGATES = """-- compute.list_provider_aggregates
SELECT host.provider_uuid,
    coalesce(array_agg(member.aggregate_uuid) FILTER (WHERE member.aggregate_uuid IS NOT NULL), '{}') AS aggregates
FROM compute.host LEFT JOIN compute.host_aggregate_host AS member
    ON member.host = host.name AND member.aggregate_uuid = ANY($2::uuid[])
WHERE host.name = ANY($1::text[]) GROUP BY host.provider_uuid"""


async def list_provider_aggregates(
    tx: Connection, hosts: Sequence[str], *, managed: Iterable[str]
) -> dict[str, frozenset[str]]:
    """Return provider of each known host -> those of the managed aggregates that it must be in."""
    rows = await tx.fetch(LIST_PROVIDER_AGGREGATES, hosts, sorted(managed))
    return {row["provider_uuid"]: frozenset(row["aggregates"]) for row in rows}


LIST_MIRRORED = """-- compute.list_mirrored_aggregates
SELECT uuid, name FROM compute.host_aggregate
UNION ALL SELECT uuid, name || ' (deleted)' FROM compute.former_aggregate"""


async def list_mirrored(tx: Connection) -> dict[str, str]:
    """Return UUID -> name of every placement aggregate that Roost keeps: those there are, and those deleted."""
    return {row["uuid"]: row["name"] for row in await tx.fetch(LIST_MIRRORED)}


COLUMNS = """aggregate.id, aggregate.uuid, aggregate.name, aggregate.metadata, aggregate.created_at,
    aggregate.updated_at, aggregate.of_operator,
    ARRAY(SELECT host FROM compute.host_aggregate_host AS member
        WHERE member.aggregate_uuid = aggregate.uuid ORDER BY host) AS hosts"""

LIST_HOST_AGGREGATES = f"""-- compute.list_host_aggregates
SELECT {COLUMNS} FROM compute.host_aggregate AS aggregate
WHERE ($1::integer IS NULL OR aggregate.id = $1) AND ($2::uuid[] IS NULL OR aggregate.uuid = ANY($2))
ORDER BY aggregate.id"""


async def list_host_aggregates(
    tx: Connection, aggregate_id: int | None = None, *, uuids: Sequence[str] | None = None
) -> list[HostAggregate]:
    """Return all host aggregates with their hosts, or the one with that id, or those with these UUIDs."""
    return [_host_aggregate(row) for row in await tx.fetch(LIST_HOST_AGGREGATES, aggregate_id, uuids)]


LOCK_HOST_AGGREGATE = """-- compute.lock_host_aggregate
SELECT FROM compute.host_aggregate WHERE id = $1 FOR NO KEY UPDATE"""


async def lock_host_aggregate(tx: Connection, aggregate_id: int) -> HostAggregate | None:
    """Lock the aggregate, and return it as it is then; None where there is none."""
    await tx.execute(LOCK_HOST_AGGREGATE, aggregate_id)
    return next(iter(await list_host_aggregates(tx, aggregate_id)), None)


LIST_WITH_METADATA = f"""-- compute.list_aggregates_with_metadata
SELECT {COLUMNS} FROM compute.host_aggregate AS aggregate WHERE aggregate.metadata <> '{{}}' ORDER BY aggregate.id"""


async def list_with_metadata(tx: Connection) -> list[HostAggregate]:
    """Return the host aggregates that have some metadata: what scheduling, zones and ratios follow from."""
    return [_host_aggregate(row) for row in await tx.fetch(LIST_WITH_METADATA)]


LOCK_MEMBERS = """-- compute.lock_members
SELECT name FROM compute.host WHERE name = ANY($1::text[]) ORDER BY name FOR NO KEY UPDATE"""


async def lock_hosts(tx: Connection, names: Sequence[str]) -> list[str]:
    """Lock and return those hosts that exist: what aggregates they are in does not change meanwhile by an operator."""
    return [row["name"] for row in await tx.fetch(LOCK_MEMBERS, names)]


INSERT_HOST_AGGREGATE = """-- compute.insert_host_aggregate
INSERT INTO compute.host_aggregate (uuid, name, metadata, of_operator) VALUES ($1, $2, $3::jsonb, true)
ON CONFLICT DO NOTHING RETURNING id"""


async def insert_host_aggregate(tx: Connection, uuid: str, name: str, metadata: Mapping[str, str]) -> int | None:
    """Insert an operator's aggregate and return its id; None where the name is taken."""
    aggregate_id: int | None = await tx.fetchval(INSERT_HOST_AGGREGATE, uuid, name, encode(metadata))
    return aggregate_id


UPDATE_HOST_AGGREGATE = """-- compute.update_host_aggregate
UPDATE compute.host_aggregate SET name = $2, metadata = $3::jsonb, updated_at = now() WHERE id = $1"""


async def update_host_aggregate(tx: Connection, aggregate_id: int, name: str, metadata: Mapping[str, str]) -> None:
    """Set name and metadata. Raises asyncpg's UniqueViolationError where the name is another's."""
    await tx.execute(UPDATE_HOST_AGGREGATE, aggregate_id, name, encode(metadata))


RETIRE_HOST_AGGREGATE = """-- compute.retire_host_aggregate
WITH gone AS (DELETE FROM compute.host_aggregate WHERE id = $1 RETURNING uuid, name)
INSERT INTO compute.former_aggregate (uuid, name) SELECT uuid, name FROM gone"""


async def retire_host_aggregate(tx: Connection, aggregate_id: int) -> None:
    """Delete an operator's aggregate, and remember that placement may still have it."""
    await tx.execute(RETIRE_HOST_AGGREGATE, aggregate_id)


WANT_HOSTS = """-- compute.want_hosts
UPDATE compute.host SET wanted = wanted + 1 WHERE name IN (
    SELECT name FROM compute.host WHERE name = ANY($1::text[]) ORDER BY name FOR NO KEY UPDATE)"""


async def want_hosts(tx: Connection, names: Sequence[str]) -> None:
    """Mark all about these hosts as to be published again."""
    await tx.execute(WANT_HOSTS, names)


def _host_aggregate(row: Any) -> HostAggregate:
    return read_row(HostAggregate, row, "metadata")
