"""SQL of flavors."""
# ruff: noqa: S608 - what is put into a statement are constants of this file.

from typing import Any

from roost.compute.model.cloud import EVERY_FLAVOR, Flavor, FlavorFilter
from roost.platform.database import Connection
from roost.platform.rows import encode, read_row

COLUMNS = "id, name, vcpus, ram_mb, disk_gb, description, extra_specs, is_public"

INSERT_FLAVOR = """-- compute.insert_flavor
INSERT INTO compute.flavor (id, name, vcpus, ram_mb, disk_gb, description, extra_specs, is_public)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING RETURNING id"""


async def insert_flavor(tx: Connection, flavor: Flavor) -> bool:
    """Insert a flavor; return whether it was new: with a known id or name nothing is changed."""
    row = (flavor.id, flavor.name, flavor.vcpus, flavor.ram_mb, flavor.disk_gb, flavor.description)
    return await tx.fetchval(INSERT_FLAVOR, *row, encode(flavor.extra_specs), flavor.is_public) is not None


LIST_FLAVORS = f"""-- compute.list_flavors
SELECT {COLUMNS} FROM compute.flavor
WHERE id > $1 AND ($3::boolean IS NULL OR is_public = $3) AND ram_mb >= $4 AND disk_gb >= $5 ORDER BY id LIMIT $2"""


async def list_flavors(tx: Connection, *, after: str, limit: int, only: FlavorFilter = EVERY_FLAVOR) -> list[Flavor]:
    """Return a page of flavors by id, above `after` ("" for the first)."""
    rows = await tx.fetch(LIST_FLAVORS, after, limit, only.is_public, only.ram_mb_min, only.disk_gb_min)
    return [read_flavor(row) for row in rows]


FIND_FLAVOR = f"""-- compute.find_flavor
SELECT {COLUMNS} FROM compute.flavor WHERE id = $1 OR (name = $1 AND $2) ORDER BY id <> $1 LIMIT 1"""


async def find_flavor(tx: Connection, ref: str, *, by_name: bool) -> Flavor | None:
    """Return the flavor with that id, else with that name."""
    row = await tx.fetchrow(FIND_FLAVOR, ref, by_name)
    return None if row is None else read_flavor(row)


FIND_FLAVOR_OF_SIZE = f"""-- compute.find_flavor_of_size
SELECT {COLUMNS} FROM compute.flavor
WHERE vcpus = $1 AND ram_mb = $2 AND disk_gb = $3 AND extra_specs = '{{}}' ORDER BY id LIMIT 1"""


async def find_flavor_of_size(tx: Connection, *, vcpus: int, ram_mb: int, disk_gb: int) -> Flavor | None:
    """Return the first flavor of exactly this size that asks for nothing else."""
    row = await tx.fetchrow(FIND_FLAVOR_OF_SIZE, vcpus, ram_mb, disk_gb)
    return None if row is None else read_flavor(row)


DELETE_FLAVOR = """-- compute.delete_flavor
DELETE FROM compute.flavor WHERE id = $1 RETURNING id"""


async def delete_flavor(tx: Connection, flavor_id: str) -> bool:
    """Delete a flavor; return whether there was one."""
    return await tx.fetchval(DELETE_FLAVOR, flavor_id) is not None


SET_EXTRA_SPECS = f"""-- compute.set_extra_specs
UPDATE compute.flavor SET extra_specs = (extra_specs || $2::jsonb) - $3::text[] WHERE id = $1 RETURNING {COLUMNS}"""


async def set_extra_specs(
    tx: Connection, flavor_id: str, *, added: dict[str, str], removed: list[str]
) -> Flavor | None:
    """Add or replace some extra specs and drop others; the flavor then, or None where there is none."""
    row = await tx.fetchrow(SET_EXTRA_SPECS, flavor_id, encode(added), removed)
    return None if row is None else read_flavor(row)


def read_flavor(row: Any) -> Flavor:
    """Return the flavor of a row with COLUMNS."""
    return read_row(Flavor, row, "extra_specs")
