"""SQL of agents: which start of each was heard, with which secret, and whether it holds all its hosts."""
# ruff: noqa: S608 - what is put into a statement are constants of this file.

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from roost.compute.model.agents import AgentClash, AgentHeard, AgentPoll, AgentRow
from roost.compute.model.recovery import MarkRow
from roost.compute.store.hosts import HEARD_WITHIN
from roost.compute.store.recovery import FOLLOWS
from roost.platform.database import Connection

COLUMNS = """agent.id, agent.label, agent.service_version, agent.boot_id, agent.boot_since, agent.boot_at,
    agent.former_boots, agent.former_boot_id, agent.former_label, agent.former_at, agent.secret_sha256, agent.seen_at"""

SETTLED = """(agent.boot_id IS NOT DISTINCT FROM asked.boot_id AND agent.label = asked.label AND agent.former_at IS NULL
    AND agent.secret_sha256 IS NOT DISTINCT FROM asked.secret_sha256)"""
HOLDS_ALL = f"({SETTLED} AND coalesce(agent.hosts_digest = asked.hosts_digest, false))"
HEARD = HEARD_WITHIN.format("$6").replace("seen_at", "agent.seen_at")

# What nearly all polls are is one statement that reads no host: of a settled agent that holds all that it asks for.
# Who takes a host from it locks its row, and the lock reads the digest again (R43).
HEAR_AGENTS = f"""-- compute.hear_agents
WITH asked AS (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[], $5::bytea[])
        WITH ORDINALITY AS a (id, boot_id, label, secret_sha256, hosts_digest, number)
), due AS MATERIALIZED (
    SELECT agent.id FROM compute.agent JOIN asked USING (id) WHERE {HOLDS_ALL} AND NOT {HEARD}
    ORDER BY agent.id FOR NO KEY UPDATE OF agent
), renewed AS (
    UPDATE compute.agent SET seen_at = now() FROM due WHERE agent.id = due.id RETURNING agent.id
)
SELECT coalesce({SETTLED}, false) AS settled,
    coalesce({HOLDS_ALL} AND (renewed.id IS NOT NULL OR {HEARD}), false) AS renewed,
    extract(epoch FROM now())::double precision AS now_s,
    asked.id AS agent_id, coalesce(agent.mark, 0) AS value, k.key, NOT {FOLLOWS} AS recovering
FROM asked LEFT JOIN compute.mark_key k ON true LEFT JOIN compute.agent ON agent.id = asked.id
LEFT JOIN renewed ON renewed.id = asked.id ORDER BY asked.number"""


async def hear_agents(tx: Connection, polls: Sequence[AgentPoll], *, renew_after_s: float) -> list[AgentHeard]:
    """Return how each poll was heard, in order; an agent that was written within renew_after_s is not."""
    rows = await tx.fetch(
        HEAR_AGENTS,
        [poll.agent.id for poll in polls],
        [poll.agent.boot_id for poll in polls],
        [poll.agent.label for poll in polls],
        [poll.secret_sha256 for poll in polls],
        [poll.hosts_digest for poll in polls],
        timedelta(seconds=renew_after_s),
    )
    return [_heard(row) for row in rows]


def _heard(row: Any) -> AgentHeard:
    mark = MarkRow(agent_id=row["agent_id"], value=row["value"], key=row["key"], recovering=row["recovering"])
    return AgentHeard(settled=row["settled"], renewed=row["renewed"], now_s=row["now_s"], mark=mark)


FIND_AGENT = f"""-- compute.find_agent
SELECT {COLUMNS}, $1::uuid AS agent_id, coalesce(agent.mark, 0) AS value, k.key, NOT {FOLLOWS} AS recovering
FROM (VALUES (1)) AS one LEFT JOIN compute.mark_key k ON true LEFT JOIN compute.agent ON agent.id = $1"""


async def find_agent(tx: Connection, agent_id: str) -> tuple[AgentRow | None, MarkRow]:
    """Return the agent's row, None where it has none, and its mark in the records."""
    row = dict(await tx.fetchrow(FIND_AGENT, agent_id) or {})
    mark = MarkRow(**{name: row.pop(name) for name in MarkRow.__struct_fields__})
    return (None if row["id"] is None else _row(row)), mark


ADD_AGENTS = """-- compute.add_agents
INSERT INTO compute.agent (id) SELECT id FROM unnest($1::uuid[]) AS a (id) ORDER BY id ON CONFLICT DO NOTHING"""
LOCK_AGENTS = f"""-- compute.lock_agents
SELECT {COLUMNS}, now() AS now FROM compute.agent WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE"""


async def lock_agents(
    tx: Connection, agent_ids: Collection[str], *, add: bool
) -> tuple[dict[str, AgentRow], datetime | None]:
    """Lock the agents' rows by id; return them by id, and the database's time. add: with rows for those without."""
    if add:
        await tx.execute(ADD_AGENTS, list(agent_ids))
    rows = [dict(row) for row in await tx.fetch(LOCK_AGENTS, list(agent_ids))]
    times = [row.pop("now") for row in rows]
    return {row["id"]: _row(row) for row in rows}, max(times, default=None)


WRITE_AGENT = """-- compute.write_agent
UPDATE compute.agent SET label = $2, service_version = $3, boot_id = $4, boot_since = $5, boot_at = $6,
    former_boots = $7, former_boot_id = $8, former_label = $9, former_at = $10, secret_sha256 = $11, hosts_digest = NULL
WHERE id = $1"""


async def write_agent(tx: Connection, row: AgentRow) -> None:
    """Write what is known of a locked agent; its next poll reads its hosts."""
    await tx.execute(
        WRITE_AGENT, row.id, row.label, row.service_version, row.boot_id, row.boot_since, row.boot_at, row.former_boots,
        row.former_boot_id, row.former_label, row.former_at, row.secret_sha256,
    )  # fmt: skip


# The agents are locked by a statement before: this one sees what all have done who changed a host of theirs (R43).
SETTLE_AGENTS = """-- compute.settle_agents
WITH pair AS (
    SELECT agent_id, name, true AS asks, false AS serves FROM unnest($1::uuid[], $2::text[]) AS a (agent_id, name)
    UNION ALL SELECT agent_id, name, false, NOT silent FROM compute.host WHERE agent_id = ANY($3::uuid[])
), host AS (
    SELECT agent_id, name, bool_or(asks) AS asks, bool_or(serves) AS serves FROM pair GROUP BY agent_id, name
), agents AS (
    SELECT agent_id, bool_and(asks AND serves) AS holds_all, bool_or(NOT asks) AS drops FROM host GROUP BY agent_id
), written AS (
    UPDATE compute.agent SET seen_at = now(), hosts_digest = digest.hosts_digest
    FROM unnest($3::uuid[], $4::bytea[]) AS digest (agent_id, hosts_digest) JOIN agents USING (agent_id)
    WHERE agent.id = digest.agent_id AND agents.holds_all
)
SELECT agent_id FROM agents WHERE drops"""


async def settle_agents(tx: Connection, polls: Sequence[AgentPoll]) -> set[str]:
    """Write that locked agents hold all that they ask for, of those of which it is so, and no host is silent.

    Return the agents that hold hosts that they do not ask for.
    """
    pairs = [(poll.agent.id, host) for poll in polls for host in poll.hosts]
    rows = await tx.fetch(
        SETTLE_AGENTS,
        [agent_id for agent_id, _ in pairs],
        [host for _, host in pairs],
        [poll.agent.id for poll in polls],
        [poll.hosts_digest for poll in polls],
    )
    return {row[0] for row in rows}


GUESTS_ELSEWHERE = """-- compute.list_hosts_with_guests_of
SELECT agent_id, host FROM compute.guest
WHERE agent_id = ANY($1::uuid[]) AND fenced_by IS NULL AND lost_at IS NULL
EXCEPT SELECT * FROM unnest($2::uuid[], $3::text[])"""


async def list_hosts_with_guests_of(tx: Connection, polls: Sequence[AgentPoll]) -> Mapping[str, set[str]]:
    """Return by agent id the hosts that it does not ask for and has guests on; an agent without such is left out."""
    pairs = [(poll.agent.id, host) for poll in polls for host in poll.hosts]
    hosts: dict[str, set[str]] = {}
    columns = [agent_id for agent_id, _ in pairs], [host for _, host in pairs]
    for row in await tx.fetch(GUESTS_ELSEWHERE, [poll.agent.id for poll in polls], *columns):
        hosts.setdefault(row["agent_id"], set()).add(row["host"])
    return hosts


LIST_CLASHES = """-- compute.list_agent_clashes
SELECT label, boot_since AS since, former_label, former_at FROM compute.agent
WHERE former_at > now() - $1::interval AND boot_at > now() - $1::interval ORDER BY id"""


async def list_clashes(tx: Connection, *, lease_s: float) -> list[AgentClash]:
    """Return the agents of which two starts spoke within lease_s."""
    return [AgentClash(**row) for row in await tx.fetch(LIST_CLASHES, timedelta(seconds=lease_s))]


def _row(row: Any) -> AgentRow:
    return AgentRow(**{**row, "former_boots": tuple(row["former_boots"])})
