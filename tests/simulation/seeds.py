"""Runs one seed in an empty database, and says how to have the same story again when it ends badly."""

import asyncpg
from tests.invariants import NOTE_OVERCLAIMS
from tests.simulation.story import Story

from roost.platform.database import Database

KEPT = "'alembic_version', 'alembic_step', 'trait', 'resource_class'"
LIST_TABLES = f"""
SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
WHERE schemaname IN ('placement', 'network', 'compute', 'audit') AND tablename NOT IN ({KEPT}) ORDER BY 1"""


class SeedFailed(AssertionError):
    """What went wrong, what had happened, and how to replay it."""


async def prepare(dsn: str) -> None:
    """Have the database note what nobody may do at any moment."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(NOTE_OVERCLAIMS)
    await connection.close()


async def run_seed(dsn: str, seed: int) -> list[str]:
    """Tell the story of a seed; returns it. Raises SeedFailed."""
    database = await Database.open(dsn, size=6)
    story = None
    try:
        async with database.connection() as connection:
            tables = [row[0] for row in await connection.fetch(LIST_TABLES)]
            await connection.execute(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY CASCADE")
        story = await Story.begin(database, seed)
        await story.tell()
        return story.told
    except Exception as error:
        told = "\n".join(story.told if story else [])
        raise SeedFailed(
            f"{told}\nseed {seed}: {type(error).__name__}: {error}\n"
            f"replay: SIMULATION_SEED={seed} python -m pytest -n 0 tests/simulation/test_simulation.py"
        ) from error
    finally:
        await database.close()
