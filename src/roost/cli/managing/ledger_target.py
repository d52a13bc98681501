"""The database that a `roost-manage` command works on: given, or the private one of a data directory."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import typer
from msgspec import Struct

from roost.cli.settings import Config, Settings, read_settings
from roost.platform.database import Database
from roost.platform.errors import RoostError
from roost.platform.migrate import bring_up_to_date, list_outdated
from roost.platform.postgres import PrivatePostgres


class TargetRefused(RoostError):
    """The database cannot be used."""


class LedgerTarget(Struct, frozen=True, kw_only=True):
    """data_dir or database: one of them, or neither: what `[database]` of the configuration says.

    pg_bin: the binaries of the private instance.
    """

    data_dir: Path | None
    database: str | None
    pg_bin: Path | None
    config: Config = None

    @classmethod
    def choose(
        cls, data_dir: Path | None, database: str | None, pg_bin: Path | None, config: Config = None
    ) -> "LedgerTarget":
        """Return the target that a command's options name. Raises typer.BadParameter."""
        if database and (data_dir or pg_bin):
            raise typer.BadParameter(
                "--database (or ROOST_DATABASE) brings its own PostgreSQL: leave out --data-dir and --pg-bin"
            )
        return cls(data_dir=data_dir, database=database or None, pg_bin=pg_bin, config=config)

    def resolve(self, settings: Settings | None = None) -> "LedgerTarget":
        """Return the target with what the configuration says, ./roost where that says nothing. Raises BadRequest.

        settings: the configuration, where it has been read before.
        """
        if self.data_dir or self.database:
            return self
        section = (settings or read_settings(self.config)).database
        pg_bin = self.pg_bin or (Path(section.pg_bin) if section.pg_bin else None)
        if database := section.read_url():
            return LedgerTarget(data_dir=None, database=database, pg_bin=None)
        return LedgerTarget(data_dir=Path(section.data_dir or "roost"), database=None, pg_bin=pg_bin)


@asynccontextmanager
async def open_ledger(target: LedgerTarget, *, create: bool, pool_size: int = 1) -> AsyncIterator[Database | None]:
    """Yield the ledger's database; a private one is started, or shared with those who run it.

    create: make it where it is missing, and bring its schema up to date; else nothing is made and None means that
    there is none. Raises TargetRefused, PostgresError, BadRequest.
    """
    target = target.resolve()
    if target.database is not None:
        async with _connect(target.database, create=create, pool_size=pool_size) as database:
            yield database
        return
    assert target.data_dir is not None
    postgres = PrivatePostgres(target.data_dir, pg_bin=target.pg_bin)
    if not create and not (postgres.cluster / "PG_VERSION").exists():
        yield None
        return
    await asyncio.to_thread(postgres.start)
    try:
        async with _connect(postgres.dsn, create=create, pool_size=pool_size) as database:
            yield database
    finally:
        await asyncio.to_thread(postgres.stop)


@asynccontextmanager
async def open_existing(
    target: LedgerTarget, *, pool_size: int = 1, schemas: Sequence[str] = ()
) -> AsyncIterator[Database]:
    """Yield the database as `open_ledger` does, without making anything.

    schemas: those that have to be of this version. Raises TargetRefused where they are not, or there is no database.
    """
    async with open_ledger(target, create=False, pool_size=pool_size) as database:
        if database is None:
            data_dir = target.resolve().data_dir
            assert data_dir is not None
            raise TargetRefused(
                f"there is no database in {data_dir.absolute()}: give roost serve's --data-dir or --database"
            )
        if schemas and (schemas_outdated := await list_outdated(database, schemas)):
            raise outdated(schemas_outdated)
        yield database


def outdated(schemas: Sequence[str]) -> TargetRefused:
    """Return the refusal of a database in which these schemas are of another version."""
    return TargetRefused(
        f"the schemas {', '.join(schemas)} of the database are not of this version of Roost: "
        "`roost serve` brings them up to date"
    )


@asynccontextmanager
async def connect(dsn: str, *, pool_size: int = 1) -> AsyncIterator[Database]:
    """Yield the database. Raises BadRequest, DatabaseUnavailable, DatabaseRefused, DatabaseTooOld."""
    database = await Database.open(dsn, size=pool_size)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def _connect(dsn: str, *, create: bool, pool_size: int) -> AsyncIterator[Database]:
    async with connect(dsn, pool_size=pool_size) as database:
        if create:
            await bring_up_to_date(database, ("placement",), contract=False)
        yield database
