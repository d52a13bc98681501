"""Which schemas must be migrated: asked before Alembic is imported, and answered as Alembic would."""

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from roost.platform.database import Database
from roost.platform.migrate import _MIGRATIONS, SCHEMAS, head, list_outdated


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_last_migration_by_its_file_name_is_alembics_head(schema: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.set_main_option("version_locations", str(_MIGRATIONS / schema))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_heads() == [head(schema)]


async def test_a_schema_that_is_missing_or_not_at_its_head_is_outdated(database: Database) -> None:
    assert await list_outdated(database) == []
    async with database.transaction() as tx:
        await tx.execute("UPDATE network.alembic_version SET version_num = 'network_0000'")
        await tx.execute("DROP SCHEMA placement CASCADE")
        await tx.execute("DELETE FROM compute.alembic_version")
    assert await list_outdated(database) == ["placement", "network", "compute"]
    assert await list_outdated(database, ["compute"]) == ["compute"]
