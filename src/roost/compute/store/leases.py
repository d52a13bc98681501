"""SQL of the leases that agents hold on hosts."""
# ruff: noqa: S608 - what is put into a statement are constants of this file.

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct

from roost.compute.model.agents import AgentPoll
from roost.compute.model.cloud import HostLease
from roost.compute.store.hosts import HEARD_WITHIN, SEEN_AT
from roost.platform.database import Connection
from roost.seams.agent import AgentIdentity


class LeasesRead(Struct, frozen=True, kw_only=True):
    """The leases after agents took what they could; hosts that do not exist are left out.

    hosts_behind: those of which something is to be published now: that they are back, at least. hosts_fallen: those
    whose agents are of a lower service version than before. hosts_returned: those that were silent before. now_s: the
    database's time, in seconds since 1970.
    """

    leases_by_host: dict[str, HostLease]
    hosts_behind: frozenset[str]
    hosts_fallen: frozenset[str]
    hosts_returned: frozenset[str]
    now_s: float


# One statement takes leases that are free or of silent agents, renews those that were not renewed lately, and reads
# all: those that it took as they are now, all others as of its beginning. One that it did not take is another agent's.
# Hosts that have all in common are one row: an agent of a thousand asks often.
RENEW_LEASES = f"""-- compute.renew_leases
WITH asked AS (
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[], $5::integer[], $6::double precision[], $8::boolean[])
        AS a (name, agent_id, agent_label, service_version, fence_after_s, keeps_disks)
), due AS MATERIALIZED (
    SELECT host.name, asked.agent_id, asked.agent_label, asked.service_version, asked.fence_after_s,
        coalesce(asked.keeps_disks, host.keeps_disks) AS keeps_disks,
        asked.service_version BETWEEN 1 AND host.service_version - 1 AS fallen,
        host.silent AND host.seen_at IS NOT NULL AS returned
    FROM compute.host JOIN asked USING (name)
    WHERE (host.agent_id = asked.agent_id OR host.agent_id IS NULL OR silent)
        AND (host.agent_id IS DISTINCT FROM asked.agent_id OR silent
            OR host.service_version <> asked.service_version
            OR host.fence_after_s IS DISTINCT FROM asked.fence_after_s
            OR host.keeps_disks <> coalesce(asked.keeps_disks, host.keeps_disks)
            OR host.lease_length_s IS DISTINCT FROM $7::double precision OR NOT {HEARD_WITHIN.format("$4")})
    ORDER BY host.name FOR NO KEY UPDATE OF host
), taken AS (
    UPDATE compute.host SET seen_at = now(), wanted = wanted + silent::integer, silent = false,
        agent_id = due.agent_id, agent_label = due.agent_label, service_version = due.service_version,
        fence_after_s = due.fence_after_s, lease_length_s = $7, promised_at = now(), promised_by = due.agent_id,
        promise_kept = false, keeps_disks = due.keeps_disks,
        agent_since = CASE WHEN host.agent_id = due.agent_id THEN agent_since ELSE now() END
    FROM due WHERE host.name = due.name RETURNING host.name, published < wanted AS behind, due.fallen, due.returned
)
SELECT array_agg(host.name) AS names, host.agent_id, host.agent_label, host.agent_since,
    coalesce(taken.behind, false) AS behind, coalesce(taken.fallen, false) AS fallen,
    coalesce(taken.returned, false) AS returned, taken.name IS NOT NULL
        OR coalesce(host.agent_id = asked.agent_id AND NOT host.silent AND {HEARD_WITHIN.format("$4")}, false) AS held,
    CASE WHEN taken.name IS NULL AND host.agent_id <> asked.agent_id
        THEN extract(epoch FROM now() - {SEEN_AT})::double precision END AS heard_s,
    extract(epoch FROM now())::double precision AS now_s
FROM compute.host JOIN asked USING (name) LEFT JOIN taken USING (name) GROUP BY 2, 3, 4, 5, 6, 7, 8, 9"""


async def renew_leases(
    tx: Connection, agents_by_host: Mapping[str, AgentIdentity], *, renew_after_s: float, lease_length_s: float
) -> LeasesRead:
    """Take or renew what the agents may have of these hosts.

    One of lease_length_s that was written within renew_after_s is not renewed.
    """
    agents = agents_by_host.values()
    rows = await tx.fetch(
        RENEW_LEASES,
        list(agents_by_host),
        [agent.id for agent in agents],
        [agent.label for agent in agents],
        timedelta(seconds=renew_after_s),
        [agent.service_version for agent in agents],
        [agent.fence_after_s for agent in agents],
        lease_length_s,
        [agent.keeps_disks for agent in agents],
    )
    return LeasesRead(
        leases_by_host={name: lease for row in rows for name, lease in _leases(row).items()},
        hosts_behind=frozenset(name for row in rows if row["behind"] for name in row["names"]),
        hosts_fallen=frozenset(name for row in rows if row["fallen"] for name in row["names"]),
        hosts_returned=frozenset(name for row in rows if row["returned"] for name in row["names"]),
        now_s=rows[0]["now_s"] if rows else 0.0,
    )


def _leases(row: Any) -> dict[str, HostLease]:
    """Return the leases of hosts that have all in common."""
    holder = None if row["agent_id"] is None else AgentIdentity(id=row["agent_id"], label=row["agent_label"])
    return {
        name: HostLease(host=name, taken=row["held"], holder=holder, since=row["agent_since"], heard_s=row["heard_s"])
        for name in row["names"]
    }


# The host goes on being heard of when its agent was last; what was promised with that holds.
RELEASE = f"""
UPDATE compute.host SET agent_id = NULL, agent_label = '', agent_since = NULL, seen_at = {SEEN_AT},
    promised_at = CASE WHEN promised_at = seen_at THEN {SEEN_AT} ELSE promised_at END
WHERE name IN"""

RELEASE_LEASES = f"""-- compute.release_leases{RELEASE} (
    SELECT name FROM compute.host WHERE name = ANY($1::text[]) AND agent_id = $2 ORDER BY name FOR NO KEY UPDATE)"""


async def release_leases(tx: Connection, names: Sequence[str], agent: AgentIdentity) -> None:
    """Take these hosts from the agent: another may have them at once."""
    await tx.execute(RELEASE_LEASES, names, agent.id)


RELEASE_OTHERS = f"""-- compute.release_other_leases{RELEASE} (
    SELECT host.name FROM compute.host JOIN (
        SELECT agent_id, name FROM compute.host WHERE agent_id = ANY($1::uuid[])
        EXCEPT SELECT * FROM unnest($2::uuid[], $3::text[])) AS dropped USING (agent_id, name)
    ORDER BY host.name FOR NO KEY UPDATE OF host)"""


async def release_other_leases(tx: Connection, polls: Sequence[AgentPoll]) -> None:
    """Take from the agents the hosts that they do not ask for."""
    pairs = [(poll.agent.id, host) for poll in polls for host in poll.hosts]
    columns = [agent_id for agent_id, _ in pairs], [host for _, host in pairs]
    await tx.execute(RELEASE_OTHERS, [poll.agent.id for poll in polls], *columns)
