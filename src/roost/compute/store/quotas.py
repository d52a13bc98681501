"""SQL of quotas: what is counted of a project's servers, and a flavor with what the project may have."""
# ruff: noqa: S608 - what is put into a statement are constants of this package.

import msgspec

from roost.compute.model.cloud import Flavor
from roost.compute.store.flavors import COLUMNS, read_flavor
from roost.platform.database import Connection
from roost.platform.quota_tables import EVERYBODY

# While a server is moved between two flavors it counts with the larger. One that is being deleted counts.
COUNT_SERVERS = """-- compute.count_servers_of_projects
SELECT project_id, count(*) AS instances, sum(greatest((server.flavor ->> 'vcpus')::bigint,
        (plan -> 'flavor' ->> 'vcpus')::bigint, (plan -> 'old_flavor' ->> 'vcpus')::bigint)) AS cores,
    sum(greatest((server.flavor ->> 'ram_mb')::bigint,
        (plan -> 'flavor' ->> 'ram_mb')::bigint, (plan -> 'old_flavor' ->> 'ram_mb')::bigint)) AS ram
FROM (SELECT id, project_id, flavor FROM compute.server WHERE {projects}) AS server
LEFT JOIN (SELECT server_id, plan FROM compute.move WHERE open) AS move ON move.server_id = server.id
GROUP BY project_id"""

# One look for both: a project without limits pays nothing for there being quotas.
FIND_FLAVOR = f"""-- compute.find_flavor_with_quotas
SELECT {COLUMNS}, (SELECT jsonb_object_agg(resource, maximum ORDER BY project_id) FROM compute.quota
    WHERE project_id IN ('{EVERYBODY}', $2)) AS quotas
FROM compute.flavor WHERE id = $1 OR name = $1 ORDER BY id <> $1 LIMIT 1"""


async def find_flavor(tx: Connection, ref: str, project_id: str) -> tuple[Flavor | None, dict[str, int]]:
    """Return the flavor with that id, else with that name, and the quotas that override the defaults for the project.

    Without a flavor there are no quotas: nothing is made.
    """
    row = await tx.fetchrow(FIND_FLAVOR, ref, project_id)
    if row is None:
        return None, {}
    values = dict(row)
    quotas = values.pop("quotas")
    return read_flavor(values), {} if quotas is None else msgspec.json.decode(quotas, type=dict[str, int])
