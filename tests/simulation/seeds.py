"""Runs seeds, one after another in one database, and says how to have the same story again when one ends badly.

Half of the time would go into connections, plans of statements and TRUNCATE. So connections stay, with statements that
are prepared and planned once, and a world is emptied by deleting its rows, for which plans are kept.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from unittest.mock import patch

import asyncpg
from tests.invariants import NOTE_OVERCLAIMS
from tests.simulation.steps import tell
from tests.simulation.story import Story

from roost.placement.service import refresh
from roost.platform.database import Database

SEED_TIMEOUT_S = 60.0
"""A story takes half a second."""
STATEMENTS_MAX = 1000
PREPARE = """
DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I SET plan_cache_mode = force_generic_plan', current_database());
    EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database());
END $$;
CREATE FUNCTION audit.begin_anew() RETURNS void LANGUAGE plpgsql SET session_replication_role = replica AS $body$
BEGIN
    {statements}
END $body$;
"""
KEPT = "'alembic_version', 'alembic_step', 'trait', 'resource_class', 'change_horizon'"
"""Tables that are not emptied: what a migration wrote, and standard names."""
LIST_STATEMENTS = f"""
SELECT format('DELETE FROM %I.%I;', schemaname, tablename) FROM pg_tables
WHERE schemaname IN ('placement', 'network', 'compute', 'audit') AND tablename NOT IN ({KEPT})
UNION ALL SELECT format('PERFORM setval(%L, %s, false);', format('%I.%I', schemaname, sequencename), start_value)
FROM pg_sequences
WHERE schemaname IN ('placement', 'network', 'compute') AND sequencename !~ '^(trait|resource_class)_'
ORDER BY 1"""


class SeedFailed(AssertionError):
    """What went wrong, what had happened, and how to replay it."""


@asynccontextmanager
async def stage(dsn: str) -> AsyncIterator[Database]:
    """Yield a migrated database for many stories, which itself notes what nobody may do at any moment."""
    connection = await asyncpg.connect(dsn)
    if not await connection.fetchval("SELECT to_regnamespace('audit') IS NOT NULL"):
        await connection.execute(NOTE_OVERCLAIMS)
        statements = "\n    ".join(row[0] for row in await connection.fetch(LIST_STATEMENTS))
        await connection.execute(PREPARE.replace("{statements}", statements))
    await connection.close()
    with patch.object(asyncpg, "create_pool", partial(asyncpg.create_pool, statement_cache_size=STATEMENTS_MAX)):
        database = await Database.open(dsn, size=6)
    try:
        with patch.object(refresh, "gc"):  # each world has an index, and what a whole collection looks at is pytest's
            yield database
    finally:
        await database.close()


async def run_seed(database: Database, seed: int) -> list[str]:
    """Tell the story of a seed; returns it. Raises SeedFailed."""
    story = None
    try:
        async with asyncio.timeout(SEED_TIMEOUT_S):
            async with database.connection() as connection:
                await connection.execute("SELECT audit.begin_anew()")
            story = await Story.begin(database, seed)
            await tell(story)
        return story.told
    except Exception as error:
        told = "\n".join(story.told if story else [])
        raise SeedFailed(
            f"{told}\nseed {seed}: {type(error).__name__}: {error}\n"
            f"replay: SIMULATION_SEED={seed} python -m pytest -s -n 0 tests/simulation -k well"
        ) from error
