"""SQL of what deleted and changed ports mean for servers: builds that end, and what is kept with ACTIVE servers."""

from collections.abc import Mapping, Sequence

import msgspec

from roost.compute.model.server import ServerNetwork
from roost.compute.model.work import Failure
from roost.platform.database import Connection
from roost.platform.rows import encode, read_row
from roost.seams.compute import ServerPort

_ports = msgspec.json.Decoder(tuple[ServerPort, ...])

# At launch a conductor works on the row only to look whether its time is over; it loses its lease.
FAIL_LAUNCHES = """
-- compute.fail_launches
UPDATE compute.work w
SET stage = 'fail', failure = f.failure, run_at = now(), lease_owner = NULL, lease_until = NULL
FROM unnest($1::uuid[], $2::jsonb[]) AS f (server_id, failure) WHERE w.server_id = f.server_id
"""

MARK_FAILING = """
-- compute.mark_failing
UPDATE compute.work w SET must_fail = f.failure
FROM unnest($1::uuid[], $2::jsonb[]) AS f (server_id, failure) WHERE w.server_id = f.server_id
"""


async def end_builds(tx: Connection, *, now: Mapping[str, Failure], marked: Mapping[str, Failure]) -> None:
    """Send locked rows to the fail stage, or have whoever holds them do so."""
    for statement, failures in ((FAIL_LAUNCHES, now), (MARK_FAILING, marked)):
        if failures:
            await tx.execute(statement, list(failures), [encode(failure) for failure in failures.values()])


# One in ERROR that ran once may be made again where it is, with the ports that are kept here.
RAN = "(status IN ('ACTIVE', 'VERIFY_RESIZE', 'SHELVED_OFFLOADED') OR (status = 'ERROR' AND launched_at IS NOT NULL))"

LIST_SERVER_NETWORKS = f"""
-- compute.list_server_networks
SELECT id, project_id, spec, network_info AS ports, build_order AS order FROM compute.server
WHERE id = ANY($1::uuid[]) AND {RAN} ORDER BY id
"""  # noqa: S608 - a constant of this file


async def list_server_networks(tx: Connection, server_ids: Sequence[str]) -> list[ServerNetwork]:
    """Return what is kept of the ports of those of the servers that were ACTIVE once."""
    rows = await tx.fetch(LIST_SERVER_NETWORKS, server_ids)
    return [read_row(ServerNetwork, row, "spec", "ports", "order") for row in rows]


LOCK_NETWORK_INFO = f"""
-- compute.lock_network_info
SELECT network_info FROM compute.server
WHERE id = $1 AND {RAN}
    AND NOT ($2 AND EXISTS (SELECT FROM compute.work WHERE work.server_id = $1)) FOR UPDATE
"""  # noqa: S608 - a constant of this file
SET_NETWORK_INFO = """
-- compute.set_network_info
UPDATE compute.server SET network_info = $2::jsonb, updated_at = now() WHERE id = $1
"""


async def set_network_info(
    tx: Connection, server_id: str, *, old: Sequence[ServerPort], new: Sequence[ServerPort], quiet: bool = False
) -> bool:
    """Keep these ports with an ACTIVE server, unless it has others than `old` by now; quiet: or is worked on.

    Compared is what the words mean, not the words: another release writes the same ports in others.
    """
    kept = await tx.fetchval(LOCK_NETWORK_INFO, server_id, quiet)
    if kept is None or _ports.decode(kept) != tuple(old):
        return False
    await tx.execute(SET_NETWORK_INFO, server_id, encode(new))
    return True
