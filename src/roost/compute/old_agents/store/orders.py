"""SQL of the facts that decide in which order a server is built."""

from roost.platform.database import Connection

COUNT_VERSIONS = """-- compute.count_agent_versions
SELECT service_version, count(*) AS hosts FROM compute.host
WHERE NOT silent AND NOT forced_down AND NOT disabled AND (service_version = 0 OR service_version >= $1)
GROUP BY service_version"""


async def count_agent_versions(tx: Connection, *, version_min: int) -> dict[int, int]:
    """Return service version -> how many hosts that take servers have an agent of it, from version_min on."""
    return {row["service_version"]: row["hosts"] for row in await tx.fetch(COUNT_VERSIONS, version_min)}
