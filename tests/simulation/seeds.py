"""Runs seeds, one after another in one database, and says how to have the same story again when one ends badly.

Half of the time would go into connections, plans of statements and TRUNCATE. So connections stay, with statements that
are prepared and planned once, and a world is emptied by deleting its rows, for which plans are kept. Each begins with a
copy of one cloud.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple
from unittest.mock import patch

import asyncpg
from tests.invariants import NOTE_OVERCLAIMS
from tests.simulation.beginning import Beginning
from tests.simulation.steps import tell
from tests.simulation.story import Story

from roost.platform.database import Database

SEED_TIMEOUT_S = 60.0
"""A story takes half a second."""
STATEMENTS_MAX = 1000
CONFIGURE = """
DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I SET plan_cache_mode = force_generic_plan', current_database());
    EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database());
END $$
"""


class Stage(NamedTuple):
    """A database for many stories, and the cloud with which each begins."""

    database: Database
    beginning: Beginning


class SeedFailed(AssertionError):
    """What went wrong, what had happened, and how to replay it."""


@asynccontextmanager
async def open_stage(dsn: str) -> AsyncIterator[Stage]:
    """Yield a migrated database for many stories, which itself notes what nobody may do at any moment."""
    connection = await asyncpg.connect(dsn)
    if not await connection.fetchval("SELECT to_regnamespace('audit') IS NOT NULL"):
        await connection.execute(NOTE_OVERCLAIMS)
        await connection.execute(CONFIGURE)
    cached = {"statement_cache_size": STATEMENTS_MAX, "max_cacheable_statement_size": 0}  # 0: of any length
    with patch.object(asyncpg, "create_pool", partial(asyncpg.create_pool, **cached)):
        database = await Database.open(dsn, size=6)
    try:
        yield Stage(database, await Beginning.make(database, connection))
    finally:
        await database.close()
        await connection.close()


async def run_seed(stage: Stage, seed: int) -> list[str]:
    """Tell the story of a seed; returns it. Raises SeedFailed."""
    story = None
    try:
        async with asyncio.timeout(SEED_TIMEOUT_S):
            story = await Story.begin(stage.database, stage.beginning, seed)
            await tell(story)
        return story.told
    except Exception as error:
        told = "\n".join(story.told if story else [])
        raise SeedFailed(
            f"{told}\nseed {seed}: {type(error).__name__}: {error}\n"
            f"replay: SIMULATION_SEED={seed} python -m pytest -s -n 0 tests/simulation -k well"
        ) from error
