"""SQL of the leases that agents hold on hosts."""
# ruff: noqa: S608 - what is put into a statement are constants of this file.

from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from roost.compute.leases import Agent, HostLease
from roost.compute.store.hosts import HEARD_WITHIN
from roost.platform.database import Connection


class LeasesRead(Struct, frozen=True, kw_only=True):
    """The leases after an agent took what it could, in the order of the names; hosts that do not exist are left out.

    behind: hosts of which something is to be published now: that they are back, at least. now_s: the database's time,
    in seconds since 1970.
    """

    leases: list[HostLease]
    behind: list[str]
    now_s: float


# One statement takes what is free or silent, renews what was not written lately, and says who has what: what it took as
# it is from now on, all else as of its beginning. A lease that was to be renewed and was not is somebody else's.
RENEW_LEASES = f"""-- compute.renew_leases
WITH due AS MATERIALIZED (
    SELECT name FROM compute.host
    WHERE name = ANY($1::text[]) AND (agent_id IS NULL OR agent_id = $2 OR silent)
        AND (agent_id IS DISTINCT FROM $2 OR silent OR NOT {HEARD_WITHIN.format("$4")})
    ORDER BY name FOR NO KEY UPDATE
), taken AS (
    UPDATE compute.host SET seen_at = now(), wanted = wanted + silent::integer, silent = false, agent_id = $2,
        agent_label = $3, agent_since = CASE WHEN agent_id = $2 THEN agent_since ELSE now() END
    FROM due WHERE host.name = due.name RETURNING host.name, published < wanted AS behind
)
SELECT host.name, host.agent_id, host.agent_label, host.agent_since, coalesce(taken.behind, false) AS behind,
    taken.name IS NOT NULL
        OR coalesce(host.agent_id = $2 AND NOT host.silent AND {HEARD_WITHIN.format("$4")}, false) AS held,
    extract(epoch FROM now())::double precision AS now_s
FROM compute.host LEFT JOIN taken USING (name) WHERE host.name = ANY($1::text[]) ORDER BY host.name"""


async def renew_leases(tx: Connection, names: Sequence[str], agent: Agent, *, renew_after_s: float) -> LeasesRead:
    """Take or renew what `agent` may have of these hosts; a lease that was written within renew_after_s is not."""
    rows = await tx.fetch(RENEW_LEASES, names, agent.id, agent.label, timedelta(seconds=renew_after_s))
    return LeasesRead(
        leases=[
            HostLease(
                host=row["name"],
                held=row["held"],
                holder=None if row["agent_id"] is None else Agent(id=row["agent_id"], label=row["agent_label"]),
                since=row["agent_since"],
            )
            for row in rows
        ],
        behind=[row["name"] for row in rows if row["behind"]],
        now_s=rows[0]["now_s"] if rows else 0.0,
    )
