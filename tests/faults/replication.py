"""A PostgreSQL and a standby of it, by real streaming replication."""

from pathlib import Path

from tests.postgres_servers import PG_BIN

from roost.platform.postgres import PrivatePostgres

REPLICATED = {"fsync": "off", "wal_level": "replica", "max_wal_senders": "4"}


def start_primary(data_dir: Path) -> PrivatePostgres:
    """Start a server that others may stream from."""
    server = PrivatePostgres(data_dir / "primary", pg_bin=PG_BIN, settings=REPLICATED)
    server.start()
    return server


def start_standby(primary: PrivatePostgres, data_dir: Path) -> PrivatePostgres:
    """Start a copy of the primary that streams from it, and for which no commit waits."""
    server = PrivatePostgres(data_dir / "standby", pg_bin=PG_BIN, settings=REPLICATED)
    server.data_dir.mkdir(mode=0o711)
    server._make_private(server.cluster)
    source = ("-h", str(primary.socket_dir), "-U", "roost")
    primary._run("pg_basebackup", *source, "-D", str(server.cluster), "-R", "-X", "stream", "-c", "fast")
    server.start()
    return server
