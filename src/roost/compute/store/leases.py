"""SQL of the leases that agents hold on hosts."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from roost.compute.leases import Agent, HostLease, LeaseTimes
from roost.platform.database import Connection

# One statement takes what is free or has run out, renews what was not written lately, and says who has what: `taken`
# as it is from now on, the others as this statement's snapshot has them.
RENEW_LEASES = """-- compute.renew_leases
WITH due AS MATERIALIZED (
    SELECT name FROM compute.host
    WHERE name = ANY($1::text[])
        AND (agent_id IS NULL OR agent_id = $2 OR seen_at IS NULL OR seen_at < now() - $4::interval)
        AND (agent_id IS DISTINCT FROM $2 OR seen_at IS NULL OR seen_at < now() - $5::interval)
    ORDER BY name FOR NO KEY UPDATE
), taken AS (
    UPDATE compute.host SET seen_at = now(), agent_id = $2, agent_label = $3,
        agent_since = CASE WHEN agent_id = $2 THEN agent_since ELSE now() END
    FROM due WHERE host.name = due.name RETURNING host.name
)
SELECT host.name, host.agent_id, host.agent_label, host.agent_since,
    host.seen_at IS NULL OR host.seen_at < now() - $4::interval AS ran_out, taken.name IS NOT NULL AS taken,
    extract(epoch FROM now())::double precision AS now_s
FROM compute.host LEFT JOIN taken USING (name) WHERE host.name = ANY($1::text[])"""


async def renew_leases(
    tx: Connection, names: Sequence[str], agent: Agent, times: LeaseTimes
) -> tuple[dict[str, HostLease], float]:
    """Take or renew what `agent` may have of these hosts: (host -> its lease now, the database's time in seconds).

    Hosts that do not exist are left out.
    """
    rows = await tx.fetch(
        RENEW_LEASES,
        names,
        agent.id,
        agent.label,
        timedelta(seconds=times.run_out),
        timedelta(seconds=times.renew_after),
    )
    leases = {
        row["name"]: HostLease(host=row["name"], holder=agent, since=row["agent_since"], ran_out=False)
        if row["taken"]
        else _lease(row)
        for row in rows
    }
    return leases, rows[0]["now_s"] if rows else 0.0


HOLDERS = """-- compute.list_holders
SELECT name, agent_id, agent_label, agent_since,
    seen_at IS NULL OR seen_at < now() - $2::interval AS ran_out
FROM compute.host WHERE name = ANY($1::text[])"""


async def list_leases(tx: Connection, names: Sequence[str], times: LeaseTimes) -> dict[str, HostLease]:
    """Host -> its lease; hosts that do not exist are left out."""
    rows = await tx.fetch(HOLDERS, names, timedelta(seconds=times.run_out))
    return {row["name"]: _lease(row) for row in rows}


def _lease(row: Any) -> HostLease:
    agent_id: str | None = row["agent_id"]
    since: datetime | None = row["agent_since"]
    holder = None if agent_id is None else Agent(id=agent_id, label=row["agent_label"])
    return HostLease(host=row["name"], holder=holder, since=since, ran_out=row["ran_out"])
